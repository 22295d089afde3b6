//! What the core is told: the facts about one Framework and its objects, the moment, and the policy.
//!
//! Facts come from the caches (what the API server showed) and from the write queue (what was sent and
//! what came of it). The core believes nothing else.

use std::collections::{BTreeMap, BTreeSet};

use framework_api::config::LogObjectSnapshot;
use framework_api::{Framework, FrameworkStatus, Time};
use jiff::Timestamp;

use crate::cached::CachedPod;
use crate::classify::{Classifier, TerminatedPod};
use crate::defect::Defects;
use crate::size::SizeLimits;

/// All that is known of one Framework when its next step is decided.
#[derive(Clone, Copy, Debug)]
pub struct Observed<'a> {
    /// Metadata and spec; of the same object version as `status` (rule A3).
    pub framework: &'a Framework,
    /// Length of metadata and spec as the API server stores them.
    pub stored_bytes: usize,
    /// The persisted status, decompressed: the newer of the cache and our last acknowledged write.
    pub status: Option<&'a FrameworkStatus>,
    /// The latest `Date` that was asked for since the Framework was first seen: proof of a deadline that has
    /// passed, which stays one.
    pub server_date: Option<Time>,
    /// What its queue says; `None`: nothing yet, or there is none.
    pub admission: Option<&'a Admission>,
    /// Which growths its queue has released: the generations that asked for them, sorted.
    pub growths: &'a [i64],
    /// Its ConfigMap and Pods.
    pub objects: &'a Objects,
}

/// What its queue says to a Framework that asks to be let go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It has to wait.
    Waiting {
        /// Why, in one word in CamelCase, from a closed set.
        reason: String,
        /// Why, in a sentence. While the reason stays, it is read once.
        message: String,
    },
    /// It may begin as it stands in this generation of its spec; one that was changed since is to wait until
    /// its queue says so of that, too. Once it begins, that is never taken back.
    Released {
        /// `metadata.generation`.
        generation: i64,
    },
}

/// What is known of the objects of one Framework.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    /// The cached ConfigMap with the name of this Framework's, whoever controls it.
    pub config_map: Option<ConfigMapFacts>,
    /// The cached Pods by name whose controller is a ConfigMap with the name of this Framework's. Boxed: half
    /// of the places in a map's nodes are empty.
    pub pods: BTreeMap<String, Box<CachedPod>>,
    /// Creates of the ConfigMap: sent, acknowledged and not yet persisted, or refused.
    pub config_map_create: Option<Create>,
    /// Creates of Pods, by Pod name.
    pub pod_creates: BTreeMap<String, Create>,
    /// UIDs of objects that were known and are confirmed to exist no more (rule A6).
    pub gone: BTreeSet<String>,
    /// UIDs for which a delete is in flight, or accepted and not yet seen.
    pub deletes: BTreeSet<String>,
    /// UIDs for which a forced delete (grace period 0) is in flight, or accepted and not yet seen.
    pub forced_deletes: BTreeSet<String>,
    /// UIDs whose existence is being confirmed by a GET.
    pub confirms: BTreeSet<String>,
}

/// A ConfigMap as the cache shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigMapFacts {
    /// `metadata.uid`.
    pub uid: String,
    /// UID of the controlling owner, if it has one of kind Framework.
    pub framework_uid: Option<String>,
    /// Whether it has a deletionTimestamp.
    pub deleting: bool,
}

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
    /// Known by a GET only: the watch has not shown it.
    pub unwatched: bool,
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
    /// When the deletion was asked for.
    pub fn started(self) -> Time {
        self.at.plus_seconds(self.grace_sec.saturating_neg())
    }
}

/// A create that was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Create {
    /// For which instance; a create for another one never stands for this one.
    pub instance: Instance,
    /// What came of it.
    pub outcome: Outcome,
}

/// Which instance a create is for: names are used again, instances never.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Instance {
    /// An attempt of the Framework.
    FrameworkAttempt {
        /// Its id.
        attempt_id: i32,
    },
    /// An attempt of a Task in an attempt of its Framework.
    TaskAttempt {
        /// UID of the ConfigMap that stands for the Framework's attempt.
        config_map_uid: String,
        /// Instance UID of the Task.
        task_uid: String,
        /// Id of the Task's attempt.
        attempt_id: i32,
    },
}

/// What came of a create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// No reply yet, or its outcome is unknown: the object may appear at any time.
    InFlight,
    /// Created, with this UID.
    Acknowledged {
        /// `metadata.uid` of the object.
        uid: String,
    },
    /// Not created, and no object of ours has that name.
    Refused {
        /// Whether, and how, that ends the attempt.
        refusal: Refusal,
        /// The API server's message.
        message: String,
        /// When a transient refusal is tried again.
        retry_at: Timestamp,
    },
}

/// Why a create was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// May pass: it is tried again.
    Transient,
    /// The name is taken by an object that is not ours: it is tried again, the holder is never deleted.
    NameConflict,
    /// The Pod is invalid or too large: PodCreationPermanentError.
    Permanent,
    /// Forbidden, or a bad request: PodCreationUnknownError.
    Unknown,
}

/// When a decision is made, and the randomness it may use.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// Now, corrected to the API server's clock as well as is known.
    pub now: Timestamp,
    /// The `Date` that the API server answered with when it was last asked; `None`: it was not asked since
    /// the last evaluation. Forced deletions and expiries act on this alone, never on `now` (rule A8).
    pub server: Option<Time>,
    /// Unique for every evaluation, and not to be guessed; instance UIDs and random delays derive from it.
    pub seed: u128,
}

impl Moment {
    /// Now, in whole seconds.
    pub fn time(&self) -> Time {
        Time::floor(self.now)
    }
}

/// The settings that decisions depend on.
#[derive(Clone, Debug)]
pub struct Policy {
    /// How failed Pods are classified.
    pub classifier: Classifier,
    /// How long a created object may be missing in the cache before it counts as deleted.
    pub object_local_cache_creation_timeout_sec: i64,
    /// Least random delay of a retry after a transient conflict, Frameworks only.
    pub min_conflict_retry_delay_sec: i64,
    /// Greatest random delay of a retry after a transient conflict, Frameworks only.
    pub max_conflict_retry_delay_sec: i64,
    /// How long a completed Framework is kept.
    pub framework_completed_retain_sec: i64,
    /// How many Pods of a Framework may exist, or be on their way, without being recorded (rule A7).
    pub unrecorded_creates_limit: usize,
    /// What an object may take.
    pub size: SizeLimits,
    /// Which history snapshots are told.
    pub log_object_snapshot: LogObjectSnapshot,
    /// Whether a Framework that names a queue waits to be released from it.
    pub queueing: bool,
    /// Rules that are switched off, to show that the checks find their absence.
    pub defects: Defects,
}

impl Policy {
    /// The contract's defaults, with this classifier.
    pub fn new(classifier: Classifier) -> Self {
        Policy {
            classifier,
            object_local_cache_creation_timeout_sec: 300,
            min_conflict_retry_delay_sec: 60,
            max_conflict_retry_delay_sec: 900,
            framework_completed_retain_sec: 30 * 24 * 3600,
            unrecorded_creates_limit: 64,
            size: SizeLimits::default(),
            log_object_snapshot: LogObjectSnapshot::default(),
            queueing: false,
            defects: Defects::NONE,
        }
    }
}

impl Objects {
    /// The cached Pod of that name, if it has that UID.
    pub fn pod(&self, name: &str, uid: &str) -> Option<&PodFacts> {
        self.pods.get(name).map(|pod| &pod.facts).filter(|pod| pod.uid == uid)
    }

    /// Whether any create of a Pod has no known outcome yet.
    pub fn has_unsettled_pod_create(&self) -> bool {
        self.pod_creates.values().any(|create| create.outcome == Outcome::InFlight)
    }

    /// Creates of Pods that are sent or acknowledged: Pods that a crash would lose.
    pub fn unrecorded_creates(&self) -> usize {
        let lost = |create: &&Create| !matches!(create.outcome, Outcome::Refused { .. });
        self.pod_creates.values().filter(lost).count()
    }
}
