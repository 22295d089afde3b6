//! Status writes that the API server cannot take, such as while etcd has no space: they are repeated at a
//! small share of the budget, however many Frameworks there are.
//!
//! Each Framework has its own back-off, up to a minute, which is too often if thousands fail. So each
//! failure also reserves the next time at which the share allows a repetition. Each write that is accepted
//! releases one of those that wait. Its own success releases another one.

use std::collections::BTreeMap;
use std::time::Duration;

use framework_message::Key;

/// The share of the budget. Over an hour, with the first attempts of 1,000 Frameworks, it is a tenth.
const SHARE: f64 = 0.08;
/// Requests of a repetition: the write, and the read that shows its outcome.
const REQUESTS: f64 = 2.0;

/// The repetitions that are planned.
#[derive(Debug, Default)]
pub struct Trouble {
    planned: Duration,
    /// The Frameworks that wait longer than by their own back-off, and when that ends. One that is gone stays
    /// until its turn.
    waiting: BTreeMap<Key, Duration>,
}

impl Trouble {
    /// A write failed, and the back-off of its Framework ends at `own`. Returns when it may be repeated.
    /// `qps`: the budget, in requests a second.
    pub fn repeat(&mut self, key: &Key, now: Duration, own: Duration, qps: f64) -> Duration {
        let each = Duration::from_secs_f64(REQUESTS / (qps * SHARE));
        self.planned = self.planned.max(now) + each;
        if self.planned > own {
            self.waiting.insert(key.clone(), own);
        }
        own.max(self.planned)
    }

    /// A write was accepted. Returns a Framework that waits for its own back-off only, from now on, and when
    /// that ends. It keeps this back-off, because its writes may fail for a reason of its own, such as a
    /// webhook.
    pub fn accepted(&mut self, now: Duration) -> Option<(Key, Duration)> {
        let released = self.waiting.pop_first()?;
        if self.waiting.is_empty() {
            self.planned = now;
        }
        Some(released)
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
        assert_eq!(trouble.accepted(SECOND * 600), None);
    }

    #[test]
    fn many_frameworks_share_a_few_requests_and_are_released_one_by_one() {
        let mut trouble = Trouble::default();
        let key = |number: u32| Key::new("ns", &format!("{number:04}"));
        let last = (0..1000).map(|number| trouble.repeat(&key(number), SECOND, SECOND * 2, 80.0)).max();
        assert_eq!(last.map(|last| last.as_secs()), Some(313), "two requests each, at 6.4 a second");
        let released: Vec<_> = std::iter::from_fn(|| trouble.accepted(SECOND * 3)).collect();
        assert_eq!(released.len(), 997, "but those whose back-off takes as long");
        assert!(released.iter().all(|(_, until)| *until == SECOND * 2), "each by its own back-off");
        assert!(trouble.repeat(&key(0), SECOND * 3, SECOND * 4, 80.0) == SECOND * 4, "nothing is planned");
    }
}
