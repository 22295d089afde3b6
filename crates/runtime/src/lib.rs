//! How it gets done: the shell around the core. The only async crate that ships.
//!
//! ```text
//! watch ─▶ Event ─▶ Engine { cache, ledgers, ready set, budget } ─▶ Effect ─▶ requests ─▶ API server
//!   ▲                         │  batch of Observed ─▶ rayon: core::sync ─▶ Plan                 │
//!   └─────────────────────────┴──────────────────────── replies ◀──────────────────────────────┘
//! ```
//!
//! All that decides is in [`engine`], a synchronous struct stepped by [`event::Event`]s: it does no I/O and
//! reads no clock. The async parts only move bytes. [`run`](run::run) ties them together.

pub mod admin;
pub mod backoff;
pub mod budget;
pub mod cache;
pub mod client;
pub mod clock;
pub mod departures;
pub mod dispatch;
pub mod echo;
pub mod engine;
pub mod event;
pub mod health;
pub mod history;
pub mod holds;
pub mod inquiry;
pub mod journal;
pub mod known;
pub mod ledger;
pub mod metrics;
pub mod outbox;
pub mod ownership;
pub mod pace;
pub mod pack;
pub mod quarantine;
pub mod queue;
pub mod ready;
pub mod recorder;
pub mod records;
pub mod refusal;
pub mod remaining;
pub mod reply;
pub mod request;
pub mod run;
pub mod seeds;
pub mod send;
pub mod server_time;
pub mod stall;
pub mod status_write;
pub mod stderr;
pub mod watch;
pub mod wire;
