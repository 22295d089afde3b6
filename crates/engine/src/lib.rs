//! Decides which requests are sent to the API server for Frameworks, and when.
//!
//! [`engine::Engine`] takes in [`event::Event`]s and gives out [`event::Effect`]s. It keeps the objects that
//! the watches show ([`object_cache`]), the state of each Framework ([`framework_state`]) and its time
//! ([`framework_message::Dues`]). It sends requests in a fair order ([`dispatch`]) within the request
//! [`budget`].
//! `framework_core::sync` decides the next step of a Framework.
//!
//! This crate is synchronous and deterministic: the same events at the same times with the same seeds give
//! the same effects. It does no I/O, reads no clock and draws no random numbers.

pub mod budget;
pub mod cache;
pub mod compression;
pub mod concurrency;
pub mod consumer;
pub mod delayed;
pub mod deletions;
pub mod dispatch;
pub mod drain;
pub mod engine;
pub mod event;
pub mod expectations;
pub mod framework_state;
pub mod gauges;
pub mod grants;
pub mod history;
pub mod in_flight;
pub mod last_seen;
pub mod logged_lines;
pub mod object;
pub mod object_cache;
pub mod outbox;
pub mod outcomes;
pub mod outgoing;
pub mod persisted;
pub mod probes;
pub mod quarantine;
pub mod redact;
pub mod refusal;
pub mod reported;
pub mod request;
pub mod retry;
pub mod schedule;
pub mod server_clock;
pub mod server_time;
pub mod server_time_probe;
pub mod status_write;
pub mod traces;
pub mod trouble;
pub mod windows;
