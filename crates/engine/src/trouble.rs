//! Status writes that the API server cannot take, such as while etcd has no space: they are repeated at a
//! small share of the budget, however many Frameworks there are.
//!
//! Each Framework has its own back-off, up to a minute, which is too often if thousands fail. So each
//! failure also reserves the next time at which the share of its namespace allows a repetition: one namespace
//! puts no other one back by more than one turn. Each write that is accepted releases one of those that
//! wait, of one namespace after the other. Its own success releases another one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use framework_message::Key;

/// The share of the budget. Over an hour, with the first attempts of 1,000 Frameworks, it is a tenth.
const SHARE: f64 = 0.08;
/// Requests of a repetition: the write, and the read that shows its outcome.
const REQUESTS: f64 = 2.0;

/// The repetitions that are planned.
#[derive(Debug, Default)]
pub struct Trouble {
    /// The last time that is reserved, by namespace.
    planned: BTreeMap<Arc<str>, Duration>,
    /// The namespace of which one was released last.
    last: Option<Arc<str>>,
    /// The Frameworks that wait longer than by their own back-off, and when that ends. One that is gone stays
    /// until its turn.
    waiting: BTreeMap<Key, Duration>,
}

impl Trouble {
    /// A write failed, and the back-off of its Framework ends at `own`. Returns when it may be repeated.
    /// `qps`: the budget, in requests a second.
    pub fn repeat(&mut self, key: &Key, now: Duration, own: Duration, qps: f64) -> Duration {
        self.planned.retain(|_, planned| *planned > now);
        let others = self.planned.keys().filter(|namespace| **namespace != key.namespace).count();
        let each = Duration::from_secs_f64(REQUESTS / (qps * SHARE) * (others + 1) as f64);
        let planned = self.planned.entry(Arc::clone(&key.namespace)).or_insert(now);
        *planned += each;
        if *planned > own {
            self.waiting.insert(key.clone(), own);
        }
        own.max(*planned)
    }

    /// A write was accepted. Returns a Framework that waits for its own back-off only, from now on, and when
    /// that ends. It keeps this back-off, because its writes may fail for a reason of its own, such as a
    /// webhook.
    pub fn accepted(&mut self) -> Option<(Key, Duration)> {
        // The next namespace in their order.
        let next =
            self.last.as_ref().map_or_else(|| Key::new("", ""), |last| Key::new(&format!("{last}\0"), ""));
        let first = self.waiting.range(next..).next().or_else(|| self.waiting.first_key_value());
        let key = first.map(|(key, _)| key.clone())?;
        let released = self.waiting.remove_entry(&key);
        self.last = Some(key.namespace);
        if self.waiting.is_empty() {
            self.planned.clear();
        }
        released
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
            assert_eq!(trouble.repeat(&key, now, now + SECOND * 60, 80.0), now + SECOND * 60);
        }
        assert_eq!(trouble.accepted(), None);
    }

    #[test]
    fn many_frameworks_share_a_few_requests_and_are_released_one_by_one() {
        let mut trouble = Trouble::default();
        let key = |number: u32| Key::new("ns", &format!("{number:04}"));
        let last = (0..1000).map(|number| trouble.repeat(&key(number), SECOND, SECOND * 2, 80.0)).max();
        assert_eq!(last.map(|last| last.as_secs()), Some(313), "two requests each, at 6.4 a second");
        let released: Vec<_> = std::iter::from_fn(|| trouble.accepted()).collect();
        assert_eq!(released.len(), 997, "but those whose back-off takes as long");
        assert!(released.iter().all(|(_, until)| *until == SECOND * 2), "each by its own back-off");
        assert!(trouble.repeat(&key(0), SECOND * 3, SECOND * 4, 80.0) == SECOND * 4, "nothing is planned");
    }

    #[test]
    fn a_namespace_in_trouble_hardly_delays_another_one() {
        let mut trouble = Trouble::default();
        for number in 0..400 {
            trouble.repeat(&Key::new("bad", &number.to_string()), SECOND, SECOND * 2, 80.0);
        }
        let own = SECOND * 3 / 2;
        let at = trouble.repeat(&Key::new("good", "a"), SECOND, own, 80.0);
        assert!(at < SECOND * 2, "{at:?}");
        let mut released = std::iter::from_fn(|| trouble.accepted().map(|(key, _)| key.namespace));
        assert!(released.by_ref().take(2).any(|namespace| &*namespace == "good"), "they take turns");
    }
}
