//! The requests about QueueUnits: those on their way by Framework and by unit, and the last admission.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use framework_core::observed::Admission;
use framework_message::Key;
use framework_message::backoff::Failures;
use framework_queue::ResourceRequests;

use crate::accepted::AcceptedChange;
use crate::object::{Reply, UnitObject};
use crate::unit::PendingRequest;

/// The requests about the units of one Framework, and the last admission.
#[derive(Debug, Default)]
pub struct UnitRequests {
    /// The UID of the Framework of that name of which a POST is on its way. That of an earlier Framework may
    /// end without a reply, because its slot was lost.
    pub busy: Option<Arc<str>>,
    /// The generation of the growth that it is for; the first unit has none.
    pub growth: Option<i64>,
    /// Failed POSTs in a row.
    pub failures: Failures,
    /// No POST is sent before.
    pub not_before: Duration,
    /// The API server says repeatedly that the name is taken, and no unit of that name is seen.
    pub is_name_taken: bool,
    /// The last unit that the API server refused for good.
    pub refused: Option<RefusedUnit>,
    /// The growths whose refusal was reported: the UIDs of their Frameworks, and their generations.
    said: BTreeSet<(Arc<str>, i64)>,
    /// The UID of the Framework that the last admission was for, and that admission.
    last_admission: Option<(Arc<str>, Admission)>,
    /// The same for its growths. `None` stands for no admitted growth.
    last_growths: Option<(Arc<str>, Vec<i64>)>,
    /// The Framework whose first unit was last seen, and the priority in the spec of that unit. A user may
    /// have patched the priority, and a unit that is made again keeps it.
    priority: Option<(Arc<str>, i32)>,
}

/// A unit that the API server refused for good.
#[derive(Debug, PartialEq, Eq)]
pub struct RefusedUnit {
    /// The UID of its Framework.
    pub uid: Arc<str>,
    /// The generation of its growth; the first unit has none.
    pub growth: Option<i64>,
    /// The message of the API server.
    pub message: String,
}

impl UnitRequests {
    /// Why the API server refused the first unit of the Framework with that UID.
    pub fn refusal(&self, uid: &Arc<str>) -> Option<&str> {
        let refused = self.refused.as_ref().filter(|refused| refused.growth.is_none());
        refused.filter(|refused| refused.uid == *uid).map(|refused| refused.message.as_str())
    }

    /// The growth of the Framework with that UID whose unit was refused last.
    pub fn refused_growth(&self, uid: &Arc<str>) -> Option<i64> {
        self.refused.as_ref().filter(|refused| refused.uid == *uid)?.growth
    }

    /// Whether the refusal of this growth is to be reported: once, among these growths.
    pub fn says(&mut self, uid: &Arc<str>, growth: i64, is_there: impl Fn(i64) -> bool) -> bool {
        self.said.retain(|(of, growth)| of == uid && is_there(*growth));
        self.said.insert((Arc::clone(uid), growth))
    }

    /// Notes the admission of a Framework with that UID. Returns whether it has changed.
    pub fn admit(&mut self, uid: &Arc<str>, admission: &Admission) -> bool {
        let news = Some((Arc::clone(uid), admission.clone()));
        let is_news = self.last_admission != news;
        self.last_admission = news;
        is_news
    }

    /// Whether the last admission let the Framework with that UID begin.
    pub fn was_released(&self, uid: &Arc<str>) -> bool {
        let is_of_it =
            |(of, last): &&(Arc<str>, Admission)| of == uid && matches!(last, Admission::Released { .. });
        self.last_admission.as_ref().filter(is_of_it).is_some()
    }

    /// Notes the growths of a Framework with that UID that may begin. Returns whether they have changed.
    pub fn admit_growths(&mut self, uid: &Arc<str>, growths: &[i64]) -> bool {
        let known = self.last_growths.as_ref().filter(|(of, _)| of == uid);
        let is_news = known.map_or(&[][..], |(_, known)| known) != growths;
        self.last_growths = Some((Arc::clone(uid), growths.to_vec()));
        is_news
    }

    /// The first unit of the Framework with that UID has this priority in its spec.
    pub fn set_priority(&mut self, uid: &Arc<str>, priority: Option<i32>) {
        self.priority = priority.map(|priority| (Arc::clone(uid), priority));
    }

    /// The priority that the last unit of the Framework with that UID had in its spec.
    pub fn priority_of(&self, uid: &Arc<str>) -> Option<i32> {
        self.priority.as_ref().filter(|(of, _)| of == uid).map(|(_, priority)| *priority)
    }
}

/// A request about a unit, and the part that a return leaves. The next return leaves less.
pub type UnitChange = (PendingRequest, Option<ResourceRequests>);

/// The requests about one unit.
#[derive(Debug, Default)]
pub struct Writes {
    /// The unit that they are of.
    pub uid: Option<Arc<str>>,
    /// The UID of the Framework that the last request was for: its slot is the request's.
    pub framework: Option<Arc<str>>,
    /// A request is on its way.
    pub pending: bool,
    /// The removal of our finalizer was sent, and may have been stored or may yet be. Nothing begins by the
    /// unit any more.
    pub is_let_go: bool,
    /// A request got no reply, or the removal of our finalizer was accepted: it may have been stored, though
    /// a later try is refused.
    pub is_unsure: bool,
    /// The version of the unit that the last request was made from.
    pub base: u128,
    /// The last request that was sent.
    sent: Option<UnitChange>,
    /// The last request that was carried out.
    accepted: AcceptedChange<UnitChange>,
    /// Failures in a row.
    pub failures: Failures,
    /// Nothing is sent before.
    pub not_before: Duration,
    /// Its Framework, which no watch shows, is not read before.
    pub next_read: Duration,
    /// How often it was read, and was there.
    pub reads: u32,
}

impl Writes {
    /// Whether a request about a unit is on its way.
    pub fn blocks(&self, unit: &UnitObject) -> bool {
        self.uid.as_ref() == Some(&unit.uid) && self.pending
    }

    /// The moment before which this request about this version of the unit is not sent.
    pub fn sends_from(&self, change: &UnitChange, version: u128) -> Duration {
        self.not_before.max(self.accepted.until(change, version))
    }

    /// A request about this version of a unit is on its way, for the Framework with that UID.
    pub fn begin(&mut self, unit: &UnitObject, framework: &Arc<str>, change: UnitChange) {
        if self.uid.as_ref() != Some(&unit.uid) {
            *self = Writes { uid: Some(Arc::clone(&unit.uid)), ..Writes::default() };
        }
        self.pending = true;
        self.framework = Some(Arc::clone(framework));
        self.base = unit.resource_version;
        self.sent = Some(change);
    }

    /// The request was carried out. The watch has the time `lag` to show that.
    pub fn succeeded(&mut self, unit: &Key, now: Duration, lag: Duration, jitter: u64) {
        self.failures = Failures::default();
        if let Some(change) = self.sent.take() {
            self.accepted.accept(unit, change, self.base, now, lag, jitter);
        }
    }
}

/// The common pace of the requests that note a Framework on a unit, in a namespace. A user may have made
/// thousands of units for which the API server refuses that.
#[derive(Debug, Default)]
pub struct RefusedBinds {
    failures: Failures,
    not_before: Duration,
}

impl RefusedBinds {
    /// The moment before which none is sent.
    pub fn not_before(&self) -> Duration {
        self.not_before
    }

    /// One was refused for good. Those that were on their way with it count as one. Returns the moment before
    /// which no other is sent.
    pub fn refuse(&mut self, now: Duration, reply: &Reply, jitter: u64) -> Duration {
        if self.not_before <= now {
            self.not_before = now + self.failures.delay_after(reply, jitter);
        }
        self.not_before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uid(uid: &str) -> Arc<str> {
        uid.into()
    }

    #[test]
    fn an_admission_is_news_once_for_each_framework() {
        let mut state = UnitRequests::default();
        let released = Admission::Released { generation: 2 };
        assert!(state.admit(&uid("a"), &released) && !state.admit(&uid("a"), &released));
        assert!(state.was_released(&uid("a")) && !state.was_released(&uid("b")));
        assert!(state.admit(&uid("b"), &released), "another Framework of the same name");
    }

    #[test]
    fn an_empty_list_of_growths_is_no_news_of_a_new_framework() {
        let mut state = UnitRequests::default();
        assert!(!state.admit_growths(&uid("a"), &[]) && state.admit_growths(&uid("a"), &[2]));
        assert!(!state.admit_growths(&uid("a"), &[2]) && state.admit_growths(&uid("a"), &[]));
        assert!(!state.admit_growths(&uid("b"), &[]));
    }
}
