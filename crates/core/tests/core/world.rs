//! An ideal cluster, and the record of its events: enough to live a Framework's life without an API server.
//!
//! A test changes the world (a Pod ends, a user stops the Framework), and lets it settle: plans are made,
//! persisted and acted on until nothing changes any more.

use framework_api::code::Code;
use framework_api::name;
use framework_api::pod_failure::default_rules;
use framework_api::queue::QUEUE_NAME_LABEL;
use framework_api::status::TaskStatus;
use framework_api::{Framework, FrameworkStatus, State, Time};
use framework_core::classify::Classifier;
use framework_core::ideal_cluster::IdealCluster;
use framework_core::observed::{Admission, Deletion, PodFacts, PodPhase};
use framework_core::snapshot::Snapshot;
use framework_core::{Action, Moment, Observed, Plan, Policy, Urgency, first_attempt, permit, sync};
use serde_json::json;

/// A Framework in its cluster, and the history of both.
pub struct World {
    pub cluster: IdealCluster,
    pub stored_bytes: usize,
    pub policy: Policy,
    /// How often the status was written.
    pub writes: usize,
    /// Every status that was persisted.
    pub history: Vec<FrameworkStatus>,
    /// The reported history, each with the number of the persisted status that it is of.
    pub snapshots: Vec<(usize, Snapshot)>,
    /// Every act that was done.
    pub acts: Vec<Action>,
    /// Reasons of all reports.
    pub reports: Vec<String>,
    /// Whether Pods that are deleted hang in Terminating until they are forced.
    pub hangs: bool,
    /// A `Date` that was received earlier.
    pub server_date: Option<Time>,
    /// The decision of its queue.
    pub admission: Option<Admission>,
    pub growths: Vec<i64>,
}

/// The policy of a controller with no config file, but for a low limit of unrecorded creates.
pub fn policy() -> Policy {
    let classifier = Classifier::new(&default_rules()).unwrap();
    Policy { expectations_limit: 64, ..Policy::new(classifier) }
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
            cluster: IdealCluster::new(self.object(), created()),
            stored_bytes: 1000,
            policy: policy(),
            writes: 0,
            history: Vec::new(),
            snapshots: Vec::new(),
            acts: Vec::new(),
            reports: Vec::new(),
            hangs: false,
            server_date: None,
            admission: None,
            growths: Vec::new(),
        }
    }
}

impl World {
    /// The observation that the core would get now.
    pub fn observed(&self) -> Observed<'_> {
        Observed {
            framework: &self.cluster.framework,
            stored_bytes: self.stored_bytes,
            status: self.cluster.status.as_ref(),
            server_date: self.server_date,
            admission: self.admission.as_ref(),
            growths: &self.growths,
            objects: &self.cluster.objects,
        }
    }

    /// The moment of its next plan.
    pub fn moment(&self) -> Moment {
        // Instance UIDs derive from the upper half.
        let seed = (self.writes as u128) << 80 | u128::from(self.cluster.created) << 54;
        Moment { now: self.cluster.now.timestamp(), server: Some(self.cluster.now), seed: seed ^ (7 << 100) }
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
            let permitted = match &self.cluster.status {
                Some(status) => permit::permits(status, &self.cluster.framework, action),
                None => first_attempt::permits(&self.cluster.framework, action, &self.policy),
            };
            assert!(permitted, "not permitted: {action:?}");
        }
        // Steps that only record are gathered while there is something to do.
        let gathers = plan.urgency == Urgency::Record && !plan.act.is_empty();
        // Acts first: the status that was persisted before this plan permits them.
        for action in plan.act {
            self.act(&action);
            self.acts.push(action);
        }
        if let Some(status) = plan.persist.filter(|_| !gathers) {
            let persisted = self.history.len().wrapping_sub(1);
            self.snapshots.extend(plan.snapshots.into_iter().map(|snapshot| (persisted, snapshot)));
            self.persist(*status);
            self.reports.extend(plan.report.into_iter().map(|report| report.reason.to_owned()));
        }
        changed
    }

    fn persist(&mut self, status: FrameworkStatus) {
        self.writes += 1;
        self.history.push(status.clone());
        self.cluster.persist(status);
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

    fn act(&mut self, action: &Action) {
        let objects = &mut self.cluster.objects;
        match action {
            Action::CreateConfigMap { .. } => assert!(objects.config_map.is_none(), "its name is taken"),
            Action::CreatePod { name, .. } => {
                assert!(objects.pods.get(name).is_none(), "two instances of {name}");
            }
            Action::DeletePod { name, uid, force } => {
                let pod = objects.pods.get_mut(name).unwrap();
                assert_eq!(&pod.uid, uid);
                if self.hangs && !force {
                    let grace_sec = 30;
                    let at = self.cluster.now.plus_seconds(grace_sec);
                    pod.deletion = Some(Deletion { at, grace_sec });
                    return;
                }
            }
            Action::DeleteConfigMap { uid } => {
                let is_left = objects.pods.values().any(|pod| pod.config_map_uid == *uid);
                assert!(!is_left, "the ConfigMap goes after its Pods");
                assert_eq!(objects.config_map.as_ref().map(|map| &map.uid), Some(uid));
            }
            _ => {}
        }
        self.cluster.act(action);
    }

    /// Lets time pass.
    pub fn pass(&mut self, seconds: i64) -> &mut Self {
        self.cluster.now = self.cluster.now.plus_seconds(seconds);
        self
    }

    /// Every pending Pod starts to run.
    pub fn run(&mut self) -> &mut Self {
        let pending = self.cluster.objects.pods.iter().filter(|(_, pod)| pod.phase == PodPhase::Pending);
        let pending: Vec<String> = pending.map(|(name, _)| name.to_string()).collect();
        pending.iter().for_each(|name| self.cluster.run_pod(name));
        self.settle()
    }

    /// The Pod of a Task ends with this exit code; the plans that follow are not made yet.
    pub fn exit(&mut self, role: &str, index: i32, code: i32) -> &mut Self {
        let name = name::pod_name("job", role, index);
        assert!(self.cluster.objects.pods.contains_key(&name), "no Pod {name}");
        self.cluster.end_pod(&name, code);
        self
    }

    /// Somebody else starts to delete the Pod of a Task.
    pub fn terminate(&mut self, role: &str, index: i32, grace_sec: i64) -> &mut Self {
        let at = self.cluster.now.plus_seconds(grace_sec);
        let pod = self.cluster.objects.pods.get_mut(&name::pod_name("job", role, index)).unwrap();
        pod.deletion = Some(Deletion { at, grace_sec });
        self
    }

    /// The Pod of a Task is gone, for certain.
    pub fn vanish(&mut self, role: &str, index: i32) -> &mut Self {
        let (name, objects) = (name::pod_name("job", role, index), &mut self.cluster.objects);
        let uid = objects.pods.get(&name).unwrap().uid.clone();
        objects.drop_pod(&name);
        objects.gone.insert(uid);
        self
    }

    /// The user changes the pod template of the first TaskRole.
    pub fn template(&mut self, edit: impl FnOnce(&mut serde_json::Value)) {
        let pod = &mut self.cluster.framework.spec.task_roles[0].task.pod;
        let mut template = pod.read().unwrap();
        edit(&mut template);
        *pod = template.into();
    }

    /// The user changes the spec.
    pub fn edit(&mut self, edit: impl FnOnce(&mut framework_api::FrameworkSpec)) -> &mut Self {
        edit(&mut self.cluster.framework.spec);
        *self.cluster.framework.metadata.generation.as_mut().unwrap() += 1;
        self
    }

    /// The user names a queue, or (`None`) takes the label away.
    pub fn name_queue(&mut self, queue: Option<&str>) -> &mut Self {
        let label = |queue: &str| (QUEUE_NAME_LABEL.to_owned(), queue.to_owned());
        self.cluster.framework.metadata.labels = queue.map(|queue| [label(queue)].into());
        self
    }

    /// Its queue lets it go as its spec is now.
    pub fn admit(&mut self) -> &mut Self {
        let generation = self.cluster.framework.metadata.generation.unwrap();
        self.admission = Some(Admission::Released { generation });
        self
    }

    /// Its queue lets all growths go that have been asked for.
    pub fn admit_growths(&mut self) -> &mut Self {
        let roles = self.cluster.status.iter().flat_map(|status| status.task_roles());
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
        self.cluster.status.as_ref().unwrap()
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
        assert!(
            self.cluster.objects.pods.is_empty() && self.cluster.objects.config_map.is_none(),
            "objects are left over"
        );
    }
}

/// A Pod as the cache shows it.
pub fn pod(uid: &str, config_map_uid: &str, phase: PodPhase) -> PodFacts {
    PodFacts::new(uid, config_map_uid, phase)
}
