//! The checkers: one for each promise, each a function of the history of a run.
//!
//! They know the contract, not the controller: what must stand in the persisted status before something is
//! done, and what must never be seen together, at every resourceVersion. They read:
//!
//! - which Pods the controller made: those whose controller reference is a ConfigMap `{framework}-attempt`;
//! - which changes are the controller's: those that came over the wire from a client, unless its name begins
//!   with `user`. A restarted controller must be a client of another name than the one before it, such as
//!   `controller-1` and `controller-2`: what the one was told, the other does not know.
//!
//! A compressed status is decompressed; one that cannot be is reported as such.

pub mod afterlife;
pub mod creation;
pub mod force;
pub mod guard;
pub mod lifetime;
pub mod loss;
pub mod queue;
pub mod record;
pub mod rest;
pub mod status;
pub mod wish;

mod scene;
#[cfg(test)]
mod story;

use std::fmt;

use crate::history::{Change, History};

/// A promise that was broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The promise.
    pub promise: &'static str,
    /// The resourceVersion of the change by which it was broken.
    pub rv: u64,
    /// The object that was changed: plural, namespace and name.
    pub object: String,
    /// What is wrong.
    pub what: String,
}

impl Violation {
    pub(crate) fn new(promise: &'static str, change: &Change, what: String) -> Self {
        let object = format!("{}/{}/{}", change.plural, change.namespace, change.name);
        Self { promise, rv: change.rv, object, what }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { promise, rv, object, what } = self;
        write!(f, "{promise}: at resourceVersion {rv}, {object}: {what}")
    }
}

impl std::error::Error for Violation {}

/// The form of every checker.
pub type Checker = fn(&History) -> Result<(), Violation>;

/// The checkers that hold at every moment of every run, by name. [`loss::check`] and
/// [`lifetime::check`] do too, for the limits that the controller was given; [`queue::check`] does where
/// there are queues.
pub const ALWAYS: &[(&str, Checker)] = &[
    ("force", force::check),
    ("creation", creation::check),
    ("afterlife", afterlife::check),
    ("status", status::check),
    ("guard", guard::check),
    ("record", record::check),
    ("wish", wish::check),
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
pub fn at_rest(history: &History) -> Result<(), Violation> {
    always(history)?;
    rest::check(history)?;
    rest::all_ended(history)
}
