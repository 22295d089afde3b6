//! The fields on which the end of a TrainJob depends, and those of its JobSet.

use std::ops::RangeInclusive;

use framework_api::Time;
use framework_api::code::DEADLINE_EXCEEDED;
use framework_api::job_kind::{DEADLINE_ANNOTATION, DeadlineBy, JobKindRow, TTL_ANNOTATION};
use framework_api::seconds::{ACTIVE_DEADLINE, TTL_AFTER_FINISHED, WholeNumber};
use framework_core::lifetime::Lifetime;
use framework_queueing::{ChildEnd, ChildObject, ConditionPlace, DeadlineCondition, JobLifetime};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::typed::{ConditionWire, Metadata};

/// The condition of a TrainJob or a JobSet that failed.
const FAILED: &str = "Failed";
/// That of a JobSet that completed.
const COMPLETED: &str = "Completed";
/// The value of `spec.managedBy` of the TrainJobs that Trainer itself runs, which is also the default.
const TRAINER: &str = "trainer.kubeflow.org/trainjob-controller";

#[derive(Deserialize)]
struct Job {
    #[serde(default)]
    metadata: Annotated,
    #[serde(default)]
    spec: Option<Spec>,
    #[serde(default)]
    status: Option<Status>,
}

#[derive(Default, Deserialize)]
struct Annotated {
    #[serde(default)]
    annotations: Option<LifetimeAnnotations>,
}

#[derive(Default, Deserialize)]
struct LifetimeAnnotations {
    #[serde(rename = "frameworkcontroller.microsoft.com/activeDeadlineSeconds")]
    deadline: Option<String>,
    #[serde(rename = "frameworkcontroller.microsoft.com/ttlSecondsAfterFinished")]
    ttl: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    active_deadline_seconds: Option<WholeNumber>,
    ttl_seconds_after_finished: Option<WholeNumber>,
    managed_by: Option<String>,
}

#[derive(Default, Deserialize)]
struct Status {
    conditions: Option<Vec<ConditionWire>>,
}

/// Reads when a job ends; `None`: jobs of its kind have no lifetimes.
pub fn read(
    json: &RawValue,
    row: &JobKindRow,
    created: Option<Timestamp>,
) -> Result<Option<JobLifetime>, String> {
    let Some(by) = row.deadline else { return Ok(None) };
    let job: Job = serde_json::from_str(json.get()).map_err(|error| error.to_string())?;
    let (spec, annotations) = (job.spec.unwrap_or_default(), job.metadata.annotations.unwrap_or_default());
    let mut ignored = Vec::new();
    let mut seconds = |field, value: Option<WholeNumber>, bounds: &RangeInclusive<i64>| {
        let found = value?.within(bounds);
        if found.is_none() {
            let (least, most) = (bounds.start(), bounds.end());
            ignored.push(format!("{field} is not a whole number from {least} to {most}, and has no effect"));
        }
        found
    };
    // An annotation is text. One that is no number is as wrong as another value.
    let number = |text: String| WholeNumber(text.parse().ok());
    let (ttl, deadline) = (annotations.ttl.map(number), annotations.deadline.map(number));
    let ttl = match spec.ttl_seconds_after_finished {
        Some(field) => seconds("spec.ttlSecondsAfterFinished", Some(field), &TTL_AFTER_FINISHED),
        None => seconds(TTL_ANNOTATION, ttl, &TTL_AFTER_FINISHED),
    };
    let mut deadline = match spec.active_deadline_seconds.filter(|_| by == DeadlineBy::Ours) {
        Some(field) => seconds("spec.activeDeadlineSeconds", Some(field), &ACTIVE_DEADLINE),
        None => seconds(DEADLINE_ANNOTATION, deadline, &ACTIVE_DEADLINE),
    };
    if let Some(other) = spec.managed_by.filter(|other| !other.is_empty() && other != TRAINER)
        && deadline.take().is_some()
    {
        ignored.push(format!("the deadline has no effect, because spec.managedBy is {other}"));
    }
    let conditions = job.status.as_ref().map(|status| status.conditions.as_deref());
    let ends = conditions.flatten().into_iter().flatten();
    let ends = ends.filter(|one| one.is_true() && row.finished.conditions.contains(&one.type_));
    let first = ends.min_by_key(|end| since(end));
    let lifetime = Lifetime { created: created.map(Time::floor), deadline, finished: first.map(since), ttl };
    let is_overdue = first.is_some_and(is_deadline);
    Ok(Some(JobLifetime { lifetime, is_overdue, place: place(conditions), ignored }))
}

/// Reads the JobSet of a TrainJob.
pub fn child(body: &[u8]) -> Result<ChildObject, serde_json::Error> {
    #[derive(Deserialize)]
    struct JobSet {
        metadata: Metadata,
        #[serde(default)]
        status: Option<Status>,
    }
    let JobSet { metadata, status } = serde_json::from_slice(body)?;
    let conditions = status.as_ref().map(|status| status.conditions.as_deref());
    let mut ends = conditions.flatten().into_iter().flatten();
    let end = ends.find(|one| one.is_true() && [FAILED, COMPLETED].contains(&one.type_.as_str()));
    let end = match end {
        None => ChildEnd::None,
        Some(end) if is_deadline(end) => ChildEnd::Deadline(DeadlineCondition {
            at: since(end),
            message: end.message.clone().unwrap_or_default(),
        }),
        Some(_) => ChildEnd::Other,
    };
    let (_, resource_version) = metadata.identity();
    let controller = metadata.controller().map(|owner| owner.uid.as_str().into());
    Ok(ChildObject { uid: metadata.uid(), resource_version, controller, end, place: place(conditions) })
}

/// When a condition became true. Without a time nothing is deleted.
fn since(condition: &ConditionWire) -> Time {
    Time::floor(condition.last_transition_time.unwrap_or(Timestamp::MAX))
}

fn is_deadline(condition: &ConditionWire) -> bool {
    condition.type_ == FAILED && condition.reason.as_deref() == Some(DEADLINE_EXCEEDED)
}

/// The place for the condition that an object failed, in a status with such conditions.
fn place(conditions: Option<Option<&[ConditionWire]>>) -> ConditionPlace {
    match conditions {
        None => ConditionPlace::NoStatus,
        Some(None) => ConditionPlace::NoConditions,
        Some(Some(conditions)) => {
            let found = conditions.iter().position(|one| one.type_ == FAILED);
            found.map_or(ConditionPlace::Last, ConditionPlace::At)
        }
    }
}

#[cfg(test)]
mod tests;
