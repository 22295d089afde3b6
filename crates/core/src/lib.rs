//! The pure core of the controller: it decides the next step of a Framework.
//!
//! [`sync`](sync::sync) maps an observation of one Framework, a moment and a policy to a [`Plan`]. A plan
//! has the status to persist, the acts that the *persisted* status permits, the time of the next sync, and
//! reports. `sync` never fails and never panics on input.
//!
//! Architecture invariant: no I/O, clock, randomness, environment or global state in this crate. Time and
//! randomness enter only through [`Moment`]. `tests/repo/architecture.rs` holds it.

#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)
)]

pub mod act;
mod allowance;
pub mod batch;
mod begin;
pub mod cached;
pub mod classify;
pub mod completion;
mod create;
mod defect;
pub mod deferrable;
mod event_reason;
pub mod first_attempt;
mod framework;
pub mod growth;
pub mod ideal_cluster;
pub mod instance_uid;
mod left_pods;
pub mod lifetime;
mod moment;
mod next_attempt;
pub mod observed;
pub mod permit;
pub mod plan;
pub mod pod;
mod pod_facts;
pub mod pod_map;
mod policy;
pub mod queue;
mod rescale;
pub mod retry;
pub mod size;
mod size_limits;
pub mod snapshot;
pub mod summary;
pub mod sync;
mod task;
pub mod truncate;

pub use defect::{Defect, Defects, SWITCHABLE};
pub use event_reason::EventReason;
pub use observed::{Moment, Observed, Policy};
pub use plan::{Action, Plan, Urgency};
pub use sync::sync;
