//! The Frameworks as they were last reported to `FrameworkUnits`, which creates their QueueUnits.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use framework_api::FrameworkStatus;
use framework_core::growth::{self, UnitDemand};
use framework_core::observed::Objects;
use framework_core::queue::{self, Stage};
use framework_core::{Observed, Policy};

use crate::event::{Effect, QueuedFramework};
use crate::framework_state::FrameworkState;
use framework_message::Key;

/// The last report, by Framework.
#[derive(Debug, Default)]
pub struct Consumers {
    /// The Frameworks that concern a queue.
    pub reported: BTreeMap<Key, ConsumerFacts>,
    /// Names without a Framework whose Pods run on.
    pub strays: BTreeSet<Key>,
    /// Names of Frameworks that units made by users name: these are reported though they concern no queue.
    pub named: BTreeSet<Key>,
    /// The reports that the turn ends with: the last one of each Framework that is there.
    pub queued: BTreeMap<Key, Effect>,
}

impl Consumers {
    /// Nothing was reported of this name.
    pub fn forget(&mut self, key: &Key) {
        self.reported.remove(key);
        self.strays.remove(key);
    }
}

/// The facts about a Framework that are reported to `FrameworkUnits`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerFacts {
    uid: Arc<str>,
    generation: Option<i64>,
    queue: Option<Arc<str>>,
    stage: Stage,
    deleting: bool,
    demands: Vec<UnitDemand>,
    /// Whether Pods run that an earlier Framework of the name has left.
    pub has_strays: bool,
    /// The version of these facts.
    seen: u128,
}

impl ConsumerFacts {
    /// The facts about an observed Framework, after those `before`; `None`: nothing has changed, or the
    /// Framework concerns no queue. `is_named`: a unit that a user made names it.
    pub fn of(
        before: Option<&Self>,
        state: &FrameworkState,
        o: &Observed<'_>,
        policy: &Policy,
        is_named: bool,
    ) -> Option<Self> {
        let (framework, status) = (o.framework, o.status);
        let queue = queue::is_queued(framework, status);
        let was_reported = before.is_some_and(|before| before.uid == state.uid);
        let may_have_unit = is_named || queue::names_one(framework) || queue::has_waited(status);
        if queue.is_none() && !was_reported && !may_have_unit {
            // First of all: for most Frameworks nothing else is looked at.
            return None;
        }
        let stage = queue::stage_now(o, policy);
        // Events of its Pods alone cost nothing.
        let (version, uid) = (state.resource_version, &state.uid);
        let is_known = |before: &&Self| (before.seen, before.stage, &before.uid) == (version, stage, uid);
        let known = before.filter(is_known);
        // One that runs, and had no strays, cannot get any.
        let may_have_strays = |known: &Self| stage != Stage::Started || known.has_strays;
        let has_strays = known.is_none_or(may_have_strays) && has_strays(o.objects, status);
        if known.is_some_and(|known| known.has_strays == has_strays) {
            return None;
        }
        Some(ConsumerFacts {
            uid: Arc::clone(&state.uid),
            generation: framework.metadata.generation,
            queue: queue.map(Arc::from),
            stage,
            deleting: framework.metadata.deletion_timestamp.is_some(),
            demands: growth::unit_demands(o, policy),
            has_strays,
            seen: version,
        })
    }

    /// Whether they are of the Framework with this UID.
    pub fn is_of(&self, uid: &str) -> bool {
        *self.uid == *uid
    }

    /// Whether these facts differ from `before`; their versions do not count.
    pub fn is_news(&self, before: Option<&Self>) -> bool {
        before.is_none_or(|before| *before != ConsumerFacts { seen: before.seen, ..self.clone() })
    }

    /// The report: the Framework with these facts.
    pub fn queued(&self, framework: &Arc<framework_api::Framework>) -> QueuedFramework {
        QueuedFramework {
            framework: Arc::clone(framework),
            queue: self.queue.clone(),
            stage: self.stage,
            demands: self.demands.clone(),
        }
    }
}

/// Whether Pods run that are of no ConfigMap that a Framework with this status records. An earlier one of its
/// name left them.
pub fn has_strays(objects: &Objects, status: Option<&FrameworkStatus>) -> bool {
    let recorded = status.and_then(|status| status.attempt_status.config_map_uid.as_deref());
    objects.running_pods().any(|pod| Some(pod.config_map_uid.as_str()) != recorded)
}
