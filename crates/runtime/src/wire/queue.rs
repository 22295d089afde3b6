//! Queues.

use serde::Deserializer;

use framework_api::queue::{GROUP, Queue};
use framework_queueing::{QueueCounts, QueueObject};

use super::resource::{Read, Resource, Wire};
use super::typed::{self, given, identity, uid};

impl Wire for QueueObject {
    const RESOURCE: Resource = Resource::new(GROUP, "v1alpha1", "Queue", "queues");

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Read<Self>, D::Error> {
        typed::read(deserializer, queue_of)
    }
}

fn queue_of(queue: Queue) -> QueueObject {
    let (key, resource_version) = identity(&queue.metadata);
    let count = |count: Option<i32>| count.and_then(|count| usize::try_from(count).ok());
    let counts = queue.status.and_then(|status| {
        Some(QueueCounts { waiting: count(status.waiting)?, released: count(status.released)? })
    });
    QueueObject {
        uid: uid(&queue.metadata),
        counts,
        key,
        resource_version,
        policy: queue.spec.queue_policy,
        priority: queue.spec.priority,
        class: given(queue.spec.priority_class_name.as_ref()),
    }
}
