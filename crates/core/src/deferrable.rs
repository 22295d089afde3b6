//! Which news of a Pod can wait: it changes what the status says, and nothing that anybody does.
//!
//! Most events of a Pod are such: it was seen, bound to a node, started. An evaluation that is made because
//! of one alone plans no other act than the one before, and a status that may be written as late as any
//! ([`Urgency::Record`](crate::Urgency)). So the shell evaluates once for all that gather until that write,
//! and not once for each: what such an event costs does not grow with the number of Tasks.
//!
//! Says so only where that is certain: of whatever is in doubt, the whole evaluation decides.

use framework_api::status::TaskStatus;
use framework_api::{ExecutionType, FrameworkStatus, State};

use crate::observed::{Observed, Outcome, PodFacts, PodPhase};
use crate::permit::{role_of_pod, task_instance, task_of_pod};

/// Whether the news of the Pod of this name, which the cache shows now, can wait.
pub fn is_deferrable(o: &Observed<'_>, pod_name: &str) -> bool {
    let (Some(status), Some(pod)) = (running(o), o.objects.pods.get(pod_name)) else { return false };
    let Some(task) = task_of_pod(status, pod_name).filter(|task| !task.deletion_pending) else {
        return false;
    };
    let attempt = &task.attempt_status;
    let recorded = attempt.pod_uid.as_ref() == Some(&pod.uid);
    if pod.deletion.is_some() {
        // By us, and nobody waits for the time when force is to be used.
        let patient =
            |status| Some(role_of_pod(status, pod_name)?.pod_graceful_deletion_timeout_sec.is_none());
        let ours = attempt.completion_status.is_some() && o.objects.deletes.contains(&pod.uid);
        return recorded && ours && patient(status) == Some(true);
    }
    let lives = matches!(pod.phase, PodPhase::Pending | PodPhase::Running | PodPhase::Unknown);
    lives && attempt.completion_status.is_none() && (recorded || is_awaited(status, task, pod, o))
}

/// Whether it can wait that the Pod of this name was created: its UID is recorded with what follows.
pub fn is_deferrable_create(o: &Observed<'_>, pod_name: &str) -> bool {
    let Some(status) = running(o) else { return false };
    let Some(task) = task_of_pod(status, pod_name).filter(|task| !task.deletion_pending) else {
        return false;
    };
    let Some(Outcome::Acknowledged { uid }) = outcome(status, task, o) else { return false };
    match o.objects.pods.get(pod_name) {
        Some(_) => is_deferrable(o, pod_name),
        None => !o.objects.gone.contains(uid),
    }
}

/// The status of an attempt that runs, if nobody asks for anything else.
fn running<'a>(o: &Observed<'a>) -> Option<&'a FrameworkStatus> {
    let wanted = o.framework.metadata.deletion_timestamp.is_none()
        && o.framework.spec.execution_type == ExecutionType::Start;
    let runs = |status: &&FrameworkStatus| {
        matches!(status.state, State::AttemptPreparing | State::AttemptRunning)
            && status.attempt_status.completion_status.is_none()
    };
    o.status.filter(runs).filter(|_| wanted)
}

/// Whether this is the Pod that the Task's create made, or may turn out to have made.
fn is_awaited(status: &FrameworkStatus, task: &TaskStatus, pod: &PodFacts, o: &Observed<'_>) -> bool {
    match outcome(status, task, o) {
        Some(Outcome::Acknowledged { uid }) => *uid == pod.uid,
        Some(Outcome::InFlight) => true,
        Some(Outcome::Refused { .. }) | None => false,
    }
}

/// What came of the create of a Task that has no Pod yet.
fn outcome<'a>(status: &FrameworkStatus, task: &TaskStatus, o: &Observed<'a>) -> Option<&'a Outcome> {
    let create = o.objects.pod_creates.get(&task.attempt_status.pod_name)?;
    let current = task.state == State::AttemptCreationPending
        && task_instance(status, task).as_ref() == Some(&create.instance);
    current.then_some(&create.outcome)
}
