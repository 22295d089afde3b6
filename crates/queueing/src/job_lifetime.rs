//! The facts that decide when a job of a declared kind ends, and the condition that ends it.

use std::sync::Arc;

use framework_api::Time;
use framework_core::lifetime::Lifetime;

/// When a job is ended and deleted, and the facts about its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobLifetime {
    /// Creation, end, and the seconds that we enforce.
    pub lifetime: Lifetime,
    /// Whether it failed by a deadline.
    pub is_overdue: bool,
    /// The place for the condition that it failed.
    pub place: ConditionPlace,
    /// The fields and annotations without effect, each with the reason.
    pub ignored: Vec<String>,
}

/// The place of a condition in a status. A JSON patch has to add the missing parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConditionPlace {
    /// There is no status.
    NoStatus,
    /// The status has no conditions.
    NoConditions,
    /// The list of conditions has none of that type.
    Last,
    /// The list has one of that type, which is not true.
    At(usize),
}

/// The JobSet of a TrainJob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChildObject {
    /// `metadata.uid`.
    pub uid: Arc<str>,
    /// `metadata.resourceVersion`.
    pub resource_version: u128,
    /// UID of the object that controls it.
    pub controller: Option<Arc<str>>,
    /// How it ended.
    pub end: ChildEnd,
    /// The place for the condition that it failed.
    pub place: ConditionPlace,
}

/// How a JobSet ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChildEnd {
    /// It has not.
    None,
    /// It failed by a deadline.
    Deadline(DeadlineCondition),
    /// It completed, or failed for another reason.
    Other,
}

/// The condition `Failed` with the reason `DeadlineExceeded`. JobSet and TrainJob get the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadlineCondition {
    /// `lastTransitionTime`.
    pub at: Time,
    /// `message`.
    pub message: String,
}
