//! What others use of a quota: what all Pods use, less what the Pods of released units do.
//!
//! The two come by watches that lag behind each other, so their difference may be too small for a moment: a
//! Pod is shown before the quota counts it, or a quota has given back what a Pod that is still shown used.
//! Guarantee: a larger difference counts at once, a smaller one only after it has stood for [`STANDS`]. It
//! reads no clock.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use framework_queue::ask::resource_of;
use framework_queue::{Amount, Ask, QuotaFacts};

/// How long a smaller use by others must stand before it counts.
pub const STANDS: Duration = Duration::from_secs(1);

/// What others use of each limit of each quota of a namespace.
#[derive(Debug, Default)]
pub struct Others(BTreeMap<Arc<str>, BTreeMap<String, Level>>);

/// What others use of one limit.
#[derive(Clone, Copy, Debug)]
struct Level {
    counts: Amount,
    /// It seems to be less: since when, and the most that it has been since then.
    less: Option<(Duration, Amount)>,
}

impl Others {
    /// A quota as the scheduler is to be told it: its `used` is what others use, with what counts as our own.
    pub fn settle(&mut self, now: Duration, name: &Arc<str>, quota: &QuotaFacts, own: &Ask) -> QuotaFacts {
        let mut levels = self.0.remove(name).unwrap_or_default();
        levels.retain(|key, _| quota.hard.contains_key(key));
        let mut used = BTreeMap::new();
        for key in quota.hard.keys() {
            let own = own.get(resource_of(key));
            let seen = quota.used.get(key).copied().unwrap_or_default().minus(own).max(Amount::ZERO);
            let level = levels.entry(key.clone()).or_insert(Level { counts: seen, less: None });
            level.see(now, seen);
            used.insert(key.clone(), level.counts.plus(own));
        }
        self.0.insert(Arc::clone(name), levels);
        QuotaFacts { hard: quota.hard.clone(), used }
    }

    /// The quota is gone.
    pub fn forget(&mut self, name: &str) {
        self.0.remove(name);
    }

    /// When something that stands may count.
    pub fn due(&self) -> Option<Duration> {
        let levels = self.0.values().flat_map(BTreeMap::values);
        levels.filter_map(|level| level.less.map(|(since, _)| since + STANDS)).min()
    }
}

impl Level {
    fn see(&mut self, now: Duration, seen: Amount) {
        if let Some((since, most)) = self.less
            && since + STANDS <= now
        {
            // What has just come to be seen has not stood yet, so it is what was seen before that counts.
            (self.counts, self.less) = (most, None);
        }
        self.less = match self.less {
            _ if seen >= self.counts => None,
            None => Some((now, seen)),
            Some((since, most)) => Some((since, most.max(seen))),
        };
        self.counts = self.counts.max(seen);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What others use of 10 CPUs, by what is seen when: milliseconds, used by all, used by our own.
    fn counted(seen: &[(u64, i64, i64)]) -> Vec<i128> {
        let mut others = Others::default();
        let amounts = |cpu| [("requests.cpu".to_owned(), Amount::units(cpu))].into();
        let mut counted = Vec::new();
        for (at, used, own) in seen {
            let quota = QuotaFacts { hard: amounts(10), used: amounts(*used) };
            let own: Ask = [("cpu", Amount::units(*own))].into_iter().collect();
            let told = others.settle(Duration::from_millis(*at), &"q".into(), &quota, &own);
            let counts = told.used["requests.cpu"].minus(own.get("cpu"));
            counted.push(counts.nanos() / Amount::units(1).nanos());
        }
        counted
    }

    #[test]
    fn more_counts_at_once_and_less_after_a_second() {
        assert_eq!(
            counted(&[(0, 2, 0), (1, 5, 0), (10, 3, 0), (1_009, 3, 0), (1_010, 3, 0)]),
            [2, 5, 5, 5, 3]
        );
        assert_eq!(
            counted(&[(0, 5, 0), (10, 3, 0), (1_010, 1, 0), (2_009, 1, 0), (2_010, 1, 0)]),
            [5, 5, 3, 3, 1]
        );
    }

    #[test]
    fn a_pod_that_is_shown_before_the_quota_counts_it_makes_no_room() {
        assert_eq!(counted(&[(0, 4, 0), (5, 4, 3), (9, 7, 3), (2_000, 7, 3)]), [4, 4, 4, 4]);
    }

    #[test]
    fn what_a_quota_gave_back_before_the_pod_is_shown_gone_makes_no_room() {
        assert_eq!(counted(&[(0, 7, 3), (5, 4, 3), (9, 4, 0), (2_000, 4, 0)]), [4, 4, 4, 4]);
    }

    #[test]
    fn less_that_does_not_stand_still_counts_as_the_most_that_it_was() {
        assert_eq!(
            counted(&[(0, 9, 0), (10, 1, 0), (500, 4, 0), (900, 2, 0), (1_010, 2, 0)]),
            [9, 9, 9, 9, 4]
        );
        assert_eq!(
            counted(&[(0, 9, 0), (10, 1, 0), (500, 9, 0), (1_010, 1, 0), (2_010, 1, 0)]),
            [9, 9, 9, 9, 1]
        );
    }

    #[test]
    fn it_says_when_it_wants_to_be_asked_again() {
        let mut others = Others::default();
        let quota = |used| QuotaFacts {
            hard: [("pods".to_owned(), Amount::units(9))].into(),
            used: [("pods".to_owned(), Amount::units(used))].into(),
        };
        let name: Arc<str> = "q".into();
        others.settle(Duration::ZERO, &name, &quota(5), &Ask::default());
        assert_eq!(others.due(), None);
        others.settle(Duration::from_secs(3), &name, &quota(4), &Ask::default());
        assert_eq!(others.due(), Some(Duration::from_secs(3) + STANDS));
        others.forget(&name);
        assert_eq!(others.due(), None);
    }
}
