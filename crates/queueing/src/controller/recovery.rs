//! Recovery after a start: the namespaces that wait, and the LISTs of their units.

use std::sync::Arc;

use framework_api::queue::Phase;
use framework_core::Defect;
use framework_message::Now;
use tracing::warn;

use super::QueueController;
use crate::object::{Object, Reply, UnitObject};
use crate::outgoing::{Sent, Work};
use crate::recovery::NextPage;
use crate::request::QueueRequest;

impl QueueController {
    /// Requests of a predecessor may release units that wait, and its admissions may have begun jobs.
    pub(super) fn start_recovery(&mut self, now: Now) {
        // With other replicas, each grant says whether requests may land.
        if self.settings.defects.has(Defect::ReleaseAtOnce) || !self.active_slots.is_alone() {
            return;
        }
        let is_open = |unit: &&Arc<UnitObject>| unit.status.phase == Some(Phase::Enqueued) || unit.deleting;
        let open = self.objects.units.iter().filter(is_open);
        let until = now.steady + self.settings.request_lifetime;
        self.recovery.wait(open.map(|unit| Arc::clone(&unit.key.namespace)), until);
    }

    /// Lists the units of namespaces where nothing of a predecessor can land any more.
    pub(super) fn list_recovered(&mut self, now: Now) {
        let due = self.recovery.take_due(now.steady);
        due.into_iter().for_each(|namespace| self.offer(Work::List(namespace)));
        for namespace in self.recovery.take_caught_up(now.steady) {
            self.refresh_deleted(&namespace);
        }
    }

    /// The units of a namespace that are being deleted may be void: their jobs never began.
    fn refresh_deleted(&mut self, namespace: &Arc<str>) {
        let deleting = self.objects.units.within(namespace).filter(|unit| unit.deleting);
        self.stale.units.extend(deleting.map(|unit| unit.key.clone()));
    }

    pub(super) fn list_request(&mut self, now: Now, namespace: &Arc<str>) -> Option<(Sent, QueueRequest)> {
        if !self.owns(namespace, now) {
            return None;
        }
        match self.recovery.listing(namespace)?.next(now.steady)? {
            NextPage::Wait(until) => {
                self.outgoing.offer_at(until, Work::List(Arc::clone(namespace)));
                None
            }
            NextPage::Send(after, limit) => {
                let request = QueueRequest::ListUnits { namespace: Arc::clone(namespace), after, limit };
                Some((Sent::List(Arc::clone(namespace)), request))
            }
        }
    }

    /// Takes in a page, or asks for it again.
    pub(super) fn list_replied(&mut self, now: Now, namespace: Arc<str>, reply: Reply, jitter: u64) {
        let Some(listing) = self.recovery.listing(&namespace) else { return };
        let page = match reply {
            Reply::Object(Object::Page(page)) => page,
            reply => {
                if reply.was_sent() {
                    warn!(%namespace, ?reply, "the QueueUnits of a namespace cannot be listed");
                }
                listing.failed(now.steady, &reply, jitter);
                self.offer(Work::List(namespace));
                return;
            }
        };
        let (alive, is_last) = listing.received(page);
        for unit in alive {
            let known = self.objects.units.get(&unit.key);
            self.stale.jobs.insert(known.map_or(&unit.consumer, |known| &known.consumer).clone());
            let changed = self.objects.units.read(Arc::new(unit));
            changed.into_iter().for_each(|key| self.unit_changed(key));
        }
        if is_last {
            self.recovery.settled(&namespace);
            self.refresh_deleted(&namespace);
            self.stale.namespaces.insert(namespace);
        } else {
            self.offer(Work::List(namespace));
        }
    }
}
