//! Who may begin: the books of all queues, stepped like the engine.
//!
//! Guarantees: a release is decided from what is stored and guarded by the resourceVersion that it was
//! decided from; one that may have been stored counts until it is known not to be; after a start nothing is
//! released while a predecessor's release may still land (its requests live for a bounded time); the same
//! news at the same times gives the same requests. It does no I/O and reads no clock.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use framework_api::name;
use framework_api::queue::{ConsumerKind, Phase, Reason};
use framework_core::observed::Admission;
use framework_queue::{Ask, Namespace};
use jiff::Timestamp;

use super::consumer::{Consumer, ConsumerKey};
use super::inquiry::Whereabouts;
use super::object::{ClassObject, JobObject, News, PodUse, QueueObject, QuotaObject, UnitObject};
use super::store::Store;
use super::unit::{Book, Errand};
use crate::backoff::Failures;
use crate::event::{Change, Key, Now, Ticket};
use crate::ownership::Ownership;

mod decide;
mod facts;
mod replies;
mod work;

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
    /// A unit is to be spoken of in an Event.
    Tell {
        /// Its name.
        unit: Key,
        /// Its UID.
        uid: Arc<str>,
        /// What happened.
        reason: Reason,
        /// What to say.
        note: String,
        /// How long it waited, if it was released.
        waited: Option<Duration>,
    },
}

/// Figures for metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gauges {
    /// Units that wait, by their reason.
    pub waiting: BTreeMap<&'static str, usize>,
    /// Units that were released and whose jobs have not ended.
    pub released: usize,
}

/// A request on its way.
#[derive(Debug)]
enum Sent {
    Unit(Key, Arc<str>, Errand),
    Create(ConsumerKey),
    Resume(ConsumerKey),
}

/// The books of one job.
#[derive(Debug, Default)]
struct JobBook {
    /// Its unit is being made, or it is being resumed.
    busy: bool,
    failures: Failures,
    not_before: Duration,
    /// What was last told to the engine: of which Framework, and whether it may begin.
    told: Option<(Arc<str>, Admission)>,
}

/// What the Pods of a job use.
#[derive(Debug, Default)]
struct Used {
    pods: usize,
    ask: Ask,
}

/// One namespace.
#[derive(Debug)]
struct Space {
    schedule: Namespace,
    /// Names of its units, by UID.
    names: BTreeMap<Arc<str>, Arc<str>>,
    /// What the Pods of its released units use, as the scheduler was last told.
    own: Ask,
}

/// Stepped by news; see the module.
#[derive(Debug)]
pub struct Desk {
    settings: Settings,
    ownership: Ownership,
    units: Store<UnitObject>,
    queues: Store<QueueObject>,
    quotas: Store<QuotaObject>,
    classes: Store<ClassObject>,
    pods: Store<PodUse>,
    jobs: Store<JobObject>,
    consumers: BTreeMap<ConsumerKey, Consumer>,
    books: BTreeMap<Key, Book>,
    job_books: BTreeMap<ConsumerKey, JobBook>,
    /// Units by the job that they name.
    units_of: BTreeMap<ConsumerKey, BTreeSet<Key>>,
    used: BTreeMap<ConsumerKey, Used>,
    /// What each Pod was counted as.
    counted: BTreeMap<Key, (ConsumerKey, Ask)>,
    spaces: BTreeMap<Arc<str>, Space>,
    stale_units: BTreeSet<Key>,
    stale_jobs: BTreeSet<ConsumerKey>,
    stale_spaces: BTreeSet<Arc<str>>,
    /// Releases, and everything else, in the order in which they came up.
    urgent: VecDeque<Work>,
    others: VecDeque<Work>,
    queued: BTreeSet<Work>,
    later: BTreeSet<(Duration, Work)>,
    in_flight: BTreeMap<Ticket, Sent>,
    tickets: u64,
    outcomes: Vec<Outcome>,
    /// Namespaces where nothing is released before: what a predecessor sent may still land.
    unsettled: BTreeMap<Arc<str>, Duration>,
    /// It is known which these are.
    began: bool,
    /// When a round is due though nothing happens.
    round_at: Option<Timestamp>,
    seed: u64,
    draining: bool,
}

impl Desk {
    /// A desk that knows nothing yet.
    pub fn new(settings: Settings, seed: u64) -> Self {
        Desk {
            settings,
            ownership: Ownership,
            units: Store::default(),
            queues: Store::default(),
            quotas: Store::default(),
            classes: Store::default(),
            pods: Store::default(),
            jobs: Store::default(),
            consumers: BTreeMap::new(),
            books: BTreeMap::new(),
            job_books: BTreeMap::new(),
            units_of: BTreeMap::new(),
            used: BTreeMap::new(),
            counted: BTreeMap::new(),
            spaces: BTreeMap::new(),
            stale_units: BTreeSet::new(),
            stale_jobs: BTreeSet::new(),
            stale_spaces: BTreeSet::new(),
            urgent: VecDeque::new(),
            others: VecDeque::new(),
            queued: BTreeSet::new(),
            later: BTreeSet::new(),
            in_flight: BTreeMap::new(),
            // Apart from the engine's.
            tickets: 1 << 63,
            outcomes: Vec::new(),
            unsettled: BTreeMap::new(),
            began: false,
            round_at: None,
            seed,
            draining: false,
        }
    }

    /// Takes in what a watch shows.
    pub fn step(&mut self, news: News) {
        match news {
            News::Unit(change) => {
                let before = self.jobs_of(&change);
                let keys = self.units.apply(change);
                self.stale_jobs.extend(before);
                keys.into_iter().for_each(|key| self.unit_changed(key));
            }
            News::Queue(change) => {
                let keys = self.queues.apply(change);
                keys.into_iter().for_each(|key| self.queue_changed(&key));
            }
            News::Quota(change) => {
                let keys = self.quotas.apply(change);
                keys.into_iter().for_each(|key| self.quota_changed(&key));
            }
            News::Class(change) => {
                let keys = self.classes.apply(change);
                keys.into_iter().for_each(|key| self.class_changed(&key.name));
            }
            News::Pod(change) => {
                let keys = self.pods.apply(change);
                keys.into_iter().for_each(|key| self.pod_changed(&key));
            }
            News::Job(change) => {
                let keys = self.jobs.apply(change);
                keys.into_iter().for_each(|key| self.job_changed(&key));
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
        self.look_after_jobs();
        self.refresh();
        self.decide(now, time);
        let due: Vec<_> = self.later.range(..=(now.steady, Work::last())).cloned().collect();
        for entry in due {
            self.later.remove(&entry);
            self.offer(entry.1);
        }
        std::mem::take(&mut self.outcomes)
    }

    /// When, on the steady clock, [`Desk::turn`] must be called again though nothing happens.
    pub fn next_wake(&self, now: Now, time: Timestamp) -> Option<Duration> {
        let settled = self.unsettled.values().min().copied();
        let round = self.round_at.map(|at| {
            let wait = Duration::try_from(at.duration_since(time)).unwrap_or(Duration::ZERO);
            // Not a moment too early: the scheduler compares whole instants.
            now.steady + wait + Duration::from_millis(1)
        });
        let later = self.later.first().map(|(at, _)| *at);
        [settled, round, later].into_iter().flatten().min()
    }

    /// Nothing new is begun.
    pub fn drain(&mut self) {
        self.draining = true;
    }

    /// Whether requests are on their way.
    pub fn is_settled(&self) -> bool {
        self.in_flight.is_empty()
    }

    /// Where a unit stands; `None`: there is none of that name.
    pub fn whereabouts(&self, key: &Key) -> Option<Whereabouts> {
        let unit = self.units.get(key)?;
        let space = self.spaces.get(&key.namespace);
        let position = space.and_then(|space| space.schedule.position(&unit.uid));
        let before = position.as_ref().and_then(|position| position.directly_before.as_ref());
        let name = before.and_then(|uid| space?.names.get(uid));
        Some(Whereabouts {
            queue: unit.queue.to_string(),
            phase: unit.standing.phase,
            reason: unit.standing.reason.map(|reason| reason.to_string()),
            message: unit.standing.message.clone(),
            place: position.as_ref().map(|position| position.place),
            before: position.as_ref().map(|position| position.before),
            directly_before: name.map(|name| name.to_string()),
        })
    }

    /// Counts everything: costs O(units).
    pub fn gauges(&self) -> Gauges {
        let mut gauges = Gauges::default();
        for unit in self.units.iter() {
            let counts = |book: &Book| book.facts.as_ref().is_some_and(facts::is_released);
            match unit.standing.phase {
                Some(Phase::Dequeued) => {
                    gauges.released += usize::from(self.books.get(&unit.key).is_some_and(counts));
                }
                _ => {
                    let reason = unit.standing.reason.unwrap_or(Reason::Waiting).as_str();
                    *gauges.waiting.entry(reason).or_default() += 1;
                }
            }
        }
        gauges
    }

    fn is_synced(&self) -> bool {
        self.units.is_synced()
            && self.queues.is_synced()
            && self.quotas.is_synced()
            && self.classes.is_synced()
            && self.pods.is_synced()
            && self.jobs.is_synced()
    }

    /// A predecessor may have been releasing what waits here, and its writes live as long as any: with fewer
    /// known releases than there are, too many would be released.
    fn begin(&mut self, now: Now) {
        let waiting = self.units.iter().filter(|unit| unit.standing.phase == Some(Phase::Enqueued));
        let until = now.steady + self.settings.request_lifetime;
        self.unsettled = waiting.map(|unit| (Arc::clone(&unit.key.namespace), until)).collect();
    }

    /// Whether this replica schedules the queues of a namespace: it is a slot like any other.
    fn owns(&self, namespace: &str, now: Duration) -> bool {
        self.ownership.may_act(name::slot(namespace), now)
    }

    /// The jobs whose unit a change shows.
    fn jobs_of(&self, change: &Change<UnitObject>) -> Option<ConsumerKey> {
        match change {
            Change::Listed(unit) | Change::Applied(unit) | Change::Deleted(unit) => {
                Some(self.units.get(&unit.key).unwrap_or(unit).consumer.clone())
            }
            Change::Restarted | Change::Synced | Change::Released(_) => None,
        }
    }

    fn space(&mut self, namespace: &Arc<str>) -> &mut Space {
        let reserve_after = self.settings.reserve_after;
        self.spaces.entry(Arc::clone(namespace)).or_insert_with(|| Space {
            schedule: Namespace::new(reserve_after),
            names: BTreeMap::new(),
            own: Ask::default(),
        })
    }
}

#[cfg(test)]
mod tests;
