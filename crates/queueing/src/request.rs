//! The requests of the queue controller and of `FrameworkUnits`. Each write of an existing object carries
//! preconditions, the guards, so that it changes only the intended object.

use std::sync::Arc;

use framework_api::job_kind::JobKindRow;
use framework_core::SWITCHABLE;
use framework_message::Key;
use framework_queue::ResourceRequests;
use jiff::Timestamp;

use crate::consumer::NamedKind;
use crate::counts::QueueCounts;
use crate::job_lifetime::{ConditionPlace, DeadlineCondition};
use crate::object::{Finalizers, TemplateMetadata, UnitObject, UnitStatus};

/// The unit of a job, owned by it, that is to be created.
#[derive(Clone, Debug)]
pub struct UnitCreation {
    /// The unit's name.
    pub unit: Key,
    /// The kind of the job.
    pub kind: NamedKind,
    /// Its name.
    pub job: Key,
    /// Its UID.
    pub uid: Arc<str>,
    /// In which queue.
    pub queue: Arc<str>,
    /// Names its priority.
    pub class: Option<Arc<str>>,
    /// Its priority, which overrides that of the class.
    pub priority: Option<i32>,
    /// The resources that it requests.
    pub requests: ResourceRequests,
    /// Since when the job waits.
    pub enqueued: Timestamp,
}

/// A request of the controller.
#[derive(Clone, Debug)]
pub enum QueueRequest {
    /// POST of a unit.
    CreateUnit(UnitCreation),
    /// DELETE of a unit, guarded by its UID.
    DeleteUnit {
        /// Its name.
        unit: Key,
        /// Guard.
        uid: Arc<str>,
    },
    /// GET of a unit, after a conflict or a lost reply.
    GetUnit {
        /// Its name.
        unit: Key,
    },
    /// GET of the Framework of a released unit that no watch shows.
    GetFramework {
        /// Its name.
        framework: Key,
    },
    /// GET of the units of a namespace, consistent, one page after the other.
    ListUnits {
        /// Which namespace.
        namespace: Arc<str>,
        /// `continue` of the page before; `None`: the first page.
        after: Option<Arc<str>>,
        /// The most units of the page.
        limit: u32,
    },
    /// PUT of a unit's status, guarded by UID and resourceVersion. A merge patch would cost the API server
    /// one more encoding and decoding of the unit.
    PutStatus {
        /// Its name.
        unit: Key,
        /// Guard.
        uid: Arc<str>,
        /// Guard: the version that the decision was made from.
        resource_version: u128,
        /// The whole status.
        status: UnitStatus,
    },
    /// Merge patch of a Queue's status, guarded by UID. There is no other writer, and each patch has the
    /// whole status. A guard by version would only conflict with changes of the spec.
    PatchQueue {
        /// Its name.
        queue: Key,
        /// Guard.
        uid: Arc<str>,
        /// The whole status.
        counts: QueueCounts,
    },
    /// Merge patch that takes our finalizer from a unit, guarded by UID and resourceVersion.
    RemoveFinalizer {
        /// Its name.
        unit: Key,
        /// Guard.
        uid: Arc<str>,
        /// Guard.
        resource_version: u128,
        /// The finalizers of the unit; all but ours stay.
        finalizers: Finalizers,
    },
    /// Merge patch that says how much of a released unit its Framework still needs, guarded by UID and
    /// resourceVersion.
    ReturnCapacity {
        /// Its name.
        unit: Key,
        /// Guard.
        uid: Arc<str>,
        /// Guard.
        resource_version: u128,
        /// The part that is still needed.
        held: ResourceRequests,
    },
    /// Merge patch that says for which Framework a released unit stands that names none by UID. It is guarded
    /// by UID and resourceVersion.
    BindUnit {
        /// Its name.
        unit: Key,
        /// Guard.
        uid: Arc<str>,
        /// Guard.
        resource_version: u128,
        /// The UID of the Framework.
        framework: Arc<str>,
    },
    /// JSON patch that lets a suspended job begin.
    ResumeJob {
        /// Its kind.
        row: Arc<JobKindRow>,
        /// Its name.
        job: Key,
        /// Its guards, and the values it writes.
        with: Resumption,
        /// The place of each template, and the metadata that it has already.
        templates: Vec<(String, TemplateMetadata)>,
    },
    /// JSON patch that labels the Pod templates of the JobSet of a job, before the job is resumed.
    LabelTemplates {
        /// The kind of the JobSet.
        row: Arc<JobKindRow>,
        /// The name of both.
        job: Key,
        /// Guard: the UID of the JobSet.
        uid: Arc<str>,
        /// Guard.
        resource_version: u128,
        /// The labels that its Pods get.
        labels: PodLabels,
        /// The place of each template, and the metadata that it has already.
        templates: Vec<(String, TemplateMetadata)>,
    },
    /// DELETE of a job in the foreground, guarded by UID and resourceVersion: in another version it may not
    /// have finished.
    DeleteJob {
        /// Its kind.
        row: Arc<JobKindRow>,
        /// Its name.
        job: Key,
        /// Guard.
        uid: Arc<str>,
        /// Guard.
        resource_version: u128,
    },
    /// GET of the JobSet of a TrainJob, which has its name.
    GetChild {
        /// The name of both.
        job: Key,
    },
    /// JSON patch that gives a TrainJob or its JobSet the condition that it failed, guarded by UID and
    /// resourceVersion.
    Fail {
        /// The kind of the job; `None`: its JobSet is meant.
        row: Option<Arc<JobKindRow>>,
        /// The name of both.
        job: Key,
        /// Guard.
        uid: Arc<str>,
        /// Guard.
        resource_version: u128,
        /// The place of the condition in that version.
        place: ConditionPlace,
        /// The condition.
        condition: DeadlineCondition,
    },
}

/// The labels by which the usage of Pods is counted.
#[derive(Clone, Debug)]
pub struct PodLabels {
    /// The queue.
    pub queue: Arc<str>,
    /// UID of the job.
    pub job: Arc<str>,
}

/// The content of each patch that lets a job begin.
#[derive(Clone, Debug)]
pub struct Resumption {
    /// Guard.
    pub uid: Arc<str>,
    /// Guard.
    pub resource_version: u128,
    /// The queue, for a label that its Pods get beside that with its UID.
    pub queue: Arc<str>,
    /// UID of the released unit, for an annotation: a user may suspend the job again.
    pub unit: Arc<str>,
    /// Whether the job has annotations in that version.
    pub has_annotations: bool,
}

/// The number that stands for no resourceVersion in a build that can switch rules off. The shipped program
/// has no such number: each of its writes of a unit is guarded, also where a version could not be read.
pub const UNGUARDED: Option<u128> = if SWITCHABLE { Some(0) } else { None };

impl QueueRequest {
    /// Takes our finalizer from a unit, unless it has changed meanwhile.
    pub(crate) fn remove_finalizer(unit: &UnitObject) -> Self {
        QueueRequest::RemoveFinalizer {
            unit: unit.key.clone(),
            uid: Arc::clone(&unit.uid),
            resource_version: unit.resource_version,
            finalizers: unit.finalizers.clone(),
        }
    }

    /// The same request without its guard by version.
    pub fn unguarded(mut self) -> Self {
        if let (QueueRequest::PutStatus { resource_version, .. }, Some(unguarded)) = (&mut self, UNGUARDED) {
            *resource_version = unguarded;
        }
        self
    }

    /// Whether it changes anything.
    pub fn is_write(&self) -> bool {
        !matches!(
            self,
            QueueRequest::GetUnit { .. }
                | QueueRequest::GetFramework { .. }
                | QueueRequest::ListUnits { .. }
                | QueueRequest::GetChild { .. }
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_write_loses_its_guard_in_a_build_that_can_switch_rules() {
        let (unit, uid) = (Key::new("ns", "unit"), "uid".into());
        let write = QueueRequest::PutStatus { unit, uid, resource_version: 7, status: UnitStatus::default() };
        let QueueRequest::PutStatus { resource_version, .. } = write.unguarded() else { panic!() };
        assert_eq!(resource_version, 0);
    }
}
