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

pub mod event;
pub mod admin;
pub mod client;
pub mod clock;
pub mod health;
pub mod metrics;
pub mod pace;
pub mod recorder;
pub mod reply;
pub mod request;
pub mod seeds;
pub mod send;
pub mod watch;
pub mod wire;
