//! Status writes that the API server cannot take, such as while etcd has no space: they are repeated at a
//! small share of the budget, however many Frameworks there are.
//!
//! Each Framework has its own back-off, up to a minute, which is too often if thousands fail. So each
//! failure also reserves the next time at which the share allows a repetition. If another namespace has more
//! Frameworks that wait, one of those trades its earlier time for this one: a namespace with a single failure
//! waits for hardly anything. Each write that is accepted releases one of those that wait, of one namespace
//! after the other. Its own success releases another one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use framework_message::Key;

use crate::in_flight::one_less;

/// The share of the budget. Over an hour, with the first attempts of 1,000 Frameworks, it is a tenth.
const SHARE: f64 = 0.08;
/// Requests of a repetition: the write, and the read that shows its outcome.
const REQUESTS: f64 = 2.0;

/// A Framework that waits longer than by its own back-off. One that is gone stays until its turn.
#[derive(Debug)]
struct Waiting {
    /// When its own back-off ends.
    own: Duration,
    /// The time that is reserved for it.
    reserved: Duration,
}

/// The repetitions that are planned.
#[derive(Debug, Default)]
pub struct Trouble {
    /// The last time that is reserved.
    planned: Duration,
    waiting: BTreeMap<Key, Waiting>,
    /// The times that are reserved, each for one that waits.
    reserved: BTreeMap<Duration, Key>,
    /// How many wait, by namespace.
    counts: BTreeMap<Arc<str>, usize>,
    /// The namespace of which one was released last.
    last: Option<Arc<str>>,
}

impl Trouble {
    /// A write failed, and the back-off of its Framework ends at `own`. Returns when it may be repeated, and
    /// a Framework that waits longer for that, with its new time. `qps`: the budget, in requests a second.
    pub fn repeat(
        &mut self,
        key: &Key,
        now: Duration,
        own: Duration,
        qps: f64,
    ) -> (Duration, Option<(Key, Duration)>) {
        while let Some((at, passed)) = self.reserved.first_key_value()
            && *at <= now
        {
            let passed = passed.clone();
            self.forget(&passed);
        }
        self.forget(key);
        self.planned = self.planned.max(now) + Duration::from_secs_f64(REQUESTS / (qps * SHARE));
        if self.planned <= own {
            return (own, None);
        }
        let waits = self.counts.get(&key.namespace).copied().unwrap_or_default() + 1;
        let has_more = |other: &Key| self.counts.get(&other.namespace).is_some_and(|count| *count > waits);
        let crowded = self.counts.values().any(|count| *count > waits);
        let traded = self.reserved.iter().find(|(_, other)| crowded && has_more(other));
        let traded = traded.map(|(at, other)| (*at, other.clone()));
        let Some((at, other)) = traded else {
            self.reserve(key, own, self.planned);
            return (self.planned, None);
        };
        let others_own = self.forget(&other).map_or(at, |waiting| waiting.own);
        self.reserve(&other, others_own, self.planned);
        self.reserve(key, own, at);
        (own.max(at), Some((other, self.planned)))
    }

    /// A write was accepted. Returns a Framework that waits for its own back-off only, from now on, and when
    /// that ends. It keeps this back-off, because its writes may fail for a reason of its own, such as a
    /// webhook.
    pub fn accepted(&mut self, now: Duration) -> Option<(Key, Duration)> {
        // The next namespace in their order.
        let next =
            self.last.as_ref().map_or_else(|| Key::new("", ""), |last| Key::new(&format!("{last}\0"), ""));
        let first = self.waiting.range(next..).next().or_else(|| self.waiting.first_key_value());
        let key = first.map(|(key, _)| key.clone())?;
        let Waiting { own, .. } = self.forget(&key)?;
        self.last = Some(Arc::clone(&key.namespace));
        if self.waiting.is_empty() {
            self.planned = now;
        }
        Some((key, own))
    }

    fn reserve(&mut self, key: &Key, own: Duration, reserved: Duration) {
        self.waiting.insert(key.clone(), Waiting { own, reserved });
        self.reserved.insert(reserved, key.clone());
        *self.counts.entry(Arc::clone(&key.namespace)).or_default() += 1;
    }

    fn forget(&mut self, key: &Key) -> Option<Waiting> {
        let forgotten = self.waiting.remove(key)?;
        self.reserved.remove(&forgotten.reserved);
        one_less(&mut self.counts, &key.namespace);
        Some(forgotten)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_single_framework_follows_its_own_back_off() {
        let (mut trouble, key) = (Trouble::default(), Key::new("ns", "a"));
        for minute in 0..10 {
            let now = SECOND * 60 * minute;
            assert_eq!(trouble.repeat(&key, now, now + SECOND * 60, 80.0), (now + SECOND * 60, None));
        }
        assert_eq!(trouble.accepted(SECOND * 600), None);
    }

    #[test]
    fn many_frameworks_share_a_few_requests_and_are_released_one_by_one() {
        let mut trouble = Trouble::default();
        let key = |number: u32| Key::new("ns", &format!("{number:04}"));
        let last = (0..1000).map(|number| trouble.repeat(&key(number), SECOND, SECOND * 2, 80.0).0).max();
        assert_eq!(last.map(|last| last.as_secs()), Some(313), "two requests each, at 6.4 a second");
        let released: Vec<_> = std::iter::from_fn(|| trouble.accepted(SECOND * 3)).collect();
        assert_eq!(released.len(), 997, "but those whose back-off takes as long");
        assert!(released.iter().all(|(_, until)| *until == SECOND * 2), "each by its own back-off");
        assert_eq!(trouble.repeat(&key(0), SECOND * 3, SECOND * 4, 80.0).0, SECOND * 4, "nothing is planned");
    }

    #[test]
    fn a_namespace_in_trouble_hardly_delays_another_one() {
        let mut trouble = Trouble::default();
        let mut last = SECOND;
        for number in 0..400 {
            last = trouble.repeat(&Key::new("bad", &number.to_string()), SECOND, SECOND * 2, 80.0).0;
        }
        let own = SECOND * 3 / 2;
        let (at, traded) = trouble.repeat(&Key::new("good", "a"), SECOND, own, 80.0);
        assert!(at < SECOND * 3, "{at:?}");
        let (key, until) = traded.expect("one of the others takes its time");
        assert_eq!((&*key.namespace, until > last), ("bad", true));
        let released: Vec<_> =
            (0..4).map(|_| trouble.accepted(SECOND).unwrap().0.namespace.to_string()).collect();
        assert_eq!(released, ["bad", "good", "bad", "bad"], "they take turns");
    }

    #[test]
    fn many_namespaces_together_reserve_no_more_than_one() {
        let mut trouble = Trouble::default();
        for namespace in 0..10 {
            for number in 0..100 {
                let key = Key::new(&namespace.to_string(), &number.to_string());
                trouble.repeat(&key, SECOND, SECOND * 2, 80.0);
            }
        }
        assert_eq!(trouble.waiting.len(), trouble.reserved.len(), "each has a time of its own");
        let times: Vec<Duration> = trouble.reserved.keys().copied().collect();
        let each = Duration::from_secs_f64(REQUESTS / (80.0 * SHARE));
        assert!(times.windows(2).all(|pair| pair[1] - pair[0] >= each), "two requests each, at 6.4 a second");
        assert!(trouble.counts.values().all(|count| count.abs_diff(100) <= 3), "{:?}", trouble.counts);
    }
}
