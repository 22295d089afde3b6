//! A world without a cluster: every request succeeds at once, and time passes when nothing else happens.
//!
//! As in the controller, the persisted status permits each action, and a plan's actions precede its write.

use std::collections::BTreeMap;

use framework_api::pod_failure::default_rules;
use framework_api::{Framework, FrameworkStatus, State, Time};
use framework_core::classify::{Classifier, ContainerEnd, ContainerTerminated, TerminalPhase, TerminatedPod};
use framework_core::observed::{ConfigMapFacts, Create, Instance, Objects, Outcome, PodFacts, PodPhase};
use framework_core::{Action, Moment, Observed, Plan, Policy, Urgency, permit, sync};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time as MetaTime;

use super::fate::{Fate, Fates};

/// Plans after which a life counts as endless.
const MOST_PLANS: usize = 200_000;

/// Why a life is not followed further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The Framework is Completed.
    Completed,
    /// Nothing more happens.
    Waits,
    /// It goes on for too long.
    Endless,
}

/// The next event of a Pod.
#[derive(Clone, Debug)]
struct Due {
    pod: String,
    uid: String,
    /// It starts, and goes so; `None`: it ends with this code.
    starts: Option<Fate>,
    code: i32,
}

/// A Framework, its objects, and the clock.
pub struct World {
    framework: Framework,
    status: Option<FrameworkStatus>,
    objects: Objects,
    policy: Policy,
    now: Time,
    fates: Fates,
    /// Events to come, by time.
    due: BTreeMap<Time, Vec<Due>>,
    /// How many Pods each Task had, by their name.
    pods: BTreeMap<String, u32>,
    plans: usize,
}

impl World {
    /// A Framework that was just created, on a controller with its default config.
    pub fn new(mut framework: Framework, fates: Fates) -> World {
        let now = Time::floor(Timestamp::UNIX_EPOCH);
        let metadata = &mut framework.metadata;
        metadata.uid = Some("framework".to_owned());
        metadata.generation = Some(1);
        metadata.creation_timestamp = Some(MetaTime(now.timestamp()));
        metadata.deletion_timestamp = None;
        // The default rules are ours, and a test of the core compiles them.
        let classifier = Classifier::new(&default_rules()).or_else(|_| Classifier::new(&[]));
        let policy = Policy::new(classifier.expect("no rules are good rules"));
        World {
            framework,
            status: None,
            objects: Objects::default(),
            policy,
            now,
            fates,
            due: BTreeMap::new(),
            pods: BTreeMap::new(),
            plans: 0,
        }
    }

    /// The persisted status.
    pub fn status(&self) -> Option<&FrameworkStatus> {
        self.status.as_ref()
    }

    /// Seconds since the creation.
    pub fn age(&self) -> i64 {
        self.now.unix()
    }

    /// Pods that were created.
    pub fn created(&self) -> usize {
        self.pods.values().map(|count| *count as usize).sum()
    }

    /// Lives until the Framework is Completed. `write` takes each status write: the status before, the status
    /// after, and the seconds since the creation. It returns whether to go on.
    pub fn live(
        &mut self,
        mut write: impl FnMut(Option<&FrameworkStatus>, &FrameworkStatus, i64) -> bool,
    ) -> Stop {
        loop {
            let plan = self.plan();
            self.plans += 1;
            if self.plans > MOST_PLANS {
                return Stop::Endless;
            }
            let changes = plan.persist.is_some() || !plan.act.is_empty();
            let later = [plan.wake.map(ceil), plan.proof_due].into_iter().flatten().min();
            let gathers = plan.urgency == Urgency::Record && !plan.act.is_empty();
            plan.act.iter().for_each(|action| self.act(action));
            if let Some(next) = plan.persist.filter(|_| !gathers) {
                let goes_on = write(self.status.as_ref(), &next, self.age());
                let is_over = next.state == State::Completed;
                self.persist(*next);
                if is_over {
                    return Stop::Completed;
                }
                if !goes_on {
                    return Stop::Endless;
                }
            }
            if !changes && !self.pass(later) {
                return Stop::Waits;
            }
        }
    }

    fn plan(&self) -> Plan {
        let observed = Observed {
            framework: &self.framework,
            stored_bytes: 0,
            status: self.status.as_ref(),
            server_date: Some(self.now),
            admission: None,
            growths: &[],
            objects: &self.objects,
        };
        let seed = (self.plans as u128) << 64;
        sync(&observed, Moment { now: self.now.timestamp(), server: Some(self.now), seed }, &self.policy)
    }

    fn persist(&mut self, status: FrameworkStatus) {
        let recorded = |name: &str, create: &Create| match &create.outcome {
            Outcome::Acknowledged { uid } => permit::task_of_pod(&status, name)
                .is_some_and(|task| task.attempt_status.pod_uid.as_ref() == Some(uid)),
            _ => false,
        };
        self.objects.pod_creates.retain(|name, create| !recorded(&name.to_string(), create));
        if status.attempt_status.config_map_uid.is_some() {
            self.objects.config_map_create = None;
        }
        self.status = Some(status);
    }

    fn act(&mut self, action: &Action) {
        match action {
            Action::CreateConfigMap { instance } => {
                let uid = format!("config-map-{}", self.plans);
                let framework_uid = self.framework.metadata.uid.clone();
                let facts = ConfigMapFacts { uid: uid.clone(), framework_uid, deleting: false };
                self.objects.config_map = Some(facts);
                let outcome = Outcome::Acknowledged { uid };
                self.objects.config_map_create = Some(Create { instance: instance.clone(), outcome });
            }
            Action::CreatePod { name, task_role, task_index, instance } => {
                self.create_pod(name, task_role, *task_index, instance);
            }
            Action::DeletePod { name, uid, .. } => {
                self.objects.pods.remove(name);
                self.objects.gone.insert(uid.clone());
            }
            Action::DeleteConfigMap { uid } => {
                self.objects.config_map = None;
                self.objects.gone.insert(uid.clone());
            }
            Action::ConfirmPod { uid, .. } | Action::ConfirmConfigMap { uid } => {
                self.objects.gone.insert(uid.clone());
            }
            Action::DeleteFramework => {
                self.framework.metadata.deletion_timestamp = Some(MetaTime(self.now.timestamp()));
            }
        }
    }

    fn create_pod(&mut self, name: &str, role: &str, index: i32, instance: &Instance) {
        let Instance::TaskAttempt { config_map_uid, .. } = instance else { return };
        let before = self.pods.entry(name.to_owned()).or_default();
        let fate = self.fates.of(role, index, *before);
        *before += 1;
        let uid = format!("{name}-{before}");
        let facts = PodFacts {
            uid: uid.clone(),
            config_map_uid: config_map_uid.clone(),
            phase: PodPhase::Pending,
            deletion: None,
            node_name: "node".to_owned(),
            pod_ip: String::new(),
            host_ip: String::new(),
            end: None,
            unwatched: false,
        };
        self.objects.pods.insert(name, facts.into());
        let outcome = Outcome::Acknowledged { uid: uid.clone() };
        self.objects.pod_creates.insert(name, Create { instance: instance.clone(), outcome });
        let starts = Due { pod: name.to_owned(), uid, starts: Some(fate), code: 0 };
        self.due.entry(self.now.plus_seconds(1)).or_default().push(starts);
    }

    /// Lets time pass until something happens: `later`, or the next event of a Pod. Returns whether it does.
    fn pass(&mut self, later: Option<Time>) -> bool {
        let next = self.due.first_key_value().map(|(at, _)| *at);
        let Some(next) = [later, next].into_iter().flatten().min() else { return false };
        self.now = next.max(self.now.plus_seconds(1));
        while let Some(entry) = self.due.first_entry().filter(|entry| *entry.key() <= self.now) {
            entry.remove().into_iter().for_each(|due| self.happen(due));
        }
        true
    }

    fn happen(&mut self, due: Due) {
        let Some(pod) = self.objects.pods.get_mut(&due.pod).filter(|pod| pod.uid == due.uid) else { return };
        let Some(fate) = due.starts else {
            let (phase, terminal) = match due.code {
                0 => (PodPhase::Succeeded, TerminalPhase::Succeeded),
                _ => (PodPhase::Failed, TerminalPhase::Failed),
            };
            let finished_at = Some(self.now);
            let ended = ContainerTerminated { exit_code: due.code, finished_at, ..Default::default() };
            pod.phase = phase;
            pod.end = Some(Box::new(TerminatedPod {
                phase: terminal,
                pod_name: due.pod,
                reason: String::new(),
                message: String::new(),
                containers: vec![ContainerEnd { name: "main".to_owned(), terminated: Some(ended) }],
            }));
            return;
        };
        pod.phase = PodPhase::Running;
        pod.pod_ip = "10.0.0.1".to_owned();
        if let Some(seconds) = fate.seconds {
            let ends = Due { starts: None, code: fate.code, ..due };
            self.due.entry(self.now.plus_seconds(seconds)).or_default().push(ends);
        }
    }
}

/// The first whole second that is not before `at`.
fn ceil(at: Timestamp) -> Time {
    let floor = Time::floor(at);
    if floor.timestamp() < at { floor.plus_seconds(1) } else { floor }
}
