//! Jobs of any kind that wait in a queue, or came through one.

use std::sync::Arc;

use framework_api::Framework;
use framework_api::queue::{ConsumerKind, ConsumerRef};
use framework_core::queue::Stage;
use framework_queue::Ask;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::PodTemplateSpec;

use crate::event::Key;

/// The kind of a job.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum JobKind {
    /// One for whose jobs the desk makes units.
    Known(ConsumerKind),
    /// Any other: whoever makes its units watches them, and takes them away.
    Other(Arc<str>),
}

impl JobKind {
    /// The kind that an object reference names.
    pub fn of(reference: &ConsumerRef) -> Self {
        let other = || JobKind::Other(format!("{} {}", reference.api_version, reference.kind).into());
        ConsumerKind::of(reference).filter(|kind| SEEN.contains(kind)).map_or_else(other, JobKind::Known)
    }

    /// Whether the desk sees jobs of that kind, so that one it does not see is not there.
    pub fn is_seen(&self) -> bool {
        matches!(self, JobKind::Known(_))
    }
}

/// The kinds that are watched.
const SEEN: [ConsumerKind; 2] = [ConsumerKind::Framework, ConsumerKind::Job];

/// Names a job.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConsumerKey {
    /// Its kind.
    pub kind: JobKind,
    /// Its name.
    pub key: Key,
}

impl ConsumerKey {
    /// The job of a known kind.
    pub fn new(kind: ConsumerKind, key: Key) -> Self {
        ConsumerKey { kind: JobKind::Known(kind), key }
    }

    /// The unit that the desk makes for it.
    pub fn unit(&self) -> Option<Key> {
        let JobKind::Known(kind) = self.kind else { return None };
        Some(Key::new(&self.key.namespace, &kind.unit_name(&self.key.name)))
    }
}

/// A job that waits in a queue, or came through one.
#[derive(Clone, Debug, PartialEq)]
pub struct Consumer {
    /// `metadata.uid`.
    pub uid: Arc<str>,
    /// `metadata.resourceVersion`, for kinds that the desk itself patches.
    pub resource_version: u128,
    /// `metadata.creationTimestamp`: since when it waits.
    pub created: Timestamp,
    /// In which queue, by its label.
    pub queue: Option<Arc<str>>,
    /// `priorityClassName` of its Pods.
    pub class: Option<Arc<str>>,
    /// What all its Pods ask for; or why that is not known.
    pub ask: Result<Ask, Arc<str>>,
    /// How far it is.
    pub stage: Stage,
    /// Whether it is being deleted: no unit is made for it any more.
    pub deleting: bool,
}

impl Consumer {
    /// A Framework that waits in a queue, or came through one.
    pub fn framework(framework: &Framework, queue: Option<&str>, stage: Stage) -> Self {
        let metadata = &framework.metadata;
        let created = metadata.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0);
        let (mut ask, mut class) = (Ok(Ask::default()), None);
        for (position, role) in framework.spec.task_roles.iter().enumerate() {
            match asked(&role.task.pod) {
                Ok((one, named)) => {
                    let tasks = u64::try_from(role.task_number).unwrap_or(0);
                    ask = ask.map(|ask: Ask| ask.plus(&one.times(tasks)));
                    class = class.or(named);
                }
                Err(error) => {
                    ask = ask.and(Err(format!("spec.taskRoles[{position}].task.pod: {error}").into()));
                }
            }
        }
        Consumer {
            uid: metadata.uid.as_deref().unwrap_or_default().into(),
            resource_version: 0,
            created,
            queue: queue.map(Arc::from),
            class,
            ask,
            stage,
            deleting: metadata.deletion_timestamp.is_some(),
        }
    }
}

/// What a Pod of this template asks for, and the PriorityClass that it names.
fn asked(template: &serde_json::Value) -> Result<(Ask, Option<Arc<str>>), String> {
    let template: PodTemplateSpec =
        serde_path_to_error::deserialize(template).map_err(|error| error.to_string())?;
    let pod = template.spec.unwrap_or_default();
    let ask = Ask::pod(&pod).map_err(|error| error.to_string())?;
    Ok((ask, pod.priority_class_name.filter(|name| !name.is_empty()).map(Arc::from)))
}
