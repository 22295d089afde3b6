//! The state machine of a Task: it derives the next status from the Pod.
//!
//! The ground truth is `podUID` in the status and the Pod in the cache. A state may be passed within one
//! write where nothing needs it to be persisted. A retry forgets the attempt, so it needs its persisted
//! completion status: after a crash, the same retry is decided from it. AttemptCompleted itself is passed,
//! unless the retry is delayed, or the attempt ended without such a status.

use framework_api::code::Code;
use framework_api::status::{TaskAttemptCompletionStatus, TaskAttemptStatus, TaskRoleStatus, TaskStatus};
use framework_api::{Shared, State, TaskRole, Time, name};

use crate::cached::CachedPod;
use crate::classify::Judged;
use crate::defect::Defect;
use crate::event_reason::EventReason;
use crate::observed::{Moment, Observed, Outcome, PodFacts, PodPhase, Policy, Refusal};
use crate::permit;
use crate::plan::Report;
use crate::pod_map::Siblings;
use crate::retry::{self, Decision};
use crate::size::{Allowance, Neighbours, Room};
use crate::truncate::truncate;

/// Moves a Task to another state.
pub(crate) fn transition(task: &mut Shared<TaskStatus>, to: State, at: Time) {
    if task.state != to {
        let task = task.to_mut();
        task.state = to;
        task.transition_time = at;
    }
}

/// Ends the current attempt for a reason that is not its Pod's own, unless it has ended already.
///
/// A Task without a Pod is AttemptCompleted immediately. That is written only after a create in flight was
/// withdrawn or has settled (rule A1). An orphan of a lost write counts as its Pod: the attempt is over when
/// the orphan is gone.
pub(crate) fn end(
    task: &mut Shared<TaskStatus>,
    o: &Observed<'_>,
    at: Time,
    completion: impl FnOnce() -> TaskAttemptCompletionStatus,
) {
    let over = matches!(task.state, State::AttemptCompleted | State::Completed);
    if over || task.attempt_status.completion_status.is_some() {
        return;
    }
    if let Some(Outcome::Acknowledged { uid }) = outcome(task, o) {
        record_pod(task, uid.clone());
    }
    let uid = task.attempt_status.pod_uid.as_deref();
    let known =
        |uid| o.objects.pod(&task.attempt_status.pod_name, uid).or_else(|| o.objects.left_pods.get(uid));
    let ran = uid.and_then(known).and_then(|pod| pod.ran_at);
    record_run(task, ran);
    task.to_mut().attempt_status.completion_status = Some(Box::new(completion()));
    if task.attempt_status.pod_uid.is_some() || has_orphan(task, o) {
        transition(task, State::AttemptDeletionPending, at);
    } else {
        complete_attempt(task, at);
    }
}

/// Whether a Pod of the current FrameworkAttempt holds the Task's name that the Task does not record.
pub(crate) fn has_orphan(task: &TaskStatus, o: &Observed<'_>) -> bool {
    let config_map = o.status.and_then(|status| status.attempt_status.config_map_uid.as_ref());
    let attempt = &task.attempt_status;
    o.objects.pods.get(&attempt.pod_name).is_some_and(|pod| {
        Some(&pod.config_map_uid) == config_map && Some(&pod.uid) != attempt.pod_uid.as_ref()
    })
}

/// The outcome of the create of this Task's current attempt.
pub(crate) fn outcome<'a>(task: &TaskStatus, o: &Observed<'a>) -> Option<&'a Outcome> {
    let create = o.objects.pod_creates.get(&task.attempt_status.pod_name)?;
    permit::is_instance(o.status?, task, &create.instance).then_some(&create.outcome)
}

fn record_pod(task: &mut Shared<TaskStatus>, uid: String) {
    let attempt = &mut task.to_mut().attempt_status;
    attempt.instance_uid = Some(name::attempt_instance_uid(attempt.id, &uid));
    attempt.pod_uid = Some(uid);
}

/// Records the node and the addresses of the Pod, if they changed.
fn place(task: &mut Shared<TaskStatus>, pod: &PodFacts) {
    let seen = [&pod.node_name, &pod.pod_ip, &pod.host_ip];
    let attempt = &task.attempt_status;
    let known = [&attempt.pod_node_name, &attempt.pod_ip, &attempt.pod_host_ip];
    if known.iter().zip(seen).all(|(known, seen)| known.as_ref() == Some(seen)) {
        return;
    }
    let attempt = &mut task.to_mut().attempt_status;
    let known = [&mut attempt.pod_node_name, &mut attempt.pod_ip, &mut attempt.pod_host_ip];
    for (known, seen) in known.into_iter().zip(seen) {
        if known.as_ref() != Some(seen) {
            *known = Some(seen.clone());
        }
    }
}

/// Records when the Pod was first seen Running, if it was.
fn record_run(task: &mut Shared<TaskStatus>, ran: Option<Time>) {
    if ran.is_some() && (task.run_time.is_none() || task.attempt_status.run_time.is_none()) {
        let task = task.to_mut();
        task.run_time = task.run_time.or(ran);
        task.attempt_status.run_time = task.attempt_status.run_time.or(ran);
    }
}

fn complete_attempt(task: &mut Shared<TaskStatus>, at: Time) {
    transition(task, State::AttemptCompleted, at);
    task.to_mut().attempt_status.completion_time = Some(at);
}

/// Whether the attempt of a Task without a Pod is over. The original ends that of a Task which it removes
/// before the start, and leaves the state.
pub(crate) fn has_ended(task: &TaskStatus) -> bool {
    match task.state {
        State::AttemptCreationPending => task.attempt_status.completion_status.is_some(),
        state => state == State::AttemptCompleted,
    }
}

/// The end of an attempt whose Task was removed.
pub(crate) fn removed() -> TaskAttemptCompletionStatus {
    let text = "the Task was removed from the spec".to_owned();
    TaskAttemptCompletionStatus::predefined(Code::DeleteTaskRequested, text)
}

/// Completes a Task whose FrameworkAttempt is over.
pub(crate) fn complete(task: &mut Shared<TaskStatus>, at: Time) {
    if task.state == State::Completed {
        return;
    }
    let own = task.to_mut();
    own.attempt_status.completion_time.get_or_insert(at);
    own.retry_policy_status.retry_delay_sec = None;
    own.completion_time = Some(at);
    transition(task, State::Completed, at);
}

/// When the Task's decided retry starts.
pub(crate) fn retry_due(task: &TaskStatus) -> Time {
    retry::due(task.attempt_status.completion_time, task.transition_time, task.retry_policy_status)
}

/// The texts of others about the end of a Task, and the room for them.
struct EndTexts<'r, 'o> {
    room: &'r mut Room<'o>,
    neighbours: Neighbours<'r>,
}

impl EndTexts<'_, '_> {
    /// The Pod ended by itself.
    fn ended(&mut self, judged: &Judged<'_>) -> TaskAttemptCompletionStatus {
        let make = |allowance| judged.status(allowance);
        self.room.fit(self.neighbours, judged.texts(), judged.containers(), make)
    }

    /// The API server refused the Pod.
    fn refused(&mut self, code: Code, message: &str) -> TaskAttemptCompletionStatus {
        let make = |allowance: Allowance| {
            let message = truncate(message, allowance.text);
            TaskAttemptCompletionStatus::predefined(code, format!("the Pod could not be created: {message}"))
        };
        self.room.fit(self.neighbours, std::iter::once(message), 0, make)
    }
}

/// The input for advancing the Tasks of one TaskRole. An unchanged Task stays shared: it is not copied, and
/// comparing the statuses is fast.
pub(crate) struct Advance<'a> {
    pub o: &'a Observed<'a>,
    pub m: &'a Moment,
    pub policy: &'a Policy,
    /// The TaskRole in the spec; `None` if it was removed.
    pub role: Option<&'a TaskRole>,
    /// The cached Pods of the TaskRole.
    pub pods: Option<&'a Siblings<Box<CachedPod>>>,
    /// Whether the cache shows the ConfigMap. Otherwise a GET of it is under way: if others deleted it, the
    /// garbage collector deletes the Pods, and the attempt ends with the ConfigMap.
    pub has_config_map: bool,
}

impl Advance<'_> {
    /// Advances every Task of the role.
    pub fn role(&self, role: &mut TaskRoleStatus, room: &mut Room<'_>, reports: &mut Vec<Report>) {
        for position in 0..role.task_statuses.len() {
            let (before, rest) = role.task_statuses.split_at_mut(position);
            let Some((task, after)) = rest.split_first_mut() else { return };
            let end_texts = &mut EndTexts { room, neighbours: Neighbours { before, after } };
            self.task(&role.name, task, end_texts, reports);
        }
    }

    fn task(
        &self,
        role: &str,
        task: &mut Shared<TaskStatus>,
        end_texts: &mut EndTexts<'_, '_>,
        reports: &mut Vec<Report>,
    ) {
        let persisted = task.attempt_status.completion_status.is_some()
            || self.policy.defects.has(Defect::RetryBeforePersist);
        if task.state == State::AttemptCreationPending && task.deletion_pending {
            // The original stores a retry of a Task that was removed, and ends it in a second write.
            end(task, self.o, self.m.time(), removed);
        }
        match task.state {
            State::AttemptCreationPending if !has_ended(task) => self.created(task, end_texts),
            State::AttemptCompleted | State::Completed => {}
            _ => self.observe(task, end_texts),
        }
        if task.state == State::AttemptCompleted {
            self.decide(role, task, persisted, reports);
        }
    }

    /// AttemptCreationPending: reads the outcome of the create. Another client may have stored a Pod's UID.
    fn created(&self, task: &mut Shared<TaskStatus>, end_texts: &mut EndTexts<'_, '_>) {
        let outcome = outcome(task, self.o);
        if let Some(Outcome::Acknowledged { uid }) = outcome {
            record_pod(task, uid.clone());
        }
        if task.attempt_status.pod_uid.is_some() {
            transition(task, State::AttemptCreationRequested, self.m.time());
            return self.observe(task, end_texts);
        }
        if let Some(Outcome::Refused { refusal, message, .. }) = outcome {
            let code = match refusal {
                Refusal::Permanent => Code::PodCreationPermanentError,
                Refusal::Unknown => Code::PodCreationUnknownError,
                Refusal::Transient | Refusal::NameConflict => return,
            };
            end(task, self.o, self.m.time(), || end_texts.refused(code, message));
        }
    }

    /// Any state with a recorded Pod: follows the Pod.
    fn observe(&self, task: &mut Shared<TaskStatus>, end_texts: &mut EndTexts<'_, '_>) {
        let at = self.m.time();
        let Some(uid) = &task.attempt_status.pod_uid else {
            if !has_orphan(task, self.o) {
                complete_attempt(task, at);
            }
            return;
        };
        let pod = self.pods.and_then(|pods| pods.of_task(task.index));
        match pod.filter(|pod| pod.uid == *uid) {
            Some(pod) => self.follow(task, pod, end_texts),
            None if self.is_gone(uid, task) => {
                let last = self.o.objects.left_pods.get(uid);
                if self.lose(task, last, "the Pod was deleted by others", end_texts) {
                    complete_attempt(task, at);
                }
            }
            None => self.await_pod(task),
        }
    }

    /// The Pod is gone, or is being deleted: decides how the attempt ends, if that is not decided yet.
    /// Returns whether it is. `pod`: the last facts about the Pod.
    fn lose(
        &self,
        task: &mut Shared<TaskStatus>,
        pod: Option<&PodFacts>,
        by_others: &str,
        end_texts: &mut EndTexts<'_, '_>,
    ) -> bool {
        if task.attempt_status.completion_status.is_some() {
            return true;
        }
        let end = match pod.and_then(|pod| Some((pod, pod.own_end()?))) {
            Some((pod, ended)) => {
                place(task, pod);
                end_texts.ended(&self.policy.classifier.judge(ended))
            }
            // The deletion may be a consequence of that of the ConfigMap.
            None if !self.has_config_map => return false,
            None => TaskAttemptCompletionStatus::predefined(Code::PodExternalDeleted, by_others.to_owned()),
        };
        record_run(task, pod.and_then(|pod| pod.ran_at));
        task.to_mut().attempt_status.completion_status = Some(Box::new(end));
        true
    }

    fn is_gone(&self, uid: &str, task: &TaskStatus) -> bool {
        let has_appeared = task.state != State::AttemptCreationRequested;
        self.o.objects.gone.contains(uid)
            || has_appeared && self.policy.defects.has(Defect::TrustDisappearance)
    }

    /// The Pod was created and the cache has not shown it yet.
    fn await_pod(&self, task: &mut Shared<TaskStatus>) {
        let limit = self.policy.object_local_cache_creation_timeout_sec;
        let late = self.m.time() >= task.transition_time.plus_seconds(limit);
        if task.state == State::AttemptCreationRequested && late {
            end(task, self.o, self.m.time(), || {
                let text = format!("the created Pod did not appear in the local cache within {limit} s");
                TaskAttemptCompletionStatus::predefined(Code::PodLocalCacheCreationTimeout, text)
            });
        }
    }

    fn follow(&self, task: &mut Shared<TaskStatus>, pod: &PodFacts, end_texts: &mut EndTexts<'_, '_>) {
        let at = self.m.time();
        if pod.deletion.is_some() {
            if self.lose(task, Some(pod), "the Pod is being deleted by others", end_texts) {
                transition(task, State::AttemptDeleting, at);
            }
            return;
        }
        if task.attempt_status.completion_status.is_some() {
            return;
        }
        place(task, pod);
        record_run(task, pod.ran_at);
        match pod.phase {
            // Also from AttemptRunning: a node that restarts a Pod prepares it again.
            PodPhase::Pending => transition(task, State::AttemptPreparing, at),
            PodPhase::Unknown if task.state == State::AttemptCreationRequested => {
                transition(task, State::AttemptPreparing, at);
            }
            PodPhase::Unknown => {}
            PodPhase::Running => {
                record_run(task, Some(at));
                transition(task, State::AttemptRunning, at);
            }
            PodPhase::Succeeded | PodPhase::Failed => {
                if let Some(ended) = &pod.end {
                    let judged = self.policy.classifier.judge(ended);
                    task.to_mut().attempt_status.completion_status = Some(Box::new(end_texts.ended(&judged)));
                    transition(task, State::AttemptDeletionPending, at);
                }
            }
        }
    }

    /// AttemptCompleted: completes, or retries once the completion status is `persisted`.
    fn decide(
        &self,
        role_name: &str,
        task: &mut Shared<TaskStatus>,
        persisted: bool,
        reports: &mut Vec<Report>,
    ) {
        let at = self.m.time();
        let (Some(role), Some(end)) = (self.role, task.attempt_status.completion_status.as_ref()) else {
            return complete(task, at);
        };
        let retried = task.retry_policy_status;
        let decision = retry::decide(role.task.retry_policy, retried, end.code, &end.r#type);
        // A retry that waits was decided before: only its time, or the removal of the Task, is awaited.
        let is_over = decision == Decision::Stop && retried.retry_delay_sec.is_none();
        if task.deletion_pending || is_over {
            return complete(task, at);
        }
        let accountable = !matches!(decision, Decision::Retry { accountable: false, .. });
        let attempt = &task.attempt_status;
        let (backoff, run) = (self.policy.retry_backoff, attempt.run_time);
        let completed = attempt.completion_time.unwrap_or(at);
        let delay = backoff.delay(retried, run, completed);
        match retried.retry_delay_sec {
            None if delay > 0 => {
                if backoff.is_step(retried, delay) {
                    reports.push(Report::warning(
                        EventReason::TaskRetryDelayed,
                        format!(
                            "Task {role_name}-{} ended soon after its start again, at last as {} ({}); its \
                             attempt {} starts in {delay} s",
                            task.index,
                            end.phrase,
                            end.code,
                            attempt.id.saturating_add(1)
                        ),
                    ));
                }
                task.to_mut().retry_policy_status.retry_delay_sec = Some(delay);
            }
            Some(_) if at < retry_due(task) => {}
            _ if !persisted => {}
            _ => {
                reports.push(Report::normal(
                    EventReason::TaskRetrying,
                    format!(
                        "Task {role_name}-{} is retried after attempt {} ended as {} ({})",
                        task.index, task.attempt_status.id, end.phrase, end.code
                    ),
                ));
                let own = task.to_mut();
                own.retry_policy_status = backoff.retried(retried, accountable, run, completed);
                let id = own.retry_policy_status.total_retried_count;
                let pod_name = std::mem::take(&mut own.attempt_status.pod_name);
                own.attempt_status = TaskAttemptStatus::new(id, pod_name, at);
                transition(task, State::AttemptCreationPending, at);
            }
        }
    }
}
