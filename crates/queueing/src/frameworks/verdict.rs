//! The request that a unit of a Framework needs, by the unit and its Framework alone.

use std::sync::Arc;
use std::time::Duration;

use framework_api::name::{is_dns_word, is_namespace};
use framework_api::queue::Phase;
use framework_core::Defect;
use framework_core::queue::Stage;
use framework_message::{Now, Slot};
use framework_queue::{Amount, ResourceRequests};

use super::FrameworkUnits;
use super::state::Writes;
use crate::consumer::{Consumer, Growth};
use crate::object::UnitObject;

/// The resource of which each Pod requests one.
const PODS: &str = "pods";

/// The next step for a unit.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// Nothing.
    Keep,
    /// Nothing before that moment of the monotonic clock.
    KeepUntil(Duration),
    /// Its Framework is read, which is not seen: nothing has shown that it is gone.
    Read,
    /// It is deleted: its Framework asks for something else by now.
    Delete,
    /// Nothing runs by it any more, or ever will: its finalizer is removed, which returns its capacity.
    Finalise,
    /// Its Framework keeps only this much of it.
    Return(ResourceRequests),
    /// A user made it for a Framework by name. From now on it is for the one with this UID.
    Bind(Arc<str>),
}

impl FrameworkUnits {
    pub(super) fn verdict(&self, now: Now, unit: &UnitObject) -> Verdict {
        if unit.is_by_hand() {
            return self.by_hand(now, unit);
        }
        let reported = self.frameworks.get(&unit.consumer.key);
        let framework = reported.and_then(|reported| reported.framework.as_ref());
        let is_released = unit.status.phase == Some(Phase::Dequeued);
        let has_strays = self.has_strays(unit);
        let Some(framework) = framework.filter(|framework| unit.owner.as_ref() == Some(&framework.uid))
        else {
            return match is_released {
                true if let Some(wait) = self.before_return(now, unit) => wait,
                true | false if unit.notes.orphaned => leave(unit),
                // The garbage collector deletes it.
                false if !unit.deleting => Verdict::Keep,
                true | false => Verdict::Finalise,
            };
        };
        let generation = unit.consumer.generation_of(&unit.key);
        let growth = generation.map(|generation| framework.growths.get(&generation));
        if !is_released {
            let stays = match growth {
                None => framework.stage == Stage::Waiting && unit.asks_as(framework),
                Some(growth) => growth.is_some_and(|growth| fits_growth(unit, framework, growth)),
            };
            return match (stays, unit.deleting) {
                (_, true) => Verdict::Finalise,
                (true, false) => Verdict::Keep,
                (false, false) => Verdict::Delete,
            };
        }
        match growth {
            _ if framework.stage == Stage::Finished && has_strays => Verdict::Keep,
            _ if framework.stage == Stage::Finished => Verdict::Finalise,
            None if framework.stage == Stage::Waiting => self.waiting(now, unit, framework),
            None | Some(Some(_)) => returned(unit, framework, generation),
            Some(None) if framework.held.contains_key(&generation) && unit.deleting => Verdict::Keep,
            Some(None) if framework.held.contains_key(&generation) => Verdict::Delete,
            Some(None) => leave(unit),
        }
    }

    /// Whether Pods of the name of its Framework run that no Framework records.
    pub(super) fn has_strays(&self, unit: &UnitObject) -> bool {
        let reported = self.frameworks.get(&unit.consumer.key);
        let has_strays = reported.is_some_and(|reported| reported.has_strays);
        has_strays && !self.settings.defects.has(Defect::ReturnAtEnd)
    }

    /// The step before a released unit whose Framework is not seen returns its capacity, if there is one.
    pub(super) fn before_return(&self, now: Now, unit: &UnitObject) -> Option<Verdict> {
        if self.has_strays(unit) {
            return Some(Verdict::Keep);
        }
        if let Some(until) = self.late_until(unit) {
            return Some(Verdict::KeepUntil(until));
        }
        let from = self.read_from(unit)?;
        Some(if now.steady < from { Verdict::KeepUntil(from) } else { Verdict::Read })
    }

    /// The released first unit of a Framework of which nothing has begun. One that is being deleted never
    /// begins, though a finalizer of another client may keep it.
    fn waiting(&self, now: Now, unit: &UnitObject, framework: &Consumer) -> Verdict {
        let is_covered = covers(unit, framework) && !self.is_let_go(unit) && !framework.deleting;
        match self.held_until(framework) {
            _ if !unit.deleting && !is_covered => Verdict::Delete,
            _ if !unit.deleting => Verdict::Keep,
            // An earlier owner may have begun it with the released requests, or may have let the unit go.
            Some(until) if now.steady < until => Verdict::KeepUntil(until),
            _ if is_covered => Verdict::Keep,
            _ => Verdict::Finalise,
        }
    }

    /// Whether a Framework that waits may begin by its first unit. An earlier owner may have sent the removal
    /// of the finalizer of one that is being deleted.
    pub(super) fn lets_begin(&self, now: Now, unit: &UnitObject, framework: &Consumer) -> bool {
        let is_held = || self.held_until(framework).is_some_and(|until| now.steady < until);
        covers(unit, framework) && !self.is_let_go(unit) && !(unit.deleting && is_held())
    }

    /// Until when Pods may appear of a Framework that is gone.
    fn late_until(&self, unit: &UnitObject) -> Option<Duration> {
        self.late.get(unit.framework_uid()?).copied().flatten()
    }

    /// From when on the Framework of a unit is read, which may be there though it is not seen. A replica that
    /// comes to a slot lists its Frameworks by a label. A new Framework gets the label from the owner of the
    /// slot, and does not if the API server refuses that. One that cannot be decoded is not seen by any
    /// replica. `None`: the Framework is gone, or no Framework can have its name: a unit may name anything.
    fn read_from(&self, unit: &UnitObject) -> Option<Duration> {
        let begun = self.active_slots.begun(Slot::of(unit.framework_uid()?)).unwrap_or_default();
        let next_read = self.writes_of(unit).map_or(Duration::ZERO, |writes| writes.next_read);
        let from = next_read.max(begun + self.settings.request_lifetime);
        let named = &unit.consumer.key;
        let may_exist = is_namespace(&named.namespace) && is_dns_word(&named.name);
        (may_exist && self.orphans.get(&unit.key) != unit.framework_uid()).then_some(from)
    }

    pub(super) fn writes_of(&self, unit: &UnitObject) -> Option<&Writes> {
        self.writes.get(&unit.key).filter(|writes| writes.uid.as_ref() == Some(&unit.uid))
    }

    /// Until when requests of an earlier owner of a Framework may land.
    pub(super) fn held_until(&self, framework: &Consumer) -> Option<Duration> {
        self.active_slots.held_until(Slot::of(&framework.uid))
    }

    fn is_let_go(&self, unit: &UnitObject) -> bool {
        self.writes_of(unit).is_some_and(|writes| writes.is_let_go)
    }
}

/// Whether the first unit of a Framework that waits was released for all that the Framework requests, as far
/// as that is known. A unit without our finalizer reserves nothing.
fn covers(unit: &UnitObject, framework: &Consumer) -> bool {
    unit.owner.as_ref() == Some(&framework.uid)
        && unit.status.phase == Some(Phase::Dequeued)
        && unit.finalizers.has_ours()
        && framework.requests.is_ok()
        && !unit.is_outgrown(framework)
}

/// Whether the unit of a growth that waits has the same requests as the growth.
fn fits_growth(unit: &UnitObject, framework: &Consumer, growth: &Growth) -> bool {
    framework.stage != Stage::Finished
        && framework.queue.as_ref() == Some(&unit.queue)
        && growth.requests == unit.requests
}

/// A unit by which nothing runs goes.
fn leave(unit: &UnitObject) -> Verdict {
    if unit.deleting { Verdict::Finalise } else { Verdict::Delete }
}

/// Whether a Framework that has begun needs less of a unit by now than the unit reserves.
fn returned(unit: &UnitObject, framework: &Consumer, generation: Option<i64>) -> Verdict {
    let Some(Some(held)) = framework.held.get(&generation) else { return Verdict::Keep };
    let reserved = unit.reserved();
    let less = reserved.min(held);
    // An edit of a template changes the requests of later Pods, and not of those that run.
    let as_many_pods = reserved.get(PODS) > Amount::ZERO && held.get(PODS) >= reserved.get(PODS);
    if as_many_pods || less == reserved { Verdict::Keep } else { Verdict::Return(less) }
}

impl UnitObject {
    /// Whether a job of which nothing has begun asks for more by now than its unit: it came to do so while
    /// the unit was being released.
    pub fn is_outgrown(&self, job: &Consumer) -> bool {
        let (Ok(given), Ok(asks)) = (&self.requests, &job.requests) else { return false };
        job.stage == Stage::Waiting && asks.iter().any(|(resource, amount)| amount > given.get(resource))
    }

    /// Whether it has, while it waits, the same queue, requests and class as its job.
    pub fn asks_as(&self, job: &Consumer) -> bool {
        job.queue.as_ref() == Some(&self.queue) && job.requests == self.requests && job.class == self.class
    }

    /// The quota that it reserves while it carries our finalizer.
    pub fn reserved(&self) -> ResourceRequests {
        let given = self.requests.clone().unwrap_or_default();
        self.notes.held.as_ref().map_or_else(|| given.clone(), |held| given.min(held))
    }

    /// Whether the slot owner of a Framework created it, deletes it and removes its finalizer.
    pub fn is_of_framework(&self) -> bool {
        self.owner.is_some() && self.consumer.is_framework()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use framework_api::queue::FINALIZER;
    use jiff::Timestamp;

    use super::*;
    use crate::Settings;
    use crate::object::{Finalizers, UnitNotes, UnitStatus};
    use crate::{ConsumerKey, JobKind};
    use framework_core::Defects;
    use framework_message::Key;

    fn requests(pods: i64, cpu: i64) -> ResourceRequests {
        [("pods", Amount::units(pods)), ("cpu", Amount::units(cpu))].into_iter().collect()
    }

    /// A unit without our finalizer that waits for the Framework of this name.
    fn unit(namespace: &str, framework: &str) -> UnitObject {
        UnitObject {
            consumer: ConsumerKey { key: Key::new(namespace, framework), kind: JobKind::Framework },
            key: Key::new("ns", "framework-a"),
            uid: "u".into(),
            resource_version: 1,
            created: Timestamp::UNIX_EPOCH,
            deleting: false,
            finalizers: Finalizers::default(),
            owner: Some("f".into()),
            notes: UnitNotes::default(),
            consumer_uid: None,
            queue: "q".into(),
            priority: None,
            class: None,
            requests: Ok(requests(2, 8)),
            status: UnitStatus::default(),
        }
    }

    #[test]
    fn an_unseen_framework_is_read_only_if_it_may_have_that_name() {
        let request_lifetime = Duration::from_secs(30);
        let settings = Settings { reserve_after: Duration::ZERO, request_lifetime, defects: Defects::NONE };
        let frameworks = FrameworkUnits::new(settings, 1);
        let now = Now { steady: request_lifetime, boot: request_lifetime, wall: Timestamp::UNIX_EPOCH };
        let verdict = |namespace, name, orphaned| {
            let mut unit = unit(namespace, name);
            unit.status.phase = Some(Phase::Dequeued);
            unit.notes.orphaned = orphaned;
            frameworks.verdict(now, &unit)
        };
        for (namespace, name) in [("ns", "?watch=1#"), ("ns", "?a#"), ("ns", "a/b"), ("ns", ".."), ("?", "a")]
        {
            assert_eq!(verdict("ns", "a", false), Verdict::Read);
            assert_eq!(verdict(namespace, name, false), Verdict::Finalise, "{namespace} {name}");
            assert_eq!(verdict(namespace, name, true), Verdict::Delete, "{namespace} {name}");
        }
    }

    /// A Framework that has begun, and keeps so much of its unit.
    fn framework(pods: i64, cpu: i64) -> Consumer {
        Consumer {
            uid: "f".into(),
            resource_version: 0,
            generation: 1,
            created: Timestamp::UNIX_EPOCH,
            resumed_by: None,
            queue: Some("q".into()),
            class: None,
            requests: Ok(requests(2, 8)),
            growths: BTreeMap::new(),
            held: [(None, Some(requests(pods, cpu)))].into(),
            stage: Stage::Started,
            deleting: false,
        }
    }

    #[test]
    fn a_framework_deleted_before_it_begins_gives_its_released_unit_back() {
        let settings = Settings {
            reserve_after: Duration::ZERO,
            request_lifetime: Duration::from_secs(30),
            defects: Defects::NONE,
        };
        let now = Now { steady: Duration::ZERO, boot: Duration::ZERO, wall: Timestamp::UNIX_EPOCH };
        let verdict = |stage, deleting, is_unit_deleted| {
            let mut frameworks = FrameworkUnits::new(settings, 1);
            let consumer = Consumer { stage, deleting, ..framework(2, 8) };
            frameworks.framework(Key::new("ns", "a"), Some(consumer), false, false);
            let mut unit = unit("ns", "a");
            unit.status.phase = Some(Phase::Dequeued);
            unit.finalizers = [FINALIZER].into_iter().collect();
            unit.deleting = is_unit_deleted;
            frameworks.verdict(now, &unit)
        };
        assert_eq!(verdict(Stage::Waiting, false, false), Verdict::Keep, "it may begin");
        assert_eq!(verdict(Stage::Waiting, true, false), Verdict::Delete);
        assert_eq!(verdict(Stage::Waiting, true, true), Verdict::Finalise);
        assert_eq!(verdict(Stage::Started, true, false), Verdict::Keep, "it runs on");
    }

    #[test]
    fn capacity_returns_when_tasks_go_and_not_when_a_template_shrinks() {
        let unit = unit("ns", "a");
        assert_eq!(returned(&unit, &framework(2, 2), None), Verdict::Keep, "its Pods have eight still");
        assert_eq!(returned(&unit, &framework(1, 4), None), Verdict::Return(requests(1, 4)));
    }
}
