//! Queues.

use serde::Deserialize;
use serde_json::value::RawValue;

use framework_api::queue::{GROUP, QueueSpec, QueueStatus};
use framework_queueing::{QueueCounts, QueueObject};

use super::resource::{Read, Resource, Wire};
use super::typed::{Metadata, given};

#[derive(Deserialize)]
struct QueueWire {
    metadata: Metadata,
    spec: QueueSpec,
    #[serde(default)]
    status: Option<QueueStatus>,
}

impl Wire for QueueObject {
    const RESOURCE: Resource = Resource::new(GROUP, "v1alpha1", "Queue", "queues");

    fn read(json: &RawValue) -> Result<Read<Self>, serde_json::Error> {
        let queue: QueueWire = serde_json::from_str(json.get())?;
        Ok(Read::of(queue.metadata.resource_version.clone(), queue_of(queue)))
    }
}

fn queue_of(queue: QueueWire) -> QueueObject {
    let (key, resource_version) = queue.metadata.identity();
    let count = |count: Option<i32>| count.and_then(|count| usize::try_from(count).ok());
    let counts = queue.status.and_then(|status| {
        Some(QueueCounts { waiting: count(status.waiting)?, released: count(status.released)? })
    });
    QueueObject {
        uid: queue.metadata.uid(),
        counts,
        key,
        resource_version,
        policy: queue.spec.queue_policy,
        priority: queue.spec.priority,
        class: given(queue.spec.priority_class_name.as_ref()),
    }
}
