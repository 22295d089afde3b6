//! The life of a Framework in an ideal cluster, where time passes when nothing else happens.
//!
//! As in the controller, the persisted status permits each action, and a plan's actions precede its write.

use std::collections::BTreeMap;

use framework_api::pod_failure::default_rules;
use framework_api::{Framework, FrameworkStatus, State, Time};
use framework_core::classify::Classifier;
use framework_core::ideal_cluster::IdealCluster;
use framework_core::{Action, Moment, Observed, Plan, Policy, Urgency, sync};
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

/// A Framework, its cluster, and the events to come.
pub struct World {
    cluster: IdealCluster,
    policy: Policy,
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
        let cluster = IdealCluster::new(framework, now);
        World { cluster, policy, fates, due: BTreeMap::new(), pods: BTreeMap::new(), plans: 0 }
    }

    /// The persisted status.
    pub fn status(&self) -> Option<&FrameworkStatus> {
        self.cluster.status.as_ref()
    }

    /// Seconds since the creation.
    pub fn age(&self) -> i64 {
        self.cluster.now.unix()
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
                let goes_on = write(self.cluster.status.as_ref(), &next, self.age());
                let is_over = next.state == State::Completed;
                self.cluster.persist(*next);
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
        let cluster = &self.cluster;
        let observed = Observed {
            framework: &cluster.framework,
            stored_bytes: 0,
            status: cluster.status.as_ref(),
            server_date: Some(cluster.now),
            admission: None,
            growths: &[],
            objects: &cluster.objects,
        };
        let seed = (self.plans as u128) << 64;
        sync(
            &observed,
            Moment { now: cluster.now.timestamp(), server: Some(cluster.now), seed },
            &self.policy,
        )
    }

    fn act(&mut self, action: &Action) {
        self.cluster.act(action);
        let Action::CreatePod { name, task_role, task_index, .. } = action else { return };
        let Some(pod) = self.cluster.objects.pods.get(name) else { return };
        let before = self.pods.entry(name.clone()).or_default();
        let fate = self.fates.of(task_role, *task_index, *before);
        *before += 1;
        let starts = Due { pod: name.clone(), uid: pod.uid.clone(), starts: Some(fate), code: 0 };
        self.due.entry(self.cluster.now.plus_seconds(1)).or_default().push(starts);
    }

    /// Lets time pass until something happens: `later`, or the next event of a Pod. Returns whether it does.
    fn pass(&mut self, later: Option<Time>) -> bool {
        let next = self.due.first_key_value().map(|(at, _)| *at);
        let Some(next) = [later, next].into_iter().flatten().min() else { return false };
        let now = next.max(self.cluster.now.plus_seconds(1));
        self.cluster.now = now;
        while let Some(entry) = self.due.first_entry().filter(|entry| *entry.key() <= now) {
            entry.remove().into_iter().for_each(|due| self.happen(due));
        }
        true
    }

    fn happen(&mut self, due: Due) {
        let cluster = &mut self.cluster;
        if cluster.objects.pod(&due.pod, &due.uid).is_none() {
            return;
        }
        let Some(fate) = due.starts else { return cluster.end_pod(&due.pod, due.code) };
        cluster.run_pod(&due.pod);
        if let Some(seconds) = fate.seconds {
            let ends = Due { starts: None, code: fate.code, ..due };
            self.due.entry(cluster.now.plus_seconds(seconds)).or_default().push(ends);
        }
    }
}

/// The first whole second that is not before `at`.
fn ceil(at: Timestamp) -> Time {
    let floor = Time::floor(at);
    if floor.timestamp() < at { floor.plus_seconds(1) } else { floor }
}
