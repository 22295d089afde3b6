//! A world in which every act succeeds at once: enough to live a Framework's life without an API server.
//!
//! A test changes the world (a Pod ends, a user stops the Framework), and lets it settle: plans are made,
//! persisted and acted on until nothing changes any more.

use framework_api::code::Code;
use framework_api::name;
use framework_api::pod_failure::default_rules;
use framework_api::queue::QUEUE_NAME_LABEL;
use framework_api::status::TaskStatus;
use framework_api::{Framework, FrameworkStatus, State, Time};
use framework_core::classify::{Classifier, ContainerEnd, ContainerTerminated, TerminalPhase, TerminatedPod};
use framework_core::observed::{
    Admission, ConfigMapFacts, Create, Deletion, Instance, Objects, Outcome, PodFacts, PodPhase,
};
use framework_core::size::SizeLimits;
use framework_core::snapshot::Snapshot;
use framework_core::{Action, Defects, Moment, Observed, Plan, Policy, Urgency, first_attempt, permit, sync};
use serde_json::json;

/// A Framework, its objects, and the clock.
pub struct World {
    pub framework: Framework,
    pub stored_bytes: usize,
    pub status: Option<FrameworkStatus>,
    pub objects: Objects,
    pub policy: Policy,
    pub now: Time,
    /// How often the status was written.
    pub writes: usize,
    /// Every status that was persisted.
    pub history: Vec<FrameworkStatus>,
    /// The reported history, each with the number of the persisted status that it is of.
    pub told: Vec<(usize, Snapshot)>,
    /// Every act that was done.
    pub acts: Vec<Action>,
    /// Reasons of all reports.
    pub reports: Vec<String>,
    /// Whether Pods that are deleted hang in Terminating until they are forced.
    pub hangs: bool,
    /// A `Date` that was told earlier.
    pub server_date: Option<Time>,
    /// The decision of its queue.
    pub admission: Option<Admission>,
    pub growths: Vec<i64>,
    made: u32,
}

/// The policy of a controller with no config file.
pub fn policy() -> Policy {
    Policy {
        classifier: Classifier::new(&default_rules()).unwrap(),
        object_local_cache_creation_timeout_sec: 300,
        min_conflict_retry_delay_sec: 60,
        max_conflict_retry_delay_sec: 900,
        retry_backoff: Default::default(),
        framework_completed_retain_sec: 2_592_000,
        unrecorded_creates_limit: 64,
        size: SizeLimits::default(),
        log_object_snapshot: Default::default(),
        queueing: false,
        defects: Defects::NONE,
    }
}

const CREATED: &str = "2026-01-01T00:00:00Z";

/// When every Framework of these tests is created.
pub fn created() -> Time {
    Time::floor(CREATED.parse().unwrap())
}

/// Builds a Framework the way a user would write it.
pub struct Builder {
    spec: serde_json::Value,
}

/// A Framework that starts at once, with no TaskRoles yet.
pub fn framework() -> Builder {
    Builder { spec: json!({ "executionType": "Start", "taskRoles": [] }) }
}

impl Builder {
    /// Adds a TaskRole.
    pub fn role(mut self, name: &str, tasks: usize) -> Self {
        let pod = json!({ "spec": { "containers": [{ "name": "main", "image": "busybox" }] } });
        let role = json!({ "name": name, "taskNumber": tasks, "task": { "pod": pod } });
        self.spec["taskRoles"].as_array_mut().unwrap().push(role);
        self
    }

    fn last_role(&mut self) -> &mut serde_json::Value {
        self.spec["taskRoles"].as_array_mut().unwrap().last_mut().unwrap()
    }

    /// The completion policy of the last TaskRole.
    pub fn policy(mut self, min_failed: i32, min_succeeded: i32) -> Self {
        self.last_role()["frameworkAttemptCompletionPolicy"] =
            json!({ "minFailedTaskCount": min_failed, "minSucceededTaskCount": min_succeeded });
        self
    }

    /// The retry policy of the Tasks of the last TaskRole.
    pub fn task_retry(mut self, fancy: bool, max: i32) -> Self {
        self.last_role()["task"]["retryPolicy"] = json!({ "fancyRetryPolicy": fancy, "maxRetryCount": max });
        self
    }

    /// podGracefulDeletionTimeoutSec of the last TaskRole.
    pub fn graceful(mut self, seconds: i64) -> Self {
        self.last_role()["task"]["podGracefulDeletionTimeoutSec"] = json!(seconds);
        self
    }

    /// The retry policy of the Framework.
    pub fn retry(mut self, fancy: bool, max: i32) -> Self {
        self.spec["retryPolicy"] = json!({ "fancyRetryPolicy": fancy, "maxRetryCount": max });
        self
    }

    /// ttlSecondsAfterFinished.
    pub fn ttl(mut self, seconds: i32) -> Self {
        self.spec["ttlSecondsAfterFinished"] = json!(seconds);
        self
    }

    /// activeDeadlineSeconds.
    pub fn deadline(mut self, seconds: i64) -> Self {
        self.spec["activeDeadlineSeconds"] = json!(seconds);
        self
    }

    /// Create, Start or Stop.
    pub fn execution(mut self, kind: &str) -> Self {
        self.spec["executionType"] = json!(kind);
        self
    }

    /// The Framework alone.
    pub fn object(self) -> Framework {
        let metadata = json!({ "name": "job", "namespace": "default", "uid": "fw-uid", "generation": 1,
            "creationTimestamp": CREATED });
        serde_json::from_value(json!({ "apiVersion": name::API_VERSION, "kind": name::KIND,
            "metadata": metadata, "spec": self.spec }))
        .unwrap()
    }

    /// The Framework in a world of its own.
    pub fn world(self) -> World {
        World {
            framework: self.object(),
            stored_bytes: 1000,
            status: None,
            objects: Objects::default(),
            policy: policy(),
            now: created(),
            writes: 0,
            history: Vec::new(),
            told: Vec::new(),
            acts: Vec::new(),
            reports: Vec::new(),
            hangs: false,
            server_date: None,
            admission: None,
            growths: Vec::new(),
            made: 0,
        }
    }
}

impl World {
    /// The observation that the core would get now.
    pub fn observed(&self) -> Observed<'_> {
        Observed {
            framework: &self.framework,
            stored_bytes: self.stored_bytes,
            status: self.status.as_ref(),
            server_date: self.server_date,
            admission: self.admission.as_ref(),
            growths: &self.growths,
            objects: &self.objects,
        }
    }

    /// The moment it would be told in.
    pub fn moment(&self) -> Moment {
        // Instance UIDs derive from the upper half.
        let seed = (self.writes as u128) << 80 | u128::from(self.made) << 54;
        Moment { now: self.now.timestamp(), server: Some(self.now), seed: seed ^ (7 << 100) }
    }

    /// The next plan.
    pub fn plan(&self) -> Plan {
        sync(&self.observed(), self.moment(), &self.policy)
    }

    /// Makes one plan real. Says whether it changed anything.
    pub fn step(&mut self) -> bool {
        let plan = self.plan();
        let changed = plan.persist.is_some() || !plan.act.is_empty();
        for action in &plan.act {
            let permitted = match &self.status {
                Some(status) => permit::permits(status, &self.framework, action),
                None => first_attempt::permits(&self.framework, action, &self.policy),
            };
            assert!(permitted, "not permitted: {action:?}");
        }
        // Steps that only record are gathered while there is something to do.
        let gathers = plan.urgency == Urgency::Record && !plan.act.is_empty();
        // Acts first: they are permitted by what was persisted before this plan.
        for action in plan.act {
            self.act(&action);
            self.acts.push(action);
        }
        if let Some(status) = plan.persist.filter(|_| !gathers) {
            let persisted = self.history.len().wrapping_sub(1);
            self.told.extend(plan.snapshots.into_iter().map(|snapshot| (persisted, snapshot)));
            self.persist(*status);
            self.reports.extend(plan.report.into_iter().map(|report| report.reason.to_owned()));
        }
        changed
    }

    fn persist(&mut self, status: FrameworkStatus) {
        self.writes += 1;
        self.history.push(status.clone());
        self.status = Some(status);
        let status = self.status.as_ref().unwrap();
        let recorded = |name: &String, create: &Create| match &create.outcome {
            Outcome::Acknowledged { uid } => permit::task_of_pod(status, name)
                .is_some_and(|t| t.attempt_status.pod_uid.as_ref() == Some(uid)),
            _ => false,
        };
        self.objects.pod_creates.retain(|name, create| !recorded(&name.to_string(), create));
        if status.attempt_status.config_map_uid.is_some() {
            self.objects.config_map_create = None;
        }
    }

    /// Steps until nothing changes any more.
    pub fn settle(&mut self) -> &mut Self {
        for _ in 0..200 {
            if !self.step() {
                return self;
            }
        }
        panic!("no fixed point: {:?}", self.plan());
    }

    fn uid(&mut self) -> String {
        self.made += 1;
        format!("uid-{}", self.made)
    }

    fn act(&mut self, action: &Action) {
        match action {
            Action::CreateConfigMap { instance } => {
                let uid = self.uid();
                assert!(self.objects.config_map.is_none(), "its name is taken");
                self.objects.config_map = Some(ConfigMapFacts {
                    uid: uid.clone(),
                    framework_uid: self.framework.metadata.uid.clone(),
                    deleting: false,
                });
                self.objects.config_map_create =
                    Some(Create { instance: instance.clone(), outcome: Outcome::Acknowledged { uid } });
            }
            Action::CreatePod { name, instance, .. } => {
                let uid = self.uid();
                let Instance::TaskAttempt { config_map_uid, .. } = instance else { panic!("{instance:?}") };
                let pod = pod(&uid, config_map_uid, PodPhase::Pending);
                assert!(self.objects.pods.insert(name, pod.into()).is_none(), "two instances of {name}");
                let outcome = Outcome::Acknowledged { uid };
                self.objects.pod_creates.insert(name, Create { instance: instance.clone(), outcome });
            }
            Action::DeletePod { name, uid, force: false } if self.hangs => {
                let pod = self.objects.pods.get_mut(name).unwrap();
                assert_eq!(&pod.uid, uid);
                let grace_sec = 30;
                pod.deletion = Some(Deletion { at: self.now.plus_seconds(grace_sec), grace_sec });
            }
            Action::DeletePod { name, uid, .. } => {
                assert_eq!(&self.objects.pods.remove(name).unwrap().uid, uid);
                self.objects.gone.insert(uid.clone());
            }
            Action::DeleteConfigMap { uid } => {
                assert!(
                    self.objects.pods.values().all(|pod| pod.config_map_uid != *uid),
                    "the ConfigMap goes after its Pods"
                );
                assert_eq!(&self.objects.config_map.take().unwrap().uid, uid);
                self.objects.gone.insert(uid.clone());
            }
            Action::ConfirmPod { uid, .. } | Action::ConfirmConfigMap { uid } => {
                self.objects.gone.insert(uid.clone());
            }
            Action::DeleteFramework => {
                self.framework.metadata.deletion_timestamp =
                    Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(self.now.timestamp()))
            }
        }
    }

    /// Lets time pass.
    pub fn pass(&mut self, seconds: i64) -> &mut Self {
        self.now = self.now.plus_seconds(seconds);
        self
    }

    /// Every pending Pod starts to run.
    pub fn run(&mut self) -> &mut Self {
        for pod in self.objects.pods.values_mut().filter(|pod| pod.phase == PodPhase::Pending) {
            pod.phase = PodPhase::Running;
            pod.pod_ip = "10.0.0.1".to_owned();
        }
        self.settle()
    }

    /// The Pod of a Task ends with this exit code; the plans that follow are not made yet.
    pub fn exit(&mut self, role: &str, index: i32, code: i32) -> &mut Self {
        let name = name::pod_name("job", role, index);
        let finished_at = Some(self.now);
        let pod = self.objects.pods.get_mut(&name).unwrap_or_else(|| panic!("no Pod {name}"));
        let terminated = ContainerTerminated { exit_code: code, finished_at, ..Default::default() };
        pod.phase = if code == 0 { PodPhase::Succeeded } else { PodPhase::Failed };
        pod.end = Some(Box::new(TerminatedPod {
            phase: if code == 0 { TerminalPhase::Succeeded } else { TerminalPhase::Failed },
            pod_name: name,
            reason: String::new(),
            message: String::new(),
            containers: vec![ContainerEnd { name: "main".to_owned(), terminated: Some(terminated) }],
        }));
        self
    }

    /// Somebody else starts to delete the Pod of a Task.
    pub fn terminate(&mut self, role: &str, index: i32, grace_sec: i64) -> &mut Self {
        let at = self.now.plus_seconds(grace_sec);
        let pod = self.objects.pods.get_mut(&name::pod_name("job", role, index)).unwrap();
        pod.deletion = Some(Deletion { at, grace_sec });
        self
    }

    /// The Pod of a Task is gone, for certain.
    pub fn vanish(&mut self, role: &str, index: i32) -> &mut Self {
        let pod = self.objects.pods.remove(&name::pod_name("job", role, index)).unwrap();
        self.objects.gone.insert(pod.facts.uid);
        self
    }

    /// The user changes the pod template of the first TaskRole.
    pub fn template(&mut self, edit: impl FnOnce(&mut serde_json::Value)) {
        let pod = &mut self.framework.spec.task_roles[0].task.pod;
        let mut template = pod.read().unwrap();
        edit(&mut template);
        *pod = template.into();
    }

    /// The user changes the spec.
    pub fn edit(&mut self, edit: impl FnOnce(&mut framework_api::FrameworkSpec)) -> &mut Self {
        edit(&mut self.framework.spec);
        *self.framework.metadata.generation.as_mut().unwrap() += 1;
        self
    }

    /// The user names a queue, or (`None`) takes the label away.
    pub fn name_queue(&mut self, queue: Option<&str>) -> &mut Self {
        let label = |queue: &str| (QUEUE_NAME_LABEL.to_owned(), queue.to_owned());
        self.framework.metadata.labels = queue.map(|queue| [label(queue)].into());
        self
    }

    /// Its queue lets it go as its spec is now.
    pub fn admit(&mut self) -> &mut Self {
        let generation = self.framework.metadata.generation.unwrap();
        self.admission = Some(Admission::Released { generation });
        self
    }

    /// Its queue lets all growths go that have been asked for.
    pub fn admit_growths(&mut self) -> &mut Self {
        let roles = self.status.iter().flat_map(|status| status.task_roles());
        let asked = roles.flat_map(|role| role.tasks()).filter_map(|task| task.queue_unit_generation);
        self.growths.extend(asked.collect::<Vec<_>>());
        self.growths.sort_unstable();
        self.growths.dedup();
        self
    }

    /// Its queue says why it has to wait.
    pub fn refuse(&mut self, reason: &str, message: &str) -> &mut Self {
        self.admission = Some(Admission::Waiting { reason: reason.to_owned(), message: message.to_owned() });
        self
    }

    /// The user stops the Framework.
    pub fn stop(&mut self) -> &mut Self {
        self.edit(|spec| spec.execution_type = framework_api::ExecutionType::Stop)
    }

    /// The persisted status.
    pub fn status(&self) -> &FrameworkStatus {
        self.status.as_ref().unwrap()
    }

    /// State of the Framework.
    pub fn state(&self) -> State {
        self.status().state
    }

    /// Status of a Task.
    pub fn task(&self, role: &str, index: i32) -> &TaskStatus {
        self.status().task(role, index).unwrap_or_else(|| panic!("no Task {role}-{index}"))
    }

    /// Status, reason and message of a condition.
    pub fn condition(&self, kind: &str) -> Option<(&str, &str, &str)> {
        let condition = self.status().conditions.iter().find(|condition| condition.type_ == kind)?;
        Some((&condition.status, &condition.reason, &condition.message))
    }

    /// Completion code of the Framework's current attempt.
    pub fn code(&self) -> Option<i32> {
        self.status().attempt_status.completion_status.as_ref().map(|end| end.code)
    }

    /// Completion code of a Task's current attempt.
    pub fn task_code(&self, role: &str, index: i32) -> Option<i32> {
        self.task(role, index).attempt_status.completion_status.as_ref().map(|end| end.code)
    }

    /// Asserts that the Framework completed with `code`, and that nothing is left.
    pub fn assert_completed(&self, code: Code) {
        assert_eq!((self.state(), self.code()), (State::Completed, Some(code.number())));
        assert!(self.objects.pods.is_empty() && self.objects.config_map.is_none(), "objects are left over");
    }
}

/// A Pod as the cache shows it.
pub fn pod(uid: &str, config_map_uid: &str, phase: PodPhase) -> PodFacts {
    PodFacts {
        uid: uid.to_owned(),
        config_map_uid: config_map_uid.to_owned(),
        phase,
        deletion: None,
        node_name: String::new(),
        pod_ip: String::new(),
        host_ip: String::new(),
        end: None,
        unwatched: false,
    }
}
