//! What should happen next: the pure core of the controller.
//!
//! [`sync`](sync::sync) maps what is observed of one Framework, a moment and a policy to a
//! [`Plan`]: the status to persist, the acts that the *persisted* status licenses, when to
//! look again, and what to report. It never fails and never panics on input.
//!
//! Architecture invariant: no I/O, clock, randomness, environment or global state in this crate. Time and
//! randomness enter only through [`Moment`]. `tests/repo/architecture.rs` holds it.

#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)
)]

pub mod act;
pub mod batch;
pub mod cached;
pub mod classify;
pub mod completion;
pub mod cut;
mod framework;
pub mod growth;
pub mod instance;
pub mod licence;
pub mod lifetime;
pub mod observed;
pub mod plan;
pub mod pod;
pub mod queue;
pub mod quiet;
mod rescale;
pub mod retry;
mod sequel;
pub mod size;
pub mod snapshot;
pub mod summary;
pub mod sync;
mod task;

pub use observed::{Moment, Observed, Policy};
pub use plan::{Action, Plan, Urgency};
pub use sync::sync;
