//! Kinds of jobs that wait in queues, all but Frameworks: a row names the places of the few fields that
//! queueing reads and writes.
//!
//! A place is a JSON pointer in which `*` stands for each element of a list, or each value of an object. The
//! number of Pods of a template is a product of minima. There is no expression language: each row is bounded
//! work, and a mistake in it is found at the start.

mod check;
mod operand;
mod pointer;
mod refusal;

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde::Deserialize;

pub use operand::Operand;
pub use pointer::{Part, Pointer, escaped};

/// Annotation of a TrainJob with the seconds from its creation after which it is ended as failed.
pub const DEADLINE_ANNOTATION: &str = "frameworkcontroller.microsoft.com/activeDeadlineSeconds";
/// Annotation of a TrainJob with the seconds from its end after which it is deleted.
pub const TTL_ANNOTATION: &str = "frameworkcontroller.microsoft.com/ttlSecondsAfterFinished";

/// The rows that need no config file.
const BUILT_IN: &str = include_str!("../data/job_kinds.yaml");
/// Kinds whose rows the config file may not replace: queueing knows more of them than a row says.
const RESERVED: [&str; 3] = ["Framework", "Job", "JobSet"];

/// A kind of jobs, and the places of its fields.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct JobKindRow {
    /// Group and version, such as `kubeflow.org/v1`.
    #[serde(deserialize_with = "check::api_version")]
    pub api_version: String,
    /// Its `kind`.
    #[serde(deserialize_with = "check::kind")]
    pub kind: String,
    /// Its resource, as URLs name it.
    #[serde(deserialize_with = "check::plural")]
    pub plural: String,
    /// Whether a job of it waits.
    pub suspend: Suspend,
    /// Sets of equal Pods: it requests their sum.
    #[serde(default, deserialize_with = "check::entries")]
    pub pod_sets: Vec<PodSet>,
    /// The object whose Pod sets it requests as soon as that is there; before, `ask` says them.
    #[serde(default)]
    pub child: Option<Child>,
    /// Instead of Pod sets, an annotation whose value is a resource list as JSON: for jobs whose Pods are not
    /// known beforehand.
    #[serde(default, deserialize_with = "check::some_annotation")]
    pub ask: Option<String>,
    /// Whether a job of it has ended.
    pub finished: Finished,
    /// The PriorityClass: the first of these places that names one.
    #[serde(default, deserialize_with = "check::entries")]
    pub priority_class: Vec<Pointer>,
    /// The program that ends a TrainJob at its `spec.activeDeadlineSeconds`. If unset, its jobs have no
    /// lifetimes.
    #[serde(default)]
    pub deadline: Option<DeadlineBy>,
}

/// The program that ends a job at the deadline that its spec names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DeadlineBy {
    /// The operator of its kind.
    Operator,
    /// This controller.
    Ours,
}

/// An object that an operator makes of a job, and that says more of its Pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Child {
    /// A JobSet of the same name, which the job controls.
    JobSet,
}

/// Whether a job waits, and the write that lets it begin.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Suspend {
    /// A field, which is `true` while it waits.
    Pointer(#[serde(deserialize_with = "check::place")] Pointer),
    /// An annotation, which is `"true"` while it waits.
    Annotation(#[serde(deserialize_with = "check::annotation")] String),
}

/// Sets of equal Pods, one for each value at a place.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PodSet {
    /// The values; if unset, the job itself. A place that a job does not have stands for no Pods.
    #[serde(default)]
    pub each: Pointer,
    /// The number of Pods: a product, of which each factor is the smallest of its numbers. Within each value.
    #[serde(default, deserialize_with = "operand::count")]
    pub count: Vec<Vec<Operand>>,
    /// The Pod template, within each value.
    #[serde(deserialize_with = "check::place")]
    pub template: Pointer,
    /// The requests of a Pod that has no template. If unset, a template is required.
    #[serde(default)]
    pub without_template: Option<BTreeMap<String, Quantity>>,
}

/// Whether a job has ended: by its conditions, or by a field.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Finished {
    /// One of these conditions in `status.conditions` is true.
    #[serde(deserialize_with = "check::entries")]
    pub conditions: Vec<String>,
    /// The field at this place has one of these values.
    #[serde(deserialize_with = "check::some_place")]
    pub pointer: Option<Pointer>,
    /// The values.
    #[serde(deserialize_with = "check::entries")]
    pub values: Vec<String>,
}

impl JobKindRow {
    /// The API group.
    pub fn group(&self) -> &str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
    }

    /// Whether it is the kind whose child is a JobSet of the same name.
    pub fn is_train_job(&self) -> bool {
        self.group() == "trainer.kubeflow.org" && self.kind == "TrainJob"
    }

    /// The version in the group.
    pub fn version(&self) -> &str {
        self.api_version.split_once('/').map_or("", |(_, version)| version)
    }
}

/// Name of the unit of a job of that kind: `pytorchjob-{name}`.
pub fn unit_name(kind: &str, job: &str) -> String {
    format!("{}-{job}", kind.to_ascii_lowercase())
}

/// The rows that count: those of the config file, and the built-in ones of all other kinds.
pub fn in_force(own: &[JobKindRow]) -> Vec<JobKindRow> {
    let is_replaced = |row: &JobKindRow| own.iter().any(|other| same_units(&row.kind, &other.kind));
    own.iter().cloned().chain(built_in().into_iter().filter(|row| !is_replaced(row))).collect()
}

/// The built-in rows.
pub fn built_in() -> Vec<JobKindRow> {
    // The text is compiled in and a test parses it, so there is no error to report at run time.
    serde_saphyr::from_str(BUILT_IN).unwrap_or_default()
}

/// Whether the units of two kinds would have the same names.
fn same_units(kind: &str, other: &str) -> bool {
    kind.eq_ignore_ascii_case(other)
}

/// Reads the rows of a config file. Each kind has one row there, and none is reserved.
pub(crate) fn own<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Vec<JobKindRow>>, D::Error> {
    let rows = Option::<Vec<JobKindRow>>::deserialize(deserializer)?;
    for (position, row) in rows.iter().flatten().enumerate() {
        let kind = &row.kind;
        let earlier = rows.iter().flatten().take(position);
        if let Some((value, allowed)) = contradiction(row) {
            return Err(refusal::refused(format_args!("{kind}: {value}"), allowed));
        }
        if RESERVED.iter().any(|reserved| same_units(reserved, kind)) {
            return Err(refusal::refused(kind, "a kind other than Framework, Job and JobSet"));
        }
        if earlier.into_iter().any(|earlier| same_units(&earlier.kind, kind)) {
            return Err(refusal::refused(kind, "one row for each kind"));
        }
    }
    Ok(rows)
}

/// Two keys of a row of which one rules the other out, and the allowed ones.
fn contradiction(row: &JobKindRow) -> Option<(&'static str, &'static str)> {
    let finished = &row.finished;
    let by_field = finished.pointer.is_some();
    if row.pod_sets.is_empty() == row.ask.is_none() {
        return Some(("podSets with ask, or neither", "podSets or ask"));
    }
    if row.child.is_some() && row.ask.is_none() {
        return Some(("child without ask", "child with ask"));
    }
    if row.deadline.is_some() && !row.is_train_job() {
        return Some(("deadline", "deadline for TrainJob of trainer.kubeflow.org"));
    }
    if by_field == finished.values.is_empty() || by_field != finished.conditions.is_empty() {
        return Some(("this finished", "conditions, or pointer and values"));
    }
    None
}

#[cfg(test)]
mod tests;
