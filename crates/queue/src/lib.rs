//! The pure scheduler of queues: it decides which units are released next, and why the others wait.
//!
//! A [`Namespace`] takes facts one at a time: queues, units, quotas, the usage of our own Pods. It decides in
//! rounds: [`round`](Namespace::round) maps the facts and a moment to [`Decision`]s. The cost of a round
//! depends on the changes since the last one. The rule is in `docs/queue-scheduling.md`, under "The
//! rule"; the order of the fields in [`order`] implements it.
//!
//! Architecture invariant: no I/O, clock, randomness, environment or global state in this crate. The time
//! enters only through `round`. `tests/repo/architecture.rs` holds it.

#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)
)]

pub mod amount;
pub mod decision;
pub mod facts;
mod limits;
pub mod namespace;
pub mod order;
mod pod;
pub mod requests;
mod shape;

pub use amount::Amount;
pub use decision::{Decision, Shortage, UnitUpdate, WaitReason};
pub use facts::{QueueFacts, QuotaFacts, UnitFacts, UnitPhase};
pub use namespace::Namespace;
pub use namespace::position::Position;
pub use requests::ResourceRequests;
