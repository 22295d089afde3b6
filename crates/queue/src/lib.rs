//! Who is released next, and why the others wait: the pure scheduler of queues.
//!
//! A [`Namespace`] is told facts (queues, units, quotas, what our own Pods use) one at a time, and decides in
//! rounds: [`round`](Namespace::round) maps them and a moment to [`Decision`]s. What a round costs follows
//! what changed since the last one. The rule is one paragraph of `docs/queue-scheduling.md`; it is written
//! down as the order of the fields of [`order`].
//!
//! Architecture invariant: no I/O, clock, randomness, environment or global state in this crate. The time
//! enters only through `round`. `tests/repo/architecture.rs` holds it.

#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)
)]

pub mod amount;
pub mod ask;
pub mod decision;
pub mod facts;
mod limits;
pub mod namespace;
pub mod order;
mod pod;
mod shape;

pub use amount::Amount;
pub use ask::Ask;
pub use decision::{Decision, Lack, Refusal, Verdict};
pub use facts::{QueueFacts, QuotaFacts, Standing, UnitFacts};
pub use namespace::{Namespace, Position};
