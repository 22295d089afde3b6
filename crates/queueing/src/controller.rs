//! Who may begin: the unit_states of all queues, stepped like the engine.
//!
//! Guarantees: a release is decided from what is stored and guarded by the resourceVersion that it was
//! decided from; one that may have been stored counts until it is known not to be; after a start nothing is
//! released while a predecessor's release may still land (its requests live for a bounded time); the same
//! news at the same times gives the same requests. It does no I/O and reads no clock.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use framework_api::queue::{ConsumerKind, Reason};
use framework_core::observed::Admission;
use framework_queue::{Namespace, ResourceRequests};
use jiff::Timestamp;

use crate::consumer::{Consumer, ConsumerKey, JobKind};
use crate::counts::Counts;
use crate::object::{
    ClassObject, JobObject, JobSetObject, PodUse, QueueEvent, QueueObject, QuotaObject, UnitObject,
};
use crate::others::Others;
use crate::store::Store;
use crate::unit::{PendingRequest, UnitState};
use framework_message::backoff::Failures;
use framework_message::{Change, Key, Now, Ticket};
use framework_message::{MayAct, Ownership, Slot};

mod decide;
#[cfg(feature = "defects")]
mod defects;
mod facts;
mod fill;
mod growth;
mod position;
mod replies;
mod settle;
mod uses;
mod work;

use fill::QueueState;
use settle::Unsettled;
use uses::{Use, Used};
use work::Work;

/// What the desk is set to.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How long a unit may be overtaken by others before capacity is kept for it.
    pub reserve_after: Duration,
    /// The longest life of a request that was sent.
    pub request_lifetime: Duration,
}

/// What the desk wants done beside requests.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// A Framework may begin, or waits for that.
    Admit {
        /// Its name.
        key: Key,
        /// Its UID.
        uid: Arc<str>,
        /// Which of the two.
        admission: Admission,
    },
    /// So far as a Framework has grown, it may begin that.
    AdmitGrowths {
        /// Its name.
        key: Key,
        /// Its UID.
        uid: Arc<str>,
        /// The generations that asked for what is released, sorted.
        growths: Vec<i64>,
    },
    /// Something was stored of a unit.
    Tell {
        /// Its name.
        unit: Key,
        /// Its UID.
        uid: Arc<str>,
        /// What happened.
        reason: Reason,
        /// What to say in an Event; `None`: it is worth none.
        note: Option<String>,
        /// How it waited, if it was released.
        waited: Option<Wait>,
    },
}

/// How a unit waited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// In which queue.
    pub queue: Key,
    /// With which priority.
    pub priority: i32,
    /// How long, since its job was created.
    pub time: Duration,
}

/// A request on its way.
#[derive(Debug)]
enum Sent {
    Unit(Key, Arc<str>, PendingRequest),
    Create(ConsumerKey),
    Resume(ConsumerKey),
    List(Arc<str>),
    Queue(Key),
}

/// The unit_states of one job.
#[derive(Debug, Default)]
struct JobState {
    /// Its unit is being made, or it is being resumed.
    busy: bool,
    failures: Failures,
    not_before: Duration,
    /// What was last told to the engine: of which Framework, and whether it may begin.
    told: Option<(Arc<str>, Admission)>,
    /// The job that was last sent a request to be resumed, and the resourceVersion that guards it.
    resumed: Option<(Arc<str>, u128)>,
    /// The same of what it has grown by; none is released before it is told.
    told_growths: Option<(Arc<str>, Vec<i64>)>,
}

/// One namespace.
#[derive(Debug)]
struct NamespaceState {
    schedule: Namespace,
    /// Names of its units, by UID.
    names: BTreeMap<Arc<str>, Arc<str>>,
    /// What the Pods of its released units use.
    own: ResourceRequests,
    others: Others,
}

/// Stepped by news; see the module.
#[derive(Debug)]
pub struct QueueController {
    settings: Settings,
    ownership: Ownership,
    units: Store<UnitObject>,
    queues: Store<QueueObject>,
    quotas: Store<QuotaObject>,
    classes: Store<ClassObject>,
    pods: Store<PodUse>,
    jobs: Store<JobObject>,
    /// Not all clusters have them.
    job_sets: Store<JobSetObject>,
    consumers: BTreeMap<ConsumerKey, Consumer>,
    unit_states: BTreeMap<Key, UnitState>,
    job_states: BTreeMap<ConsumerKey, JobState>,
    queue_states: BTreeMap<Key, QueueState>,
    /// Queues whose status may not say what is counted.
    unfilled: BTreeSet<Key>,
    /// Units by the job that they name.
    units_of: BTreeMap<ConsumerKey, BTreeSet<Key>>,
    used: BTreeMap<ConsumerKey, Used>,
    /// How many released units each job has that hold something.
    released_of: BTreeMap<ConsumerKey, usize>,
    counts: Counts,
    /// What each Pod was counted as.
    counted: BTreeMap<Key, Use>,
    /// Pods that are being deleted, by when quotas cease to count them.
    lapsing: BTreeSet<(Timestamp, Key)>,
    /// The wall clock's time of the last turn.
    time: Timestamp,
    namespaces: BTreeMap<Arc<str>, NamespaceState>,
    stale_units: BTreeSet<Key>,
    stale_jobs: BTreeSet<ConsumerKey>,
    stale_namespaces: BTreeSet<Arc<str>>,
    /// Releases, and everything else, in the order in which they came up.
    urgent: VecDeque<Work>,
    others: VecDeque<Work>,
    /// Which of the two each is in; whether in the first.
    queued: BTreeMap<Work, bool>,
    later: BTreeSet<(Duration, Work)>,
    in_flight: BTreeMap<Ticket, Sent>,
    /// Those of them that let nobody begin.
    telling: BTreeSet<Ticket>,
    tickets: u64,
    outcomes: Vec<Outcome>,
    /// Namespaces where nothing is released before: what a predecessor sent may still land.
    unsettled: BTreeMap<Arc<str>, Unsettled>,
    /// It is known which these are.
    began: bool,
    /// When a round is due though nothing happens.
    round_at: Option<Timestamp>,
    /// When less use of a quota by others may count.
    others_at: Option<Duration>,
    seed: u64,
    draining: bool,
    #[cfg(feature = "defects")]
    defects: framework_core::Defects,
}

impl QueueController {
    /// A desk that knows nothing yet.
    pub fn new(settings: Settings, seed: u64) -> Self {
        QueueController {
            settings,
            ownership: Ownership::default(),
            units: Store::default(),
            queues: Store::default(),
            quotas: Store::default(),
            classes: Store::default(),
            pods: Store::default(),
            jobs: Store::default(),
            job_sets: Store::default(),
            consumers: BTreeMap::new(),
            unit_states: BTreeMap::new(),
            job_states: BTreeMap::new(),
            queue_states: BTreeMap::new(),
            unfilled: BTreeSet::new(),
            units_of: BTreeMap::new(),
            used: BTreeMap::new(),
            released_of: BTreeMap::new(),
            counts: Counts::default(),
            counted: BTreeMap::new(),
            lapsing: BTreeSet::new(),
            time: Timestamp::UNIX_EPOCH,
            namespaces: BTreeMap::new(),
            stale_units: BTreeSet::new(),
            stale_jobs: BTreeSet::new(),
            stale_namespaces: BTreeSet::new(),
            urgent: VecDeque::new(),
            others: VecDeque::new(),
            queued: BTreeMap::new(),
            later: BTreeSet::new(),
            in_flight: BTreeMap::new(),
            telling: BTreeSet::new(),
            // Apart from the engine's.
            tickets: 1 << 63,
            outcomes: Vec::new(),
            unsettled: BTreeMap::new(),
            began: false,
            round_at: None,
            others_at: None,
            seed,
            draining: false,
            #[cfg(feature = "defects")]
            defects: framework_core::Defects::NONE,
        }
    }

    /// Takes in what a watch shows.
    pub fn step(&mut self, news: QueueEvent) {
        match news {
            QueueEvent::Unit(change) => {
                let before = self.jobs_of(&change);
                // Of one that a LIST of the watch does not show it is not known until when it was there.
                let version = match &change {
                    Change::Deleted(unit) => unit.resource_version,
                    _ => u128::MAX,
                };
                let keys = self.units.apply(change);
                self.stale_jobs.extend(before);
                for key in keys {
                    if self.units.get(&key).is_none() {
                        self.vanished(&key, version);
                    }
                    self.unit_changed(key);
                }
            }
            QueueEvent::Queue(change) => {
                let keys = self.queues.apply(change);
                for key in keys {
                    self.queue_changed(&key);
                    self.queue_shown(&key);
                }
            }
            QueueEvent::Quota(change) => {
                let keys = self.quotas.apply(change);
                keys.into_iter().for_each(|key| self.quota_changed(&key));
            }
            QueueEvent::Class(change) => {
                let keys = self.classes.apply(change);
                keys.into_iter().for_each(|key| self.class_changed(&key.name));
            }
            QueueEvent::Pod(change) => {
                let keys = self.pods.apply(change);
                keys.into_iter().for_each(|key| self.pod_changed(&key));
            }
            QueueEvent::Job(change) => {
                let keys = self.jobs.apply(change);
                keys.into_iter().for_each(|key| self.job_changed(&key));
            }
            QueueEvent::JobSet(change) => {
                let seen = self.job_sets.is_synced();
                let keys = self.job_sets.apply(change);
                keys.into_iter().for_each(|key| self.job_set_changed(&key));
                if seen != self.job_sets.is_synced() {
                    self.job_sets_are_seen();
                }
            }
        }
    }

    /// A Framework that waits in a queue, or came through one, has changed, or is none of these any more.
    pub fn framework(&mut self, key: Key, consumer: Option<Consumer>) {
        let key = ConsumerKey::new(ConsumerKind::Framework, key);
        self.consumer_changed(key, consumer);
    }

    /// Decides what can be decided.
    pub fn turn(&mut self, now: Now, time: Timestamp) -> Vec<Outcome> {
        if !self.is_synced() {
            return Vec::new();
        }
        if !std::mem::replace(&mut self.began, true) {
            self.begin(now);
        }
        self.let_lapse(time);
        self.look_after_jobs();
        self.settle(now);
        if self.others_at.take_if(|at| *at <= now.steady).is_some() {
            self.stale_namespaces.extend(self.namespaces.keys().cloned());
        }
        self.refresh(now);
        self.decide(now, time);
        self.fill_queues();
        let due: Vec<_> = self.later.range(..=(now.steady, Work::last())).cloned().collect();
        for entry in due {
            self.later.remove(&entry);
            self.offer(entry.1);
        }
        std::mem::take(&mut self.outcomes)
    }

    /// When, on the steady clock, [`QueueController::turn`] must be called again though nothing happens.
    pub fn next_wake(&self, now: Now, time: Timestamp) -> Option<Duration> {
        let on_the_wall = |at: Timestamp| {
            let wait = Duration::try_from(at.duration_since(time)).unwrap_or(Duration::ZERO);
            // Not a moment too early: whole instants are compared.
            now.steady + wait + Duration::from_millis(1)
        };
        let round = self.round_at.map(on_the_wall);
        let lapses = self.lapsing.first().map(|(at, _)| on_the_wall(*at));
        let later = self.later.first().map(|(at, _)| *at);
        [self.settles_at(), self.others_at, round, lapses, later].into_iter().flatten().min()
    }

    /// Nothing new is begun.
    pub fn drain(&mut self) {
        self.draining = true;
    }

    /// Whether requests are on their way.
    pub fn is_settled(&self) -> bool {
        self.in_flight.is_empty()
    }

    fn is_synced(&self) -> bool {
        self.units.is_synced()
            && self.queues.is_synced()
            && self.quotas.is_synced()
            && self.classes.is_synced()
            && self.pods.is_synced()
            && self.jobs.is_synced()
    }

    /// Whether this replica schedules the queues of a namespace: it is a slot like any other.
    fn owns(&self, namespace: &str, now: Now) -> bool {
        self.ownership.may_act(Slot::of(namespace), now) == MayAct::Yes
    }

    /// The jobs whose unit a change shows.
    fn jobs_of(&self, change: &Change<UnitObject>) -> Option<ConsumerKey> {
        match change {
            Change::Listed(unit) | Change::Applied(unit) | Change::Deleted(unit) => {
                Some(self.units.get(&unit.key).unwrap_or(unit).consumer.clone())
            }
            Change::Restarted | Change::Synced => None,
        }
    }

    /// Whether jobs of that kind are watched, so that one that is not seen is not there.
    fn sees(&self, kind: &JobKind) -> bool {
        match kind {
            JobKind::Known(ConsumerKind::Framework | ConsumerKind::Job) => true,
            JobKind::Known(ConsumerKind::JobSet) => self.job_sets.is_synced(),
            JobKind::Other(_) | JobKind::Itself => false,
        }
    }

    fn namespace_state(&mut self, namespace: &Arc<str>) -> &mut NamespaceState {
        let reserve_after = self.settings.reserve_after;
        self.namespaces.entry(Arc::clone(namespace)).or_insert_with(|| NamespaceState {
            schedule: Namespace::new(reserve_after),
            names: BTreeMap::new(),
            own: ResourceRequests::default(),
            others: Others::default(),
        })
    }
}

#[cfg(test)]
mod tests;
