//! The acts that the persisted status permits and that the observation requires now.
//!
//! This module never reads a status that is not persisted yet.

use framework_api::pod_template::Excess;
use framework_api::status::{TaskRoleStatus, TaskStatus};
use framework_api::{ExecutionType, Framework, FrameworkStatus, State, Time};
use serde_json::Value;

use crate::cached::CachedPod;
use crate::defect::Defect;
use crate::observed::{ConfigMapFacts, Create, Instance, Moment, Observed, Outcome, PodFacts, Policy};
use crate::permit::{self, role_of_pod};
use crate::plan::{Action, Plan};
use crate::pod_map::PodName;
use crate::{growth, lifetime, next_attempt, pod, queue, task};

/// The object that a create posts; `None` if the status no longer has the instance.
pub fn body(
    framework: &Framework,
    status: &FrameworkStatus,
    action: &Action,
) -> Option<Result<Value, Excess>> {
    match action {
        Action::CreateConfigMap { .. } => Some(Ok(pod::config_map_of(framework, status))),
        Action::CreatePod { task_role, task_index, .. } => {
            pod::pod_of(framework, status, task_role, *task_index)
        }
        _ => None,
    }
}

/// Adds the acts that the persisted `status` permits to `plan`, and the time of the next sync.
pub(crate) fn plan(plan: &mut Plan, status: &FrameworkStatus, o: &Observed<'_>, m: &Moment, policy: &Policy) {
    let mut acts = Acts { plan, status, o, m, policy, creates: 0 };
    acts.config_map();
    acts.orphans();
    for role in status.task_roles() {
        acts.creates = 0;
        let pods = permit::stem_of(role).and_then(|stem| o.objects.pods.siblings(stem));
        for task in role.tasks() {
            acts.task(role, task, pods.and_then(|pods| pods.of_task(task.index)).map(|pod| &**pod));
        }
    }
    acts.retire();
}

struct Acts<'a> {
    plan: &'a mut Plan,
    status: &'a FrameworkStatus,
    o: &'a Observed<'a>,
    m: &'a Moment,
    policy: &'a Policy,
    /// Creates of Pods that were planned for the current TaskRole.
    creates: usize,
}

impl<'a> Acts<'a> {
    fn act(&mut self, action: Action) {
        debug_assert!(
            !self.policy.defects.is_empty() || permit::permits(self.status, self.o.framework, &action),
            "unpermitted {action:?}"
        );
        self.plan.act.push(action);
    }

    fn wake_at(&mut self, at: Time) {
        self.plan.wake_at(at.timestamp(), self.m.now);
    }

    fn config_map(&mut self) {
        let recorded = self.status.attempt_status.config_map_uid.as_ref();
        match &self.o.objects.config_map {
            Some(map) if Some(&map.uid) == recorded => self.finish_config_map(map),
            Some(map) => self.unrecorded_config_map(map),
            None if recorded.is_some() => self.confirm_config_map(),
            None => self.create_config_map(),
        }
    }

    fn create_config_map(&mut self) {
        let spec = &self.o.framework.spec;
        let instance = Instance::FrameworkAttempt { attempt_id: self.status.attempt_status.id };
        let wanted = self.status.state == State::AttemptCreationPending
            && spec.execution_type == ExecutionType::Start
            && self.o.framework.metadata.deletion_timestamp.is_none()
            && !queue::waits(self.status, self.o, self.policy)
            && !lifetime::may_be_over(self.o, self.m);
        let create = self.o.objects.config_map_create.as_ref();
        if wanted && self.may_create(create) {
            self.act(Action::CreateConfigMap { instance });
        }
    }

    /// Whether no earlier create prevents this one: none is in flight, and a refused one is due again.
    fn may_create(&mut self, create: Option<&Create>) -> bool {
        match create.map(|create| &create.outcome) {
            None => true,
            Some(Outcome::Refused { retry_at, .. }) => {
                self.plan.wake_at(*retry_at, self.m.now);
                *retry_at <= self.m.now
            }
            Some(Outcome::InFlight | Outcome::Acknowledged { .. }) => false,
        }
    }

    /// Deletes the ConfigMap once all its Pods are gone, so that nothing is left to the garbage collector.
    fn finish_config_map(&mut self, map: &ConfigMapFacts) {
        let over = self.status.attempt_status.completion_status.is_some();
        if over && !map.deleting && !self.o.objects.deletes.contains(&map.uid) && self.pods_are_gone(&map.uid)
        {
            self.act(Action::DeleteConfigMap { uid: map.uid.clone() });
        }
    }

    fn pods_are_gone(&self, config_map_uid: &str) -> bool {
        let objects = self.o.objects;
        !objects.has_unsettled_pod_create()
            && !objects.pods.values().any(|pod| pod.config_map_uid == config_map_uid)
            && self.status.all_tasks().all(|task| {
                let over = matches!(task.state, State::AttemptCompleted | State::Completed);
                over || task.attempt_status.pod_uid.as_ref().is_none_or(|uid| objects.gone.contains(uid))
            })
    }

    /// A ConfigMap of ours that a lost write created is deleted; a foreign one never is.
    fn unrecorded_config_map(&mut self, map: &ConfigMapFacts) {
        let ours = map.is_of(self.o.framework);
        let create = self.o.objects.config_map_create.as_ref();
        let awaited = create.is_some_and(|create| create.outcome.may_have_made(&map.uid));
        if ours && !awaited && !map.deleting && !self.o.objects.deletes.contains(&map.uid) {
            self.act(Action::DeleteConfigMap { uid: map.uid.clone() });
        }
        // The recorded one is not there: its name is held by another.
        self.confirm_config_map();
    }

    fn confirm_config_map(&mut self) {
        let state = self.status.state;
        let Some(uid) = self.status.attempt_status.config_map_uid.clone() else { return };
        if state == State::AttemptCreationRequested {
            let limit = self.policy.object_local_cache_creation_timeout_sec;
            return self.wake_at(self.status.transition_time.plus_seconds(limit));
        }
        // While our own delete is in flight, no GET is needed: the reply to the delete decides.
        let objects = self.o.objects;
        let known =
            [&objects.gone, &objects.confirms, &objects.deletes].iter().any(|uids| uids.contains(&uid));
        if !known && !matches!(state, State::AttemptCompleted | State::Completed) {
            self.act(Action::ConfirmConfigMap { uid });
        }
    }

    /// Deletes Pods that no Task records: orphans of a lost write, or of a Task that is gone (rule A4).
    fn orphans(&mut self) {
        if self.policy.defects.has(Defect::KeepOrphans) {
            return;
        }
        for (stem, pods) in self.o.objects.pods.stems() {
            let creates = self.o.objects.pod_creates.siblings(stem);
            let mut roles = self.status.task_roles().iter();
            let role = roles.find(|role| permit::stem_of(role) == Some(stem));
            for (index, pod) in pods.iter() {
                let position = index.and_then(|index| usize::try_from(index).ok());
                let task = position.and_then(|position| role?.task_statuses.get(position));
                let recorded =
                    task.is_some_and(|task| task.attempt_status.pod_uid.as_ref() == Some(&pod.uid));
                let create = creates.filter(|_| !recorded).and_then(|creates| creates.get(index));
                let awaited = create.is_some_and(|create| create.outcome.may_have_made(&pod.uid));
                if !recorded && !awaited && self.is_of_no_live_attempt_but_ours(pod) {
                    self.orphan(&PodName { stem, index }.to_string(), pod);
                }
            }
        }
    }

    fn orphan(&mut self, name: &str, pod: &PodFacts) {
        if self.may_delete(pod) {
            self.act(Action::DeletePod { name: name.to_owned(), uid: pod.uid.clone(), force: false });
        }
        // A Pod of another attempt may belong to another Framework of that name.
        let role = role_of_pod(self.status, name).filter(|_| self.is_of_the_attempt(pod));
        let timeout = role.and_then(|role| role.pod_graceful_deletion_timeout_sec);
        if let (Some(timeout), Some(deletion)) = (timeout, pod.deletion) {
            self.force(name, pod, deletion.started().plus_seconds(timeout));
        }
    }

    /// A Pod of another ConfigMap is judged only once the cache shows that the ConfigMap's name is free, or
    /// has another UID. Until then the cache of ConfigMaps may lag.
    fn is_of_no_live_attempt_but_ours(&self, pod: &PodFacts) -> bool {
        self.is_of_the_attempt(pod)
            || self.o.objects.config_map.as_ref().is_none_or(|map| map.uid != pod.config_map_uid)
    }

    fn is_of_the_attempt(&self, pod: &PodFacts) -> bool {
        self.status.attempt_status.config_map_uid.as_ref() == Some(&pod.config_map_uid)
    }

    fn may_delete(&self, pod: &PodFacts) -> bool {
        pod.deletion.is_none() && !self.o.objects.deletes.contains(&pod.uid)
    }

    /// The acts for a Task. `pod`: the cached Pod that has its name.
    fn task(&mut self, role: &TaskRoleStatus, task: &TaskStatus, pod: Option<&'a CachedPod>) {
        if task.state == State::AttemptCompleted && task.retry_policy_status.retry_delay_sec.is_some() {
            self.wake_at(task::retry_due(task));
        }
        let Some(uid) = &task.attempt_status.pod_uid else {
            // A Pod of ours that holds the name is an orphan; its DELETED event triggers another sync.
            if pod.is_none() {
                self.create_pod(role, task);
            }
            return;
        };
        match pod.filter(|pod| pod.uid == *uid) {
            Some(pod) => self.delete_pod(role, task, pod),
            None => self.confirm_pod(task, uid),
        }
    }

    fn create_pod(&mut self, role: &TaskRoleStatus, task: &TaskStatus) {
        let awaits_pod = task.state == State::AttemptCreationPending && !task.deletion_pending;
        if !awaits_pod || self.creates >= most_creates(self.policy) {
            return;
        }
        let running = matches!(self.status.state, State::AttemptPreparing | State::AttemptRunning)
            && self.status.attempt_status.completion_status.is_none()
            && self.o.framework.spec.execution_type != ExecutionType::Stop
            && !permit::is_deleted_in_foreground(self.o.framework);
        if !running || growth::waits(task, self.o, self.policy) {
            return;
        }
        let recorded = self.status.attempt_status.config_map_uid.as_ref();
        let map = self.o.objects.config_map.as_ref();
        let owner_is_there = map.is_some_and(|map| Some(&map.uid) == recorded && !map.deleting);
        let name = &task.attempt_status.pod_name;
        let create = self.o.objects.pod_creates.get(name);
        let is_of_this = |create: &Create| permit::is_instance(self.status, task, &create.instance);
        let ended = create.is_some_and(|create| {
            use crate::observed::Refusal::{Permanent, Unknown};
            let refused = matches!(create.outcome, Outcome::Refused { refusal: Permanent | Unknown, .. });
            refused && is_of_this(create)
        });
        // A refusal for a former attempt has no meaning for this one.
        let is_former =
            |create: &Create| matches!(create.outcome, Outcome::Refused { .. }) && !is_of_this(create);
        let settled = create.is_none_or(is_former) || self.may_create(create);
        if owner_is_there && settled && !ended {
            let Some(instance) = permit::task_instance(self.status, task) else { return };
            let (task_role, task_index) = (role.name.clone(), task.index);
            self.creates += 1;
            self.act(Action::CreatePod { name: name.clone(), task_role, task_index, instance });
        }
    }

    fn delete_pod(&mut self, role: &TaskRoleStatus, task: &TaskStatus, pod: &PodFacts) {
        let early = self.policy.defects.has(Defect::DeleteBeforePersist) && pod.end.is_some();
        if task.attempt_status.completion_status.is_none() && !early {
            return;
        }
        let name = &task.attempt_status.pod_name;
        if self.may_delete(pod) {
            self.act(Action::DeletePod { name: name.clone(), uid: pod.uid.clone(), force: false });
        }
        if let (Some(timeout), Some(deletion)) = (role.pod_graceful_deletion_timeout_sec, pod.deletion) {
            self.force(name, pod, deletion.started().plus_seconds(timeout));
        }
        if pod.unwatched
            && self.o.objects.deletes.contains(&pod.uid)
            && !self.o.objects.confirms.contains(&pod.uid)
        {
            self.act(Action::ConfirmPod { name: name.clone(), uid: pod.uid.clone() });
        }
    }

    /// Force-deletes a Pod that is still terminating at `due`, by the API server's clock. The deletion
    /// began up to 1 s after the whole second of its timestamp: no Pod gets less than its time.
    fn force(&mut self, name: &str, pod: &PodFacts, due: Time) {
        // One that was forced needs no more proof: finalizers may hold it for ever.
        if !self.o.objects.forced_deletes.contains(&pod.uid) && self.is_due(due.plus_seconds(1)) {
            self.act(Action::DeletePod { name: name.to_owned(), uid: pod.uid.clone(), force: true });
        }
    }

    /// Whether `due` has passed on the API server's clock (rule A8). If there is no proof yet, requests one
    /// as soon as it may exist.
    fn is_due(&mut self, due: Time) -> bool {
        if self.policy.defects.has(Defect::TrustLocalClock) {
            self.wake_at(due);
            return self.m.time() >= due;
        }
        let proved = self.m.server.is_some_and(|server| server >= due);
        if !proved {
            self.plan.proof_due = Some(self.plan.proof_due.map_or(due, |earlier| earlier.min(due)));
        }
        proved
    }

    /// A recorded Pod is not in the cache: waits for it to appear, or confirms that it is gone (rule A6).
    fn confirm_pod(&mut self, task: &TaskStatus, uid: &str) {
        match task.state {
            State::AttemptCompleted | State::Completed => {}
            // It awaits no Pod whose end is decided, as the original may have stored it.
            State::AttemptCreationRequested if task.attempt_status.completion_status.is_none() => {
                let limit = self.policy.object_local_cache_creation_timeout_sec;
                self.wake_at(task.transition_time.plus_seconds(limit));
            }
            _ if self.o.objects.gone.contains(uid) || self.o.objects.confirms.contains(uid) => {}
            _ => {
                let name = task.attempt_status.pod_name.clone();
                self.act(Action::ConfirmPod { name, uid: uid.to_owned() });
            }
        }
    }

    /// Waits for a decided retry and for the deadline, and deletes a completed Framework when it has expired.
    fn retire(&mut self) {
        let deadline = lifetime::deadline(self.o.framework);
        let awaited = self.status.state != State::Completed && !lifetime::is_over(self.o, self.m);
        if let Some(due) = deadline.filter(|_| awaited) {
            // The Framework is not over: requests a `Date` for the time when it may be.
            let _ = self.is_due(due);
        }
        match self.status.state {
            State::AttemptCompleted if self.status.retry_policy_status.retry_delay_sec.is_some() => {
                self.wake_at(next_attempt::retry_due(self.status));
            }
            State::Completed if self.o.framework.metadata.deletion_timestamp.is_none() => {
                let expiry = lifetime::expiry(self.o.framework, self.status, self.policy);
                if expiry.is_some_and(|expiry| self.is_due(expiry.due)) {
                    self.act(Action::DeleteFramework);
                }
            }
            _ => {}
        }
    }
}

/// How many Pods of a TaskRole one plan creates. Rule A7 stops the creates of this plan at half of that. The
/// other half covers the time between the next status write and the evaluation that follows it, so that no
/// create waits for an evaluation. A plan of all 10,000 creates of a large Framework costs more than the rest
/// of its evaluation.
///
/// The bound is of a TaskRole, because the creates of one may be refused while those of the others are not.
fn most_creates(policy: &Policy) -> usize {
    if policy.defects.has(Defect::UnboundedLoss) {
        return usize::MAX;
    }
    policy.expectations_limit.max(1).saturating_mul(2)
}
