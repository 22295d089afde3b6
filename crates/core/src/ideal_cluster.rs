//! One Framework in an ideal cluster: every request succeeds, and is seen, at once.
//!
//! `kubectl framework simulate` lives a Framework's life in it, and so do the tests of this crate. The caller
//! decides when a plan's status is persisted, when time passes, and how each Pod fares.

use framework_api::{Framework, FrameworkStatus, Time};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time as MetaTime;

use crate::classify::{ContainerEnd, ContainerTerminated, TerminalPhase, TerminatedPod};
use crate::observed::{ConfigMapFacts, Create, Instance, Objects, Outcome, PodFacts, PodPhase};
use crate::permit;
use crate::plan::Action;

/// One Framework, its objects, and the clock of an ideal cluster.
#[derive(Debug)]
pub struct IdealCluster {
    /// Metadata and spec.
    pub framework: Framework,
    /// The persisted status.
    pub status: Option<FrameworkStatus>,
    /// The ConfigMap and the Pods.
    pub objects: Objects,
    /// The time.
    pub now: Time,
    /// How many ConfigMaps and Pods were created; their UIDs count them.
    pub created: u32,
}

impl IdealCluster {
    /// A Framework without a status, and the time.
    pub fn new(framework: Framework, now: Time) -> IdealCluster {
        IdealCluster { framework, status: None, objects: Objects::default(), now, created: 0 }
    }

    /// Persists a status. Creates that it records are no longer kept beside it.
    pub fn persist(&mut self, status: FrameworkStatus) {
        let is_recorded = |name: &str, create: &Create| match &create.outcome {
            Outcome::Acknowledged { uid } => permit::task_of_pod(&status, name)
                .is_some_and(|task| task.attempt_status.pod_uid.as_ref() == Some(uid)),
            _ => false,
        };
        self.objects.pod_creates.retain(|name, create| !is_recorded(&name.to_string(), create));
        if status.attempt_status.config_map_uid.is_some() {
            self.objects.config_map_create = None;
        }
        self.status = Some(status);
    }

    /// Sends the request of an action. A deleted object is gone at once.
    pub fn act(&mut self, action: &Action) {
        match action {
            Action::CreateConfigMap { instance } => {
                let uid = self.uid();
                let framework_uid = self.framework.metadata.uid.clone();
                let facts = ConfigMapFacts { uid: uid.clone(), framework_uid, deleting: false };
                self.objects.config_map = Some(facts);
                self.objects.config_map_create = Some(acknowledged(instance, uid));
            }
            Action::CreatePod { name, instance, .. } => {
                let Instance::TaskAttempt { config_map_uid, .. } = instance else { return };
                let uid = self.uid();
                let facts = PodFacts {
                    node_name: "node".to_owned(),
                    ..PodFacts::new(uid.clone(), config_map_uid, PodPhase::Pending)
                };
                self.objects.pods.insert(name, facts.into());
                self.objects.pod_creates.insert(name, acknowledged(instance, uid));
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

    /// A Pod starts to run, if it is there.
    pub fn run_pod(&mut self, name: &str) {
        if let Some(pod) = self.objects.pods.get_mut(name) {
            pod.phase = PodPhase::Running;
            pod.pod_ip = "10.0.0.1".to_owned();
        }
    }

    /// The one container of a Pod exits with a code, if the Pod is there.
    pub fn end_pod(&mut self, name: &str, exit_code: i32) {
        let Some(pod) = self.objects.pods.get_mut(name) else { return };
        let (phase, terminal) = match exit_code {
            0 => (PodPhase::Succeeded, TerminalPhase::Succeeded),
            _ => (PodPhase::Failed, TerminalPhase::Failed),
        };
        let finished_at = Some(self.now);
        let exit = ContainerTerminated { exit_code, finished_at, ..ContainerTerminated::default() };
        pod.phase = phase;
        pod.end = Some(Box::new(TerminatedPod {
            phase: terminal,
            pod_name: name.to_owned(),
            reason: String::new(),
            message: String::new(),
            containers: vec![ContainerEnd { name: "main".to_owned(), terminated: Some(exit) }],
        }));
    }

    fn uid(&mut self) -> String {
        self.created += 1;
        format!("uid-{}", self.created)
    }
}

/// A create that succeeded and is not yet persisted.
fn acknowledged(instance: &Instance, uid: String) -> Create {
    Create { instance: instance.clone(), outcome: Outcome::Acknowledged { uid } }
}
