//! The checkers: one for each promise, each a function of the history of a run.
//!
//! They know the contract, not the controller. The contract says which persisted status must precede an
//! action, and which states must never be seen together, at every resourceVersion. The checkers read:
//!
//! - which Pods the controller made: those whose controller reference is a ConfigMap `{framework}-attempt`;
//! - which changes are the controller's: those that came over the wire from a client, unless its name begins
//!   with `user`. It may not end with `-member` either, as that of a replica's part that shares the slots. A
//!   restarted controller must be a client of another name than the one before it, such as `controller-1` and
//!   `controller-2`. The new one does not know the replies to the old one.
//!
//! A compressed status is decompressed; one that cannot be is reported as such.

pub mod creation;
pub mod follows_spec;
pub mod force;
pub mod guarantees;
pub mod guard;
pub mod lifetime;
pub mod loss;
pub mod no_pod_after_completion;
pub mod owners;
pub mod queue;
pub mod quiescence;
pub mod record;
pub mod rescale;
pub mod seizure;
pub mod snapshots;
pub mod status;

#[cfg(test)]
mod history_builder;
mod offers;
mod slot;
mod state_at;
mod violation;

pub use violation::{Checker, Violation};

use crate::history::History;

/// The checkers that hold at every moment of every run, by name. [`loss::check`] and
/// [`lifetime::check`] do too, for the limits that the controller was given; [`queue::check`] does where
/// there are queues, and [`rescale::ALWAYS`] where only the controller writes statuses. [`owners::check`]
/// and [`seizure::check`] do where several replicas share the Frameworks.
pub const ALWAYS: &[(&str, Checker)] = &[
    ("force", force::check),
    ("creation", creation::check),
    ("no_pod_after_completion", no_pod_after_completion::check),
    ("status", status::check),
    ("guard", guard::check),
    ("record", record::check),
    ("follows_spec", follows_spec::check),
];

/// Runs all checkers that hold at every moment; the violation with the lowest resourceVersion is returned.
///
/// # Errors
/// When a promise was broken.
pub fn always(history: &History) -> Result<(), Violation> {
    let violations = ALWAYS.iter().filter_map(|(_, check)| check(history).err());
    match violations.min_by_key(|violation| violation.rv) {
        Some(violation) => Err(violation),
        None => Ok(()),
    }
}

/// The same, and the checks that hold once nothing changes any more: nothing is left over, all has ended.
///
/// # Errors
/// When a promise was broken.
pub fn at_quiescence(history: &History) -> Result<(), Violation> {
    always(history)?;
    quiescence::check(history)?;
    quiescence::all_ended(history)
}
