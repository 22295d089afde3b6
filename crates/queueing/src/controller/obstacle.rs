//! The obstacles of a unit: the reasons for which it is not even considered for a release.

use framework_api::queue::{Phase, Reason};

use super::QueueController;
use crate::object::UnitObject;
use framework_message::Key;

impl QueueController {
    /// Why a unit that waits is not even looked at.
    pub(super) fn obstacle(&self, unit: &UnitObject) -> Option<(Reason, String)> {
        if unit.status.phase == Some(Phase::Dequeued) || unit.deleting {
            return None;
        }
        let of = |reason, message| Some((reason, message));
        let consumer = &unit.consumer;
        if consumer.key.namespace != unit.key.namespace {
            let other = &consumer.key.namespace;
            return of(Reason::ConsumerNotAllowed, format!("its job is in the namespace {other}"));
        }
        if self.objects.sees(&consumer.kind) && self.objects.job_of_unit(unit).is_none() {
            let uid = unit.consumer_uid.as_ref().map(|uid| format!(" with the UID {uid}"));
            let text = format!("there is no job {}{}", consumer.key.name, uid.unwrap_or_default());
            return of(Reason::ConsumerNotFound, text);
        }
        if let Err(error) = &unit.requests {
            return of(Reason::ExceedsQuota, format!("spec.resource cannot be read: {error}"));
        }
        let Some(queue) = self.objects.queues.get(&Key::new(&unit.key.namespace, &unit.queue)) else {
            let text = format!("there is no Queue {} in the namespace {}", unit.queue, unit.key.namespace);
            return of(Reason::QueueNotFound, text);
        };
        let given = [(unit.priority, &unit.class, ""), (queue.priority, &queue.class, " of its Queue")];
        let missing = given
            .into_iter()
            .find(|(priority, class, _)| self.objects.priority(*priority, class.as_deref()).is_none());
        if let Some((_, class, whose)) = missing {
            let class = class.as_deref().unwrap_or_default();
            return of(Reason::PriorityClassNotFound, format!("there is no PriorityClass {class}{whose}"));
        }
        let refused = self.namespaces.get(&unit.key.namespace)?.refused.note(&unit.key.name)?;
        of(Reason::Waiting, refused.clone())
    }
}
