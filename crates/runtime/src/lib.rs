//! The async shell around the engine and the queues: watches, requests, wire decoding, compression, Events,
//! history, slot labels, membership, metrics, traces and endpoints.
//!
//! ```text
//! watch ─▶ Event ─▶ Engine, FrameworkUnits, QueueController ─▶ Request ─▶ API server
//!   ▲                                                                       │
//!   └───────────────────────────── Reply ◀──────────────────────────────────┘
//! ```
//!
//! `framework_engine` and `framework_queueing` decide; this crate only moves bytes and reads the clock.
//! [`run`](run::run) ties them together.

pub mod access_review;
pub mod admin;
mod alarm;
pub mod body_room;
pub mod client;
pub mod clock;
pub mod compression;
mod echo;
pub mod event;
mod exchange;
mod fencing_token;
pub mod health;
pub mod journal;
pub mod listener;
mod metadata_only;
pub mod metrics;
mod pace;
pub mod position_query;
mod recorder;
mod reply;
mod request;
pub mod run;
pub mod seeds;
pub mod send;
pub mod shards_query;
pub mod stall;
pub mod stderr;
pub mod traces;
mod wall_clock;
pub mod watch;
pub mod wire;
