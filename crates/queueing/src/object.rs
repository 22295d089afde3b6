//! Objects as the controller sees them: the few fields that it uses.

use std::sync::Arc;

use framework_api::Time;
use framework_api::job_kind::JobKindRow;
use framework_api::queue::{FINALIZER, Phase, QueuePolicy, Reason};
use framework_queue::ResourceRequests;
use jiff::Timestamp;

use crate::consumer::{ConsumerKey, JobKind};
use crate::counts::QueueCounts;
use crate::job_lifetime::{ChildObject, JobLifetime};
use framework_message::{Change, Key, Slot, SlotSelection};

/// A change that one of the watches of queueing shows.
#[derive(Debug)]
pub enum QueueEvent {
    /// A change of a QueueUnit.
    Unit(Change<Arc<UnitObject>>),
    /// A change of a Queue.
    Queue(Change<QueueObject>),
    /// A change of a ResourceQuota.
    Quota(Change<QuotaObject>),
    /// A change of a PriorityClass.
    Class(Change<ClassObject>),
    /// A LIST of the Pods with the label of a queue begins, which shows this share.
    PodsSelected(SlotSelection),
    /// A change of a Pod with the label of a queue.
    Pod(Change<PodUse>),
    /// Whether the watch of these Pods is open. Until it is, for example during a LIST, a Pod that has gone
    /// seems to be there.
    PodsAreWatched(bool),
    /// Whether the watch of ResourceQuotas is open. Until it is, a quota may count more than it seems to.
    QuotasAreWatched(bool),
    /// A LIST of the ConfigMaps with the label of a queue begins, which shows this share.
    AttemptsSelected(SlotSelection),
    /// A change of the ConfigMap of an attempt with the label of a queue.
    Attempt(Change<OwnerLink>),
    /// A change of a job of a kind that has a row.
    Declared(JobKind, Box<Change<DeclaredObject>>),
    /// A kind that has a row is not served, or the rights for it are missing.
    NotServed(JobKind),
}

/// An object that a response shows.
#[derive(Debug)]
pub enum Object {
    /// The QueueUnit after a POST, a PUT, a PATCH or at a GET.
    Unit(Box<UnitObject>),
    /// The Framework with this UID.
    Framework(Arc<str>),
    /// A page of a LIST of QueueUnits.
    Page(Page),
    /// The JobSet of a TrainJob.
    Child(ChildObject),
}

/// One page of a LIST of QueueUnits.
#[derive(Debug)]
pub struct Page {
    /// The units that can be read.
    pub units: Vec<UnitObject>,
    /// `continue`, if there is more.
    pub after: Option<String>,
}

/// The outcome of a request about QueueUnits, Queues or jobs.
pub type Reply = framework_message::Reply<Object>;

/// A QueueUnit.
#[derive(Clone, Debug)]
pub struct UnitObject {
    /// Its name.
    pub key: Key,
    /// `metadata.uid`.
    pub uid: Arc<str>,
    /// `metadata.resourceVersion`.
    pub resource_version: u128,
    /// `metadata.creationTimestamp`.
    pub created: Timestamp,
    /// Whether it has a deletionTimestamp.
    pub deleting: bool,
    /// `metadata.finalizers`.
    pub finalizers: Finalizers,
    /// UID of the object that controls it, or did before it was orphaned.
    pub owner: Option<Arc<str>>,
    /// The job that it requests resources for.
    pub consumer: ConsumerKey,
    /// The annotations that the Framework's side has written beside the spec.
    pub notes: UnitNotes,
    /// `spec.consumerRef.uid`.
    pub consumer_uid: Option<Arc<str>>,
    /// `spec.queue`.
    pub queue: Arc<str>,
    /// `spec.priority`.
    pub priority: Option<i32>,
    /// `spec.priorityClassName`, if it is not empty.
    pub class: Option<Arc<str>>,
    /// `spec.resource`, or the error of reading it.
    pub requests: Result<ResourceRequests, Arc<str>>,
    /// `status`.
    pub status: UnitStatus,
}

impl UnitObject {
    /// Its name in a schedule. The order of these names breaks ties, so the UID of its job comes first: like
    /// the time since when it waits, it stays if the unit is made again.
    pub fn name_in_schedule(&self) -> Arc<str> {
        let job = self.owner.as_ref().or(self.consumer_uid.as_ref()).unwrap_or(&self.uid);
        format!("{job}/{}", self.uid).into()
    }
}

/// The finalizers of a QueueUnit. The API server stores 200,000 of them in one object, so the names are kept
/// as one text.
#[derive(Clone, Debug, Default)]
pub struct Finalizers {
    ours: bool,
    /// The other names, each followed by a comma, which no name contains.
    others: Arc<str>,
}

/// Of the metadata of a QueueUnit: the fields that the side of the Frameworks writes, and a missing owner.
#[derive(Clone, Debug, Default)]
pub struct UnitNotes {
    /// Since when the Framework, or the growth of it, waits.
    pub enqueued: Option<Timestamp>,
    /// The part of the unit that the Framework still needs; `None`: all of it.
    pub held: Option<ResourceRequests>,
    /// UID of the Framework for which it stands, if a user made it and named none.
    pub bound_to: Option<Arc<str>>,
    /// We made it, and it has no owner reference any more: its job was deleted with `--cascade=orphan`. The
    /// garbage collector will not delete it.
    pub orphaned: bool,
}

impl Finalizers {
    /// Whether ours is among them.
    pub fn has_ours(&self) -> bool {
        self.ours
    }

    /// The names of the others.
    pub fn others(&self) -> impl Iterator<Item = &str> {
        self.others.split_terminator(',')
    }
}

impl<Name: AsRef<str>> FromIterator<Name> for Finalizers {
    fn from_iter<Names: IntoIterator<Item = Name>>(names: Names) -> Self {
        let (mut ours, mut others) = (false, String::new());
        for name in names {
            if name.as_ref() == FINALIZER {
                ours = true;
            } else {
                others.push_str(name.as_ref());
                others.push(',');
            }
        }
        Finalizers { ours, others: others.into() }
    }
}

/// The status of a QueueUnit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnitStatus {
    /// `status.phase`.
    pub phase: Option<Phase>,
    /// Reason of the condition `Dequeued`.
    pub reason: Option<Reason>,
    /// `status.message`.
    pub message: String,
    /// `lastTransitionTime` of the condition `Dequeued`.
    pub since: Option<Time>,
    /// The condition `Overtaken`, if it is true: since when, and whether capacity is kept for the unit.
    pub overtaken: Option<Overtaken>,
}

/// The condition that later units were released before a unit that could have been.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overtaken {
    /// Since when.
    pub since: Time,
    /// Whether capacity is kept for it.
    pub reserved: bool,
}

/// A Queue.
#[derive(Clone, Debug)]
pub struct QueueObject {
    /// Its name.
    pub key: Key,
    /// `metadata.uid`.
    pub uid: Arc<str>,
    /// `metadata.resourceVersion`.
    pub resource_version: u128,
    /// `status`, if all of it is set.
    pub counts: Option<QueueCounts>,
    /// `spec.queuePolicy`.
    pub policy: QueuePolicy,
    /// `spec.priority`.
    pub priority: Option<i32>,
    /// `spec.priorityClassName`, if it is not empty.
    pub class: Option<Arc<str>>,
}

/// A ResourceQuota.
#[derive(Clone, Debug)]
pub struct QuotaObject {
    /// Its name.
    pub key: Key,
    /// `metadata.resourceVersion`.
    pub resource_version: u128,
    /// `status.hard` and `status.used`; `None` if it has scopes, because it does not count all Pods then.
    pub limits: Option<framework_queue::QuotaFacts>,
    /// Whether the quota controller has counted the usage. Until then `limits` shows all of it as used.
    pub counted: bool,
}

/// A PriorityClass.
#[derive(Clone, Debug)]
pub struct ClassObject {
    /// Its name; it has no namespace.
    pub key: Key,
    /// `metadata.resourceVersion`.
    pub resource_version: u128,
    /// `value`.
    pub value: i32,
}

/// A Pod with the label of a queue, and its usage of quotas.
#[derive(Clone, Debug)]
pub struct PodUse {
    /// Its name.
    pub key: Key,
    /// `metadata.resourceVersion`.
    pub resource_version: u128,
    /// UID of the object that controls it.
    pub controller: Option<Arc<str>>,
    /// UID of the job that its label names.
    pub consumer: Option<Arc<str>>,
    /// The requests that count against quotas: none once it has ended.
    pub requests: ResourceRequests,
    /// Whether it has ended.
    pub ended: bool,
    /// For a Pod that is being deleted, the time when quotas stop counting it although it may still exist.
    pub lapses: Option<Timestamp>,
    /// The slot that its label names. It selects the Pod, and decides nothing.
    pub slot: Option<Slot>,
}

/// The UID of an object, and that of the object that controls it.
#[derive(Clone, Debug)]
pub struct OwnerLink {
    /// The name of the first.
    pub key: Key,
    /// Its `metadata.resourceVersion`.
    pub resource_version: u128,
    /// Its `metadata.uid`.
    pub uid: Arc<str>,
    /// UID of the other.
    pub controller: Option<Arc<str>>,
    /// The slot that the label of the first names. It selects the object, and decides nothing.
    pub slot: Option<Slot>,
}

/// The annotations of a job that queueing writes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobNotes {
    /// Whether it has any annotations. A JSON patch has to add the object otherwise.
    pub has_annotations: bool,
    /// UID of the unit that let it begin.
    pub resumed_by: Option<Arc<str>>,
}

/// The fields that every job has.
#[derive(Clone, Debug)]
pub struct JobObject {
    /// Its name.
    pub key: Key,
    /// `metadata.uid`.
    pub uid: Arc<str>,
    /// `metadata.resourceVersion`.
    pub resource_version: u128,
    /// `metadata.creationTimestamp`.
    pub created: Timestamp,
    /// Its annotations.
    pub notes: JobNotes,
    /// UID of the object that controls it, other than a CronJob.
    pub controller: Option<Arc<str>>,
    /// The label that names its queue.
    pub queue: Option<Arc<str>>,
    /// Whether it waits.
    pub suspended: bool,
    /// Whether it has ended.
    pub finished: bool,
    /// Whether it has a deletionTimestamp.
    pub deleting: bool,
    /// `priorityClassName` of its Pods.
    pub class: Option<Arc<str>>,
    /// The requests of all its Pods that run at a time, or the error of reading them.
    pub requests: Result<ResourceRequests, Arc<str>>,
}

/// A job of a kind that has a row, with or without the label of a queue. A unit that a user makes may name
/// it, and it may be part of another job.
#[derive(Clone, Debug)]
pub struct DeclaredObject {
    /// The fields that every job has.
    pub job: JobObject,
    /// The row by which it was read.
    pub row: Arc<JobKindRow>,
    /// The JSON pointer of each Pod template, and the place in it for the label.
    pub templates: Vec<(String, TemplateMetadata)>,
    /// When it is ended and deleted; `None`: jobs of its kind have no lifetimes.
    pub lifetime: Option<JobLifetime>,
}

/// The part of a template's metadata that exists. A JSON patch has to add the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TemplateMetadata {
    /// None.
    Missing,
    /// No labels.
    WithoutLabels,
    /// There are labels.
    WithLabels,
}
