//! Whether a Framework waits in a queue, and whether a queue released it.
//!
//! A label names the queue, and is read until the ConfigMap of the first attempt is recorded. The condition
//! [`QUEUED`] stores the result, so that later changes of the label have no effect and a restart forgets
//! nothing. The scheduler of queues decides the order; this module only follows its answer.

use framework_api::queue::QUEUE_NAME_LABEL;
use framework_api::{ExecutionType, Framework, FrameworkStatus, State};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::event_reason::EventReason;
use crate::observed::{Admission, Observed, Outcome, Policy};
use crate::plan::Report;
use crate::truncate::truncate;

/// Condition type: the Framework waits in a queue.
pub const QUEUED: &str = "Queued";
/// Reason of [`QUEUED`] while it is True: its queue has not answered yet.
pub const PENDING: &str = "Pending";
/// Reason of [`QUEUED`] once it is False: the queue released the Framework. It stays so.
pub const ADMITTED: &str = "Admitted";
/// Reason of [`QUEUED`] once it is False: the Framework no longer waits, and was not released.
pub const NOT_QUEUED: &str = "NotQueued";
/// The message of a released Framework, before the name of the queue.
const RELEASED: &str = "released from queue ";
/// The largest weight of the message of a condition.
const MOST_MESSAGE: usize = 2000;

/// The stage of a Framework, as its queue sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Nothing of its first attempt is recorded.
    Waiting,
    /// Its first attempt has begun, or ended before it could; it stays so through retries and their delays.
    Started,
    /// It completed.
    Finished,
}

/// The stage of a Framework with this status.
pub fn stage(status: Option<&FrameworkStatus>) -> Stage {
    match status {
        Some(status) if status.state == State::Completed => Stage::Finished,
        Some(status) if status.attempt_status.id > 0 || status.state != State::AttemptCreationPending => {
            Stage::Started
        }
        _ => Stage::Waiting,
    }
}

/// The queue in which a Framework has to wait, or that released it, while queueing is on.
///
/// While it waits, the label names the queue, unless the Framework is held, stopped or being deleted. Later
/// the condition names it; a Framework that was never released has none.
pub fn is_queued<'a>(framework: &'a Framework, status: Option<&'a FrameworkStatus>) -> Option<&'a str> {
    match (stage(status), status) {
        (Stage::Started | Stage::Finished, Some(status)) => match queued_state(status) {
            QueuedState::Admitted(condition) => Some(queue_of(condition, framework)),
            QueuedState::Waiting(_) | QueuedState::None => None,
        },
        _ => asked(framework),
    }
}

/// Whether a Framework names a queue, so that it may have a unit.
pub fn names_one(framework: &Framework) -> bool {
    label(framework).is_some()
}

/// Whether a Framework with this status ever waited in a queue, so that its unit may still be there.
pub fn has_waited(status: Option<&FrameworkStatus>) -> bool {
    let mut conditions = status.into_iter().flat_map(|status| &status.conditions);
    conditions.any(|condition| condition.type_ == QUEUED)
}

/// The queue that the objects of a Framework are labelled with.
pub(crate) fn mark<'a>(framework: &'a Framework, status: &'a FrameworkStatus) -> Option<&'a str> {
    match queued_state(status) {
        QueuedState::Admitted(condition) => Some(queue_of(condition, framework)),
        QueuedState::Waiting(_) => label(framework),
        // It may be released before its wait is written: that is recorded with its ConfigMap.
        QueuedState::None => label(framework).filter(|_| stage(Some(status)) == Stage::Waiting),
    }
}

/// Whether the ConfigMap of the first attempt may not be created yet.
pub fn waits(status: &FrameworkStatus, o: &Observed<'_>, policy: &Policy) -> bool {
    policy.queueing && is_unreleased(o.framework, status) && !is_released(o)
}

/// Whether a Framework, by its stored object, is to wait in a queue that has not released it: only its unit
/// shows more.
pub fn is_unreleased(framework: &Framework, status: &FrameworkStatus) -> bool {
    stage(Some(status)) == Stage::Waiting
        && asked(framework).is_some()
        && !matches!(queued_state(status), QueuedState::Admitted(_))
}

/// Whether a queue released it: that is stored, or its ConfigMap is being created. Until then it begins
/// only with the Tasks of its first unit.
pub(crate) fn is_through(status: &FrameworkStatus, o: &Observed<'_>, policy: &Policy) -> bool {
    let is_begun = policy.queueing
        && stage(Some(status)) == Stage::Waiting
        && asked(o.framework).is_some()
        && is_under_way(o);
    is_begun || matches!(queued_state(status), QueuedState::Admitted(_))
}

/// The stage of a Framework, by its status and by creates in flight: a released one does not wait.
///
/// One that is being deleted creates no ConfigMap any more, though it may have been released. It waits until
/// it is gone, unless its first ConfigMap is there or may come, and may yet be recorded.
pub fn stage_now(o: &Observed<'_>, policy: &Policy) -> Stage {
    let begins = |status: &FrameworkStatus| match o.framework.metadata.deletion_timestamp {
        Some(_) => is_under_way(o) || o.objects.config_map.as_ref().is_some_and(|map| map.is_of(o.framework)),
        None => is_through(status, o, policy),
    };
    match stage(o.status) {
        Stage::Waiting if o.status.is_some_and(begins) => Stage::Started,
        stage => stage,
    }
}

/// The queue that the label names. An empty label names none.
fn label(framework: &Framework) -> Option<&str> {
    let labels = framework.metadata.labels.as_ref()?;
    labels.get(QUEUE_NAME_LABEL).map(String::as_str).filter(|queue| !queue.is_empty())
}

/// The queue that the label names, if the Framework is to be started.
fn asked(framework: &Framework) -> Option<&str> {
    let is_wanted = framework.spec.execution_type == ExecutionType::Start
        && framework.metadata.deletion_timestamp.is_none();
    label(framework).filter(|_| is_wanted)
}

/// Whether its queue releases it now, or has released it: a ConfigMap in flight is not taken back.
fn is_released(o: &Observed<'_>) -> bool {
    let current = o.framework.metadata.generation.unwrap_or_default();
    let is_let_go = matches!(o.admission, Some(Admission::Released { generation }) if *generation == current);
    is_let_go || is_under_way(o)
}

/// Whether its ConfigMap is being created.
fn is_under_way(o: &Observed<'_>) -> bool {
    let create = o.objects.config_map_create.as_ref().map(|create| &create.outcome);
    matches!(create, Some(Outcome::InFlight | Outcome::Acknowledged { .. }))
}

/// The state that the condition stores.
enum QueuedState<'a> {
    /// The condition is not there, or the Framework has left the queue without being released.
    None,
    Waiting(&'a Condition),
    Admitted(&'a Condition),
}

fn queued_state(status: &FrameworkStatus) -> QueuedState<'_> {
    match status.conditions.iter().find(|condition| condition.type_ == QUEUED) {
        Some(condition) if condition.status == "True" => QueuedState::Waiting(condition),
        Some(condition) if condition.reason == ADMITTED => QueuedState::Admitted(condition),
        _ => QueuedState::None,
    }
}

fn queue_of<'a>(admitted: &'a Condition, framework: &'a Framework) -> &'a str {
    admitted.message.strip_prefix(RELEASED).or_else(|| label(framework)).unwrap_or_default()
}

/// The next value of the condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum QueuedCondition {
    /// The condition stays as it is, if it exists.
    Unchanged,
    /// The condition is True.
    True { reason: String, message: String },
    /// The condition is False permanently, or until the label is set again.
    False { reason: &'static str, message: String },
}

/// The next value of the condition with this next status.
pub(crate) fn queued_condition(next: &FrameworkStatus, o: &Observed<'_>, policy: &Policy) -> QueuedCondition {
    let known = queued_state(next);
    if waits(next, o, policy) {
        return match (known, o.admission) {
            (QueuedState::Waiting(known), Some(Admission::Waiting { reason, .. }))
                if known.reason == *reason =>
            {
                QueuedCondition::kept(known)
            }
            (_, Some(Admission::Waiting { reason, message })) => {
                let message = truncate(message, MOST_MESSAGE).into_owned();
                QueuedCondition::True { reason: reason.clone(), message }
            }
            // Its queue has not answered since the controller started: its last answer still holds.
            (QueuedState::Waiting(known), _) => QueuedCondition::kept(known),
            _ => {
                let message =
                    format!("waits to be put into queue {}", label(o.framework).unwrap_or_default());
                QueuedCondition::True { reason: PENDING.to_owned(), message }
            }
        };
    }
    let is_begun = next.attempt_status.config_map_uid.is_some();
    let begins = is_begun || stage(Some(next)) == Stage::Waiting && asked(o.framework).is_some();
    let queue = label(o.framework).filter(|_| policy.queueing && begins && is_released(o));
    // It was released before its wait was written. A label that was added later has no effect.
    let was_released = matches!(o.admission, Some(Admission::Released { .. }));
    let at_once = stage(o.status) == Stage::Waiting && was_released;
    match (known, queue) {
        (QueuedState::Admitted(_), _) | (QueuedState::None, None) => QueuedCondition::Unchanged,
        (QueuedState::None, Some(_)) if !at_once => QueuedCondition::Unchanged,
        (_, Some(queue)) => {
            QueuedCondition::False { reason: ADMITTED, message: format!("{RELEASED}{queue}") }
        }
        (QueuedState::Waiting(_), None) => {
            QueuedCondition::False { reason: NOT_QUEUED, message: why_not(next, o, policy).to_owned() }
        }
    }
}

/// The reason why a Framework no longer waits although it was not released.
fn why_not(next: &FrameworkStatus, o: &Observed<'_>, policy: &Policy) -> &'static str {
    if next.attempt_status.completion_status.is_some() {
        "the Framework ended while it waited"
    } else if o.framework.metadata.deletion_timestamp.is_some() {
        "the Framework is being deleted"
    } else if !policy.queueing {
        "queueing is switched off"
    } else {
        "the label that named a queue was removed"
    }
}

impl QueuedCondition {
    fn kept(known: &Condition) -> Self {
        QueuedCondition::True { reason: known.reason.clone(), message: known.message.clone() }
    }

    /// The value that a released Framework keeps until another change, the ConfigMap, has to be written.
    pub fn postponed(&self, status: &FrameworkStatus) -> Option<QueuedCondition> {
        match (self, queued_state(status)) {
            (QueuedCondition::False { reason: ADMITTED, .. }, QueuedState::Waiting(known)) => {
                Some(QueuedCondition::kept(known))
            }
            (QueuedCondition::False { reason: ADMITTED, .. }, _) => Some(QueuedCondition::Unchanged),
            _ => None,
        }
    }

    /// The report for users. The condition shows that it waits, and the Events of its unit show why.
    pub fn report(&self) -> Option<Report> {
        match self {
            QueuedCondition::False { reason: ADMITTED, message } => {
                Some(Report::normal(EventReason::Admitted, message.clone()))
            }
            _ => None,
        }
    }
}
