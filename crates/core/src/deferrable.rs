//! Deferrable events of a Pod: they change the status, and no act depends on them.
//!
//! Most events of a Pod are deferrable: it was seen, bound to a node, started. A sync for such an event alone
//! plans the same acts as the sync before, and a status that may be written late
//! ([`Urgency::Record`](crate::Urgency)). So one sync serves all the events until that write, and the cost of
//! such an event does not grow with the number of Tasks.
//!
//! An event is deferrable only if that is certain. In doubt, a sync decides.

use framework_api::status::TaskStatus;
use framework_api::{ExecutionType, FrameworkStatus, State};

use crate::observed::{Observed, Outcome, PodPhase};
use crate::permit::{is_instance, role_of_pod, task_of_pod};

/// Whether the last event of the Pod of this name, as the cache shows it now, is deferrable.
pub fn is_deferrable(o: &Observed<'_>, pod_name: &str) -> bool {
    let (Some(status), Some(pod)) = (running(o), o.objects.pods.get(pod_name)) else { return false };
    let Some(task) = task_of_pod(status, pod_name).filter(|task| !task.deletion_pending) else {
        return false;
    };
    let attempt = &task.attempt_status;
    let recorded = attempt.pod_uid.as_ref() == Some(&pod.uid);
    if pod.deletion.is_some() {
        // The controller deleted it, and no forced deletion waits for its time.
        let patient =
            |status| Some(role_of_pod(status, pod_name)?.pod_graceful_deletion_timeout_sec.is_none());
        let ours = attempt.completion_status.is_some() && o.objects.deletes.contains(&pod.uid);
        return recorded && ours && patient(status) == Some(true);
    }
    let lives = matches!(pod.phase, PodPhase::Pending | PodPhase::Running | PodPhase::Unknown);
    let awaited = || outcome(status, task, o).is_some_and(|outcome| outcome.may_have_made(&pod.uid));
    lives && attempt.completion_status.is_none() && (recorded || awaited())
}

/// Whether the creation of the Pod of this name is deferrable: its UID is recorded with the next write.
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

/// The status of a running attempt, if neither a stop nor a deletion is requested.
fn running<'a>(o: &Observed<'a>) -> Option<&'a FrameworkStatus> {
    let wanted = o.framework.metadata.deletion_timestamp.is_none()
        && o.framework.spec.execution_type != ExecutionType::Stop;
    let runs = |status: &&FrameworkStatus| {
        matches!(status.state, State::AttemptPreparing | State::AttemptRunning)
            && status.attempt_status.completion_status.is_none()
    };
    o.status.filter(runs).filter(|_| wanted)
}

/// The outcome of the create of a Task that has no Pod yet.
fn outcome<'a>(status: &FrameworkStatus, task: &TaskStatus, o: &Observed<'a>) -> Option<&'a Outcome> {
    let create = o.objects.pod_creates.get(&task.attempt_status.pod_name)?;
    let current = task.state == State::AttemptCreationPending && is_instance(status, task, &create.instance);
    current.then_some(&create.outcome)
}
