//! The input of the core: the facts about one Framework and its objects, the moment, and the policy.
//!
//! Facts come from the caches, which hold the objects that the API server showed, and from the requests that
//! were sent, with their outcomes. The core uses no other source.

use std::collections::BTreeSet;

use framework_api::{Framework, FrameworkStatus, Time};

use crate::cached::CachedPod;
pub use crate::create::{Create, Instance, Outcome, Refusal};
pub use crate::left_pods::LeftPods;
pub use crate::moment::Moment;
pub use crate::pod_facts::{Deletion, PodFacts, PodPhase};
use crate::pod_map::PodMap;
pub use crate::policy::Policy;

/// The facts about one Framework when its next step is decided.
#[derive(Clone, Copy, Debug)]
pub struct Observed<'a> {
    /// Metadata and spec; of the same object version as `status` (rule A3).
    pub framework: &'a Framework,
    /// Length of metadata and spec as the API server stores them.
    pub stored_bytes: usize,
    /// The persisted status, decompressed: the newer of the cache and our last acknowledged write.
    pub status: Option<&'a FrameworkStatus>,
    /// The latest `Date` that was fetched since the Framework was first seen: it proves a deadline that has
    /// passed.
    pub server_date: Option<Time>,
    /// The answer of its queue; `None`: there is none yet, or no queue.
    pub admission: Option<&'a Admission>,
    /// The growths that its queue has released: their generations, sorted.
    pub growths: &'a [i64],
    /// Its ConfigMap and Pods.
    pub objects: &'a Objects,
}

/// The answer of a queue to a Framework that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It has to wait.
    Waiting {
        /// The reason, in one word in CamelCase, from a closed set.
        reason: String,
        /// The reason, in a sentence. It is read only when the reason changes.
        message: String,
    },
    /// It may begin with this generation of its spec. If the spec has changed since, it waits until that
    /// generation is released, too. Once it begins, the release is never taken back.
    Released {
        /// `metadata.generation`.
        generation: i64,
    },
}

/// The facts about the objects of one Framework.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    /// The cached ConfigMap with the name of this Framework's, under any controller.
    pub config_map: Option<ConfigMapFacts>,
    /// The cached Pods whose controller is a ConfigMap with the name of this Framework's. They are boxed,
    /// because half of the slots in a map's nodes are empty.
    pub pods: PodMap<Box<CachedPod>>,
    /// Creates of the ConfigMap: sent, acknowledged and not yet persisted, or refused.
    pub config_map_create: Option<Create>,
    /// Creates of Pods.
    pub pod_creates: PodMap<Create>,
    /// UIDs of objects that were known and that are confirmed to be gone (rule A6).
    pub gone: BTreeSet<String>,
    /// Pods that left the cache, and ran or ended by themselves before.
    pub left_pods: LeftPods,
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

impl ConfigMapFacts {
    /// Whether this Framework controls it.
    pub fn is_of(&self, framework: &Framework) -> bool {
        self.framework_uid.is_some() && self.framework_uid == framework.metadata.uid
    }

    /// A sentence for the Framework whose name it holds without being its own.
    pub fn conflict(&self) -> String {
        match &self.framework_uid {
            Some(uid) => {
                format!("the name is taken by a ConfigMap, controlled by the Framework with UID {uid}")
            }
            None => "the name is taken by a ConfigMap, which no Framework controls".to_owned(),
        }
    }
}

impl Objects {
    /// The cached Pod of that name, if it has that UID.
    pub fn pod(&self, name: &str, uid: &str) -> Option<&PodFacts> {
        self.pods.get(name).map(|pod| &pod.facts).filter(|pod| pod.uid == uid)
    }

    /// The cached Pod of that name leaves the cache.
    pub fn drop_pod(&mut self, name: &str) {
        if let Some(pod) = self.pods.remove(name) {
            self.pod_left(pod);
        }
    }

    /// A Pod has left the cache. One that the controller deletes is not remembered: its end is stored.
    pub fn pod_left(&mut self, pod: Box<CachedPod>) {
        if !self.deletes.contains(&pod.uid) {
            self.left_pods.insert(pod);
        }
    }

    /// Forgets the objects that are gone: no status names them.
    pub fn forget_gone(&mut self) {
        self.gone.clear();
        self.left_pods.clear();
    }

    /// The cached Pods that have not ended.
    pub fn running_pods(&self) -> impl Iterator<Item = &PodFacts> {
        let runs = |pod: &&PodFacts| !matches!(pod.phase, PodPhase::Succeeded | PodPhase::Failed);
        self.pods.values().map(|pod| &pod.facts).filter(runs)
    }

    /// Whether any create of a Pod has no known outcome yet.
    pub fn has_unsettled_pod_create(&self) -> bool {
        self.pod_creates.values().any(|create| create.outcome == Outcome::InFlight)
    }

    /// Creates of Pods that are sent or acknowledged: Pods that a crash would lose.
    pub fn expectations(&self) -> usize {
        let lost = |create: &&Create| !matches!(create.outcome, Outcome::Refused { .. });
        self.pod_creates.values().filter(lost).count()
    }
}
