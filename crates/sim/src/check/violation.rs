//! The form of a checker, and its answer when a promise was broken.

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
    /// The breach in words.
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
