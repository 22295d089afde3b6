//! The summary for people and `kubectl wait`: conditions, task counts and the `Tasks` column.
//!
//! It is derived from the rest of the status and from the obstacles of the Framework. No decision depends
//! on it.

use framework_api::code::{Code, DEADLINE_EXCEEDED};
use framework_api::status::{FrameworkAttemptCompletionStatus, TaskCounts};
use framework_api::{ExecutionType, FrameworkStatus, State, Time};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time as MetaTime};

use crate::event_reason::EventReason;
use crate::framework;
use crate::observed::{Objects, Observed, Outcome, Refusal};
use crate::plan::Report;
use crate::pod::template;
use crate::queue::{QUEUED, QueuedCondition};
use crate::truncate::truncate;

/// Condition type: a Task runs or has run in this attempt, which goes on.
pub const RUNNING: &str = "Running";
/// Condition type: the Framework completed and succeeded.
pub const COMPLETE: &str = "Complete";
/// Condition type: the Framework completed and failed.
pub const FAILED: &str = "Failed";

/// The obstacle of a Framework that does not run: a reason of [`RUNNING`]. The other reasons are states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// The Tasks may not fit into the object.
    FrameworkTooLarge,
    /// A pod template cannot be decoded.
    InvalidPodTemplate,
    /// An object of another owner has the name of a Pod or ConfigMap, or a unit the name of its unit.
    NameConflict,
    /// The API server refuses a Pod for now.
    PodCreationTransientError,
    /// It waits in its queue.
    Queued,
    /// It cannot be read. The engine reports this one.
    StatusUnreadable,
}

impl Obstacle {
    /// All of them.
    pub const ALL: [Obstacle; 6] = [
        Obstacle::FrameworkTooLarge,
        Obstacle::InvalidPodTemplate,
        Obstacle::NameConflict,
        Obstacle::PodCreationTransientError,
        Obstacle::Queued,
        Obstacle::StatusUnreadable,
    ];

    /// The word on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Obstacle::FrameworkTooLarge => EventReason::FrameworkTooLarge.as_str(),
            Obstacle::InvalidPodTemplate => EventReason::InvalidPodTemplate.as_str(),
            Obstacle::NameConflict => "NameConflict",
            Obstacle::PodCreationTransientError => "PodCreationTransientError",
            Obstacle::Queued => QUEUED,
            Obstacle::StatusUnreadable => EventReason::StatusUnreadable.as_str(),
        }
    }
}

/// The reason of [`RUNNING`].
enum Reason {
    State(State),
    Obstacle(Obstacle),
}

impl Reason {
    fn word(self) -> String {
        match self {
            Reason::State(state) => format!("{state:?}"),
            Reason::Obstacle(obstacle) => obstacle.as_str().to_owned(),
        }
    }
}

/// Updates the summary in `next`. Returns a report for each new template error. `too_large` is the reason
/// why Tasks that may not fit wait, and `queued` is the next value of the condition of the queue.
pub(crate) fn summarise(
    next: &mut FrameworkStatus,
    o: &Observed<'_>,
    at: Time,
    too_large: Option<&str>,
    queued: &QueuedCondition,
) -> Vec<Report> {
    let counts = count(next);
    next.tasks = Some(format!("{}/{}", counts.running + counts.succeeded, counts.total));
    next.task_counts = Some(counts);
    let generation = o.framework.metadata.generation;
    let is_checked = next.observed_generation == generation && generation.is_some();
    let errors = (!is_checked).then(|| template_errors(o));
    next.observed_generation = generation;

    let running = next.state == State::AttemptRunning;
    let (reason, message) = match too_large.filter(|_| next.attempt_status.completion_status.is_none()) {
        Some(too_large) if running => (Reason::State(next.state), too_large.to_owned()),
        Some(too_large) => (Reason::Obstacle(Obstacle::FrameworkTooLarge), too_large.to_owned()),
        None => why(next, o, errors.as_deref(), queued),
    };
    set(next, RUNNING, running, &reason.word(), message, at);
    match queued {
        QueuedCondition::Unchanged => {}
        QueuedCondition::True { reason, message } => set(next, QUEUED, true, reason, message.clone(), at),
        QueuedCondition::False { reason, message } => set(next, QUEUED, false, reason, message.clone(), at),
    }
    if let Some(end) =
        next.attempt_status.completion_status.clone().filter(|_| next.state == State::Completed)
    {
        let kind = if end.r#type.is_failed() { FAILED } else { COMPLETE };
        set(next, kind, true, &reason_of(&end), framework::describe(&end), at);
    }
    errors.unwrap_or_default()
}

fn count(status: &FrameworkStatus) -> TaskCounts {
    let (mut counts, mut addressed) = (TaskCounts::default(), 0);
    for task in status.all_tasks().filter(|task| !task.deletion_pending) {
        counts.total += 1;
        addressed += i32::from(task.attempt_status.pod_ip.as_ref().is_some_and(|ip| !ip.is_empty()));
        let failed = task.attempt_status.completion_status.as_ref().is_some_and(|end| end.r#type.is_failed());
        match task.state {
            State::Completed if failed => counts.failed += 1,
            State::Completed => counts.succeeded += 1,
            State::AttemptRunning => counts.running += 1,
            _ => counts.pending += 1,
        }
    }
    counts.addressed = Some(addressed);
    counts
}

fn template_errors(o: &Observed<'_>) -> Vec<Report> {
    let check = |(position, role): (usize, &framework_api::TaskRole)| {
        let error = template::check(&role.task.pod).err()?;
        let note = error.describe(&format!("spec.taskRoles[{position}].task.pod"));
        Some(Report::warning(EventReason::InvalidPodTemplate, note))
    };
    o.framework.spec.task_roles.iter().enumerate().filter_map(check).collect()
}

/// Reason and message of the condition `Running`: the state of the Framework, or its obstacle.
/// `template_errors`: `None` if the spec is the one whose errors the condition names already.
fn why(
    next: &FrameworkStatus,
    o: &Observed<'_>,
    template_errors: Option<&[Report]>,
    queued: &QueuedCondition,
) -> (Reason, String) {
    let state = Reason::State(next.state);
    if let Some(end) = &next.attempt_status.completion_status {
        return (state, framework::describe(end));
    }
    let known = next.conditions.iter().find(|known| known.type_ == RUNNING);
    let refused = refused(o.objects, known);
    if next.state == State::AttemptRunning {
        // Some of its Tasks run. The message says why others do not, also while one of them is tried again.
        let is_tried = || o.objects.pod_creates.values().any(|create| create.outcome == Outcome::InFlight);
        let stays = known.filter(|known| known.status == "True" && is_tried());
        let message = refused.map(|(_, message)| message);
        return (state, message.or_else(|| Some(stays?.message.clone())).unwrap_or_default());
    }
    let is_invalid = |known: &&Condition| known.reason == Obstacle::InvalidPodTemplate.as_str();
    let invalid = match template_errors {
        Some(errors) => errors.first().map(|error| &error.note),
        None => known.filter(is_invalid).map(|known| &known.message),
    };
    let invalid = invalid.map(|message| (Obstacle::InvalidPodTemplate, message.clone()));
    let queued = match queued {
        QueuedCondition::True { message, .. } => Some((Obstacle::Queued, message.clone())),
        QueuedCondition::Unchanged | QueuedCondition::False { .. } => None,
    };
    let obstacle = refused.or(invalid).or(queued).or_else(|| taken(next, o));
    obstacle.map_or((state, String::new()), |(obstacle, message)| (Reason::Obstacle(obstacle), message))
}

/// The first create that is refused for now. A text that differs from the `known` one in numbers only is not
/// new: a quota says how much of it is used, and each refusal would write the status.
fn refused(objects: &Objects, known: Option<&Condition>) -> Option<(Obstacle, String)> {
    let mut creates = objects.config_map_create.iter().chain(objects.pod_creates.values());
    creates.find_map(|create| match &create.outcome {
        Outcome::Refused { refusal: Refusal::Transient, message, .. } => {
            let same = known.filter(|known| is_same_but_for_numbers(&known.message, message));
            let message = same.map_or_else(|| message.to_string(), |known| known.message.clone());
            Some((Obstacle::PodCreationTransientError, message))
        }
        Outcome::Refused { refusal: Refusal::NameConflict, message, .. } => {
            Some((Obstacle::NameConflict, message.to_string()))
        }
        _ => None,
    })
}

/// Whether two texts differ in nothing but numbers.
pub fn is_same_but_for_numbers(one: &str, other: &str) -> bool {
    fn words(text: &str) -> impl Iterator<Item = char> {
        text.chars().filter(|letter| !letter.is_ascii_digit())
    }
    words(one).eq(words(other))
}

/// The cache shows another ConfigMap under the name of this Framework's: no create is tried until it is gone.
fn taken(next: &FrameworkStatus, o: &Observed<'_>) -> Option<(Obstacle, String)> {
    let begins = next.state == State::AttemptCreationPending
        && o.framework.spec.execution_type == ExecutionType::Start
        && o.framework.metadata.deletion_timestamp.is_none();
    let map = o.objects.config_map.as_ref().filter(|map| begins && !map.is_of(o.framework))?;
    Some((Obstacle::NameConflict, map.conflict()))
}

/// The completion phrase where that is a valid reason, otherwise the code in words.
fn reason_of(end: &FrameworkAttemptCompletionStatus) -> String {
    let mut letters = end.phrase.chars();
    let valid = letters.next().is_some_and(|c| c.is_ascii_alphabetic())
        && end.phrase.ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        && end.phrase.len() <= 1024
        && letters.all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | ',' | ':'));
    match end.code {
        code if code == Code::ActiveDeadlineExceeded.number() => DEADLINE_EXCEEDED.to_owned(),
        _ if valid => end.phrase.clone(),
        code if code < 0 => format!("CodeMinus{}", code.unsigned_abs()),
        code => format!("Code{code}"),
    }
}

fn set(next: &mut FrameworkStatus, kind: &str, status: bool, reason: &str, message: String, at: Time) {
    // metav1.Condition allows 32768 bytes, and conditions are never compressed.
    let message = truncate(&message, 8000).into_owned();
    let status = if status { "True" } else { "False" };
    let time = MetaTime(at.timestamp());
    let observed_generation = next.observed_generation;
    let Some(known) = next.conditions.iter_mut().find(|known| known.type_ == kind) else {
        next.conditions.push(Condition {
            type_: kind.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message,
            last_transition_time: time,
            observed_generation,
        });
        return;
    };
    if known.status != status {
        known.last_transition_time = time;
    }
    known.status = status.to_owned();
    known.reason = reason.to_owned();
    known.message = message;
    known.observed_generation = observed_generation;
}
