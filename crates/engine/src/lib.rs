//! Decides which requests are sent to the API server for Frameworks, and when.
//!
//! [`engine::Engine`] takes in [`event::Event`]s and gives out [`event::Effect`]s. It keeps the objects that
//! the watches show (`object_cache`), the state of each Framework (`framework_state`) and its time
//! ([`framework_message::Dues`]). It sends requests in a fair order (`dispatch`) within the request
//! `budget`.
//! `framework_core::sync` decides the next step of a Framework.
//!
//! This crate is synchronous and deterministic: the same events at the same times with the same seeds give
//! the same effects. It does no I/O, reads no clock and draws no random numbers.

mod budget;
mod cache;
pub mod compression;
mod concurrency;
mod consumers;
mod delayed;
mod deletions;
mod dispatch;
mod drain;
pub mod engine;
pub mod event;
mod expectations;
mod framework_state;
pub mod gauges;
mod grants;
pub mod history;
mod in_flight;
pub mod last_seen;
mod logged_lines;
pub mod object;
mod object_cache;
mod outbox;
pub mod outcomes;
mod outgoing;
mod persisted;
mod probes;
pub mod quarantine;
mod redact;
mod refusal;
mod refusal_text;
mod reported;
pub mod request;
mod retry;
mod schedule;
mod server_clock;
pub mod server_time;
mod server_time_probe;
mod status_write;
pub mod traces;
mod trouble;
mod windows;
