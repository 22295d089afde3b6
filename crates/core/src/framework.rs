//! The state machine of a Framework: it derives the next status from the ConfigMap and the Tasks.
//!
//! The ground truth is `configMapUID` in the status and the ConfigMap in the cache. A state may be passed
//! within one write where nothing needs it to be persisted. A retry needs a persisted AttemptCompleted: it
//! forgets the attempt, whose history snapshot is made from that status.

use framework_api::code::{Code, CompletionType};
use framework_api::status::{
    FrameworkAttemptCompletionStatus, FrameworkAttemptStatus, TaskAttemptCompletionStatus, TaskStatus,
};
use framework_api::{ExecutionType, FrameworkStatus, Shared, State, Time, name};

use crate::defect::Defect;
use crate::event_reason::EventReason;
use crate::growth::Adding;
use crate::instance_uid::InstanceUids;
use crate::observed::{Instance, Moment, Observed, Outcome, Policy};
use crate::permit::stem_of;
use crate::plan::Report;
use crate::size::{self, Room};
use crate::task::{self, Advance};
use crate::{completion, first_attempt, lifetime, rescale};

/// The status of a Framework that has none.
pub(crate) fn init(o: &Observed<'_>, m: &Moment, policy: &Policy) -> FrameworkStatus {
    let attempt_status = new_attempt(0, None, o, m, policy);
    FrameworkStatus { attempt_status, ..first_attempt::announced(o.framework, m.time()) }
}

/// An attempt that is about to be created. `before`: the status that it follows.
pub(crate) fn new_attempt(
    id: i32,
    before: Option<&FrameworkStatus>,
    o: &Observed<'_>,
    m: &Moment,
    policy: &Policy,
) -> FrameworkAttemptStatus {
    let framework = o.framework.metadata.name.as_deref().unwrap_or_default();
    // Tasks that do not fit are added once they do.
    let roles = if size::excess(o, policy).is_some() { &[][..] } else { &o.framework.spec.task_roles };
    let adding = Adding::after(before, o, policy);
    let roles = rescale::task_roles(framework, roles, adding, &mut InstanceUids::new(m.seed), m.time());
    FrameworkAttemptStatus {
        id,
        start_time: m.time(),
        run_time: None,
        completion_time: None,
        instance_uid: None,
        config_map_name: name::config_map_name(framework),
        config_map_uid: None,
        completion_status: None,
        task_role_statuses: Some(roles),
        task_role_statuses_compressed: None,
    }
}

/// Whether the user has stopped the Framework.
pub(crate) fn is_stopped(o: &Observed<'_>) -> bool {
    o.framework.spec.execution_type == ExecutionType::Stop
}

/// Whether the attempt has neither ended nor begun to end, so that it may be rescaled.
pub(crate) fn is_open(status: &FrameworkStatus) -> bool {
    status.attempt_status.completion_status.is_none()
        && !matches!(status.state, State::AttemptCompleted | State::Completed)
}

pub(crate) fn transition(next: &mut FrameworkStatus, to: State, at: Time) {
    if next.state != to {
        next.state = to;
        next.transition_time = at;
    }
}

/// One step of the state machine, from the persisted status `next` starts as.
pub(crate) struct Step<'a> {
    pub o: &'a Observed<'a>,
    pub m: &'a Moment,
    pub policy: &'a Policy,
}

impl Step<'_> {
    /// Advances `next`, and adds reports for users.
    pub fn advance(&self, next: &mut FrameworkStatus, reports: &mut Vec<Report>) {
        let persisted = next.state == State::AttemptCompleted;
        match next.state {
            State::AttemptCompleted | State::Completed => {}
            _ if next.attempt_status.completion_status.is_some() => self.wind_down(next),
            _ if is_stopped(self.o) => self.stop(next),
            State::AttemptCreationPending | State::AttemptCreationRequested if self.is_over() => {
                self.end_late(next, reports);
            }
            State::AttemptCreationPending => self.created(next),
            State::AttemptCreationRequested => self.awaited(next),
            _ if self.is_over() => self.run_out(next, reports),
            _ => self.run(next, reports),
        }
        if next.state == State::AttemptCompleted {
            self.decide(next, persisted, reports);
        }
    }

    /// Ends the attempt because the user requests it.
    pub(crate) fn stop(&self, next: &mut FrameworkStatus) {
        self.end(
            next,
            FrameworkAttemptCompletionStatus::predefined(
                Code::StopFrameworkRequested,
                "the user stopped the Framework",
            ),
        );
    }

    /// Whether the deadline has passed on the API server's clock.
    pub(crate) fn is_over(&self) -> bool {
        lifetime::is_over(self.o, self.m)
    }

    /// Ends the attempt because the deadline has passed.
    pub(crate) fn end_late(&self, next: &mut FrameworkStatus, reports: &mut Vec<Report>) {
        let completed = lifetime::exceeded(self.o);
        reports.push(Report::warning(EventReason::DeadlineExceeded, completed.diagnostics.clone()));
        self.end(next, completed);
    }

    /// The deadline has passed: ends the attempt, unless the observation ends it, too. No Task is retried
    /// any more.
    fn run_out(&self, next: &mut FrameworkStatus, reports: &mut Vec<Report>) {
        let (mut ended, reported) = (next.clone(), reports.len());
        self.run(&mut ended, reports);
        if ended.attempt_status.completion_status.is_some() {
            *next = ended;
        } else {
            reports.truncate(reported);
            self.end_late(next, reports);
        }
    }

    /// AttemptCreationPending: reads the outcome of the create. Another client may have stored the UID of a
    /// ConfigMap.
    fn created(&self, next: &mut FrameworkStatus) {
        match self.acknowledged(next).or_else(|| next.attempt_status.config_map_uid.clone()) {
            Some(uid) => self.begun(next, uid),
            None => self.let_go(next),
        }
    }

    /// The ConfigMap has this UID.
    pub(crate) fn begun(&self, next: &mut FrameworkStatus, uid: String) {
        record_config_map(next, uid);
        transition(next, State::AttemptCreationRequested, self.m.time());
        self.awaited(next);
    }

    /// Completes the removed Tasks of an attempt that has not begun. It may be long until it begins, and
    /// there is no Pod to wait for.
    fn let_go(&self, next: &mut FrameworkStatus) {
        let roles = next.attempt_status.task_role_statuses.iter_mut().flatten();
        let removed = |task: &&mut Shared<TaskStatus>| task.deletion_pending && task::has_ended(task);
        for task in roles.flat_map(|role| &mut role.task_statuses).filter(removed) {
            task::complete(task, self.m.time());
        }
    }

    fn acknowledged(&self, next: &FrameworkStatus) -> Option<String> {
        let create = self.o.objects.config_map_create.as_ref()?;
        let ours = create.instance == Instance::FrameworkAttempt { attempt_id: next.attempt_status.id };
        match &create.outcome {
            Outcome::Acknowledged { uid } if ours => Some(uid.clone()),
            _ => None,
        }
    }

    /// AttemptCreationRequested: waits for the cache to show the ConfigMap.
    fn awaited(&self, next: &mut FrameworkStatus) {
        if self.is_lost(next) {
            return;
        }
        let limit = self.policy.object_local_cache_creation_timeout_sec;
        if self.config_map_is_cached(next) {
            transition(next, State::AttemptPreparing, self.m.time());
        } else if self.m.time() >= next.transition_time.plus_seconds(limit) {
            let text = format!("the created ConfigMap did not appear in the local cache within {limit} s");
            self.end(
                next,
                FrameworkAttemptCompletionStatus::predefined(Code::ConfigMapLocalCacheCreationTimeout, &text),
            );
        }
    }

    fn config_map_is_cached(&self, next: &FrameworkStatus) -> bool {
        let cached = self.o.objects.config_map.as_ref().map(|map| &map.uid);
        cached.is_some() && cached == next.attempt_status.config_map_uid.as_ref()
    }

    /// Ends the attempt if others deleted, or are deleting, its ConfigMap.
    fn is_lost(&self, next: &mut FrameworkStatus) -> bool {
        let deleting = self.config_map_is_cached(next)
            && self.o.objects.config_map.as_ref().is_some_and(|map| map.deleting);
        let lost = deleting || self.config_map_is_gone(next);
        if lost {
            let text = if deleting {
                "the ConfigMap is being deleted by others"
            } else {
                "the ConfigMap was deleted by others"
            };
            self.end(
                next,
                FrameworkAttemptCompletionStatus::predefined(Code::ConfigMapExternalDeleted, text),
            );
            transition(next, State::AttemptDeleting, self.m.time());
            self.wind_down(next);
        }
        lost
    }

    fn config_map_is_gone(&self, next: &FrameworkStatus) -> bool {
        let Some(uid) = &next.attempt_status.config_map_uid else { return true };
        self.o.objects.gone.contains(uid)
    }

    /// AttemptPreparing and AttemptRunning: advances the Tasks, and completes the attempt when they do.
    fn run(&self, next: &mut FrameworkStatus, reports: &mut Vec<Report>) {
        if self.is_lost(next) {
            return;
        }
        let spec = &self.o.framework.spec;
        let has_config_map = self.config_map_is_cached(next);
        let Some(roles) = next.attempt_status.task_role_statuses.as_mut() else { return };
        let mut room = Room::new(self.o, self.policy);
        for role in roles.iter_mut() {
            let pods = stem_of(role).and_then(|stem| self.o.objects.pods.siblings(stem));
            let wanted = spec.task_role(&role.name);
            let (o, m, policy) = (self.o, self.m, self.policy);
            let advance = Advance { o, m, policy, role: wanted, pods, has_config_map };
            advance.role(role, &mut room, reports);
        }
        if let Some(completed) = completion::evaluate(spec, roles) {
            self.end(next, completed);
        } else if record_run(next) {
            transition(next, State::AttemptRunning, self.m.time());
        }
    }

    /// Decides how the attempt ends, and that every Task ends with it.
    fn end(&self, next: &mut FrameworkStatus, completed: FrameworkAttemptCompletionStatus) {
        let at = self.m.time();
        if let Some(uid) = self.acknowledged(next) {
            record_config_map(next, uid);
        }
        let attempt = &mut next.attempt_status;
        let has_config_map = attempt.config_map_uid.is_some();
        for task in attempt.task_role_statuses.iter_mut().flatten().flat_map(|role| &mut role.task_statuses) {
            self.end_task(task);
            // Without a ConfigMap there is no Pod: one of its name is of an earlier attempt.
            if task.state == State::AttemptCompleted || !has_config_map {
                task::complete(task, at);
            }
        }
        attempt.completion_status = Some(Box::new(completed));
        record_run(next);
        if has_config_map {
            transition(next, State::AttemptDeletionPending, at);
        } else {
            complete_attempt(next, at);
        }
    }

    /// Ends the attempt of a Task with that of its Framework, unless it has ended already.
    fn end_task(&self, task: &mut Shared<TaskStatus>) {
        task::end(task, self.o, self.m.time(), || {
            let text = "the FrameworkAttempt completed".to_owned();
            TaskAttemptCompletionStatus::predefined(Code::FrameworkAttemptCompletion, text)
        });
    }

    /// The attempt is ending: follows its Pods and its ConfigMap until all are gone (rule A5).
    fn wind_down(&self, next: &mut FrameworkStatus) {
        let at = self.m.time();
        let uid = next.attempt_status.config_map_uid.clone();
        let mut pods_are_gone = !self.o.objects.has_unsettled_pod_create()
            && !self.o.objects.pods.values().any(|pod| Some(&pod.config_map_uid) == uid.as_ref());
        for task in
            next.attempt_status.task_role_statuses.iter_mut().flatten().flat_map(|r| &mut r.task_statuses)
        {
            // The original ends no Task when others delete the ConfigMap, and may retry one later.
            self.end_task(task);
            let Some(uid) = task.attempt_status.pod_uid.as_ref().filter(|_| task.state != State::Completed)
            else {
                // An orphan is among the Pods that have to be gone.
                if task.state == State::Completed || !task::has_orphan(task, self.o) {
                    task::complete(task, at);
                }
                continue;
            };
            match self.o.objects.pod(&task.attempt_status.pod_name, uid) {
                Some(pod) if pod.deletion.is_some() => task::transition(task, State::AttemptDeleting, at),
                Some(_) => {}
                None if task.state == State::AttemptCompleted || self.o.objects.gone.contains(uid) => {
                    task::complete(task, at);
                }
                None => {}
            }
            pods_are_gone &= task.state == State::Completed;
        }
        pods_are_gone |= self.policy.defects.has(Defect::TrustConfigMap);
        if self.config_map_is_gone(next) && pods_are_gone {
            complete_attempt(next, at);
        } else if self.config_map_is_cached(next)
            && self.o.objects.config_map.as_ref().is_some_and(|map| map.deleting)
        {
            transition(next, State::AttemptDeleting, at);
        }
    }
}

/// How an attempt ended, in a sentence.
pub(crate) fn describe(end: &FrameworkAttemptCompletionStatus) -> String {
    let CompletionType { name, .. } = &end.r#type;
    let trigger = end.trigger.as_ref().map_or_else(String::new, |trigger| {
        format!("; Task {}-{}: {}", trigger.task_role_name, trigger.task_index, trigger.message)
    });
    format!("{name:?} as {} ({}): {}{trigger}", end.phrase, end.code, end.diagnostics)
}

/// Records when the first Task of the attempt ran, if one did. The Task may have ended since.
fn record_run(next: &mut FrameworkStatus) -> bool {
    let tasks = next.all_tasks().filter(|task| !task.deletion_pending);
    let ran = tasks.filter_map(|task| task.run_time).min();
    next.run_time = next.run_time.or(ran);
    next.attempt_status.run_time = next.attempt_status.run_time.or(ran);
    ran.is_some()
}

fn record_config_map(next: &mut FrameworkStatus, uid: String) {
    let attempt = &mut next.attempt_status;
    attempt.instance_uid = Some(name::attempt_instance_uid(attempt.id, &uid));
    attempt.config_map_uid = Some(uid);
}

fn complete_attempt(next: &mut FrameworkStatus, at: Time) {
    next.attempt_status.completion_time = Some(at);
    transition(next, State::AttemptCompleted, at);
}
