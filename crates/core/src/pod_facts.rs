//! The facts that the core reads of a Pod.

use framework_api::Time;

use crate::classify::TerminatedPod;

/// A Pod as the cache shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct PodFacts {
    /// `metadata.uid`.
    pub uid: String,
    /// UID of the ConfigMap that controls it.
    pub config_map_uid: String,
    /// `status.phase`.
    pub phase: PodPhase,
    /// Set when it has a deletionTimestamp.
    pub deletion: Option<Deletion>,
    /// `spec.nodeName`, empty if unset.
    pub node_name: String,
    /// `status.podIP`, empty if unset.
    pub pod_ip: String,
    /// `status.hostIP`, empty if unset.
    pub host_ip: String,
    /// How it ended; present exactly when the phase is Succeeded or Failed.
    pub end: Option<Box<TerminatedPod>>,
    /// Whether its end was seen before its deletion, which is under way.
    pub ended_first: bool,
    /// When the watch first showed it Running.
    pub ran_at: Option<Time>,
    /// Known by a GET only: the watch has not shown it.
    pub unwatched: bool,
}

impl PodFacts {
    /// A Pod on no node that is not being deleted.
    pub fn new(uid: impl Into<String>, config_map_uid: impl Into<String>, phase: PodPhase) -> Self {
        PodFacts {
            uid: uid.into(),
            config_map_uid: config_map_uid.into(),
            phase,
            deletion: None,
            node_name: String::new(),
            pod_ip: String::new(),
            host_ip: String::new(),
            end: None,
            ended_first: false,
            ran_at: None,
            unwatched: false,
        }
    }

    /// How it ended by itself. An end that was seen only after a deletion began is that of the deletion.
    pub fn own_end(&self) -> Option<&TerminatedPod> {
        self.end.as_deref().filter(|_| self.deletion.is_none() || self.ended_first)
    }

    /// Takes over what earlier facts about the same Pod prove.
    pub fn continue_from(&mut self, before: &PodFacts) {
        self.ran_at = before.ran_at.or(self.ran_at);
        if before.own_end().is_some() && self.own_end().is_none() {
            self.end = before.end.clone();
            self.ended_first = self.deletion.is_some();
        }
    }
}

/// `status.phase` of a Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodPhase {
    /// Not all containers have started.
    Pending,
    /// At least one container runs.
    Running,
    /// All containers succeeded.
    Succeeded,
    /// All containers ended, and at least one failed, or the kubelet ended the Pod.
    Failed,
    /// The node does not report.
    Unknown,
}

/// A graceful deletion under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deletion {
    /// `deletionTimestamp`: when the grace period ends.
    pub at: Time,
    /// `deletionGracePeriodSeconds`.
    pub grace_sec: i64,
}

impl Deletion {
    /// When the deletion was requested.
    pub fn started(self) -> Time {
        self.at.plus_seconds(self.grace_sec.saturating_neg())
    }
}
