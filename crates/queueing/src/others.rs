//! The usage of a quota by others: the usage of all Pods less that of the Pods of released units.
//!
//! The two come by watches that lag behind each other, so their difference may be too small for a moment. A
//! Pod is shown before the quota counts it, or the quota no longer counts a Pod that is still shown. The
//! difference may be too large as well: a quota counts a Pod before it is shown, and for a while after it has
//! gone.
//!
//! Guarantees: a larger difference leaves less room at once, a smaller one leaves more only after it has
//! stood for [`STANDS`] while Pods and quotas were watched. It is past doubt that it is others' only where it
//! is more than released units hold, and has been for [`LASTS`]. It reads no clock.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use framework_queue::requests::resource_of;
use framework_queue::{Amount, QuotaFacts, ResourceRequests};

/// How long a smaller use by others must stand before it counts.
pub const STANDS: Duration = Duration::from_secs(1);

/// How long more use by others than released units can explain must last before it is past doubt.
pub const LASTS: Duration = Duration::from_secs(5);

/// The usage by others of each limit of each quota of a namespace.
#[derive(Debug, Default)]
pub struct Others(BTreeMap<Arc<str>, BTreeMap<String, Level>>);

/// When the usage of a quota is seen.
#[derive(Clone, Copy, Debug)]
pub struct Sight {
    /// On the monotonic clock.
    pub at: Duration,
    /// Whether Pods and quotas are watched. Otherwise a Pod that has gone seems to be there, or a quota
    /// counts more than is shown, and no smaller use by others begins to stand.
    pub are_watched: bool,
}

/// The usage by others of one limit.
#[derive(Clone, Copy, Debug)]
struct Level {
    /// At most: it rises at once.
    most: Bound,
    /// At least: it falls at once.
    least: Bound,
}

/// A bound of the usage by others. It moves away from that usage at once, and towards it after a while.
#[derive(Clone, Copy, Debug)]
struct Bound {
    counts: Amount,
    /// It seems to be closer: since when, and the farthest that it has been since then.
    closer: Option<(Duration, Amount)>,
}

impl Others {
    /// The quota that the schedule receives: its `used` is the usage by others, and that of our own Pods.
    /// `held` is the usage of released units by resource. It contains their Pods, shown or not.
    pub fn settle(
        &mut self,
        sight: Sight,
        name: &Arc<str>,
        quota: &QuotaFacts,
        own: &ResourceRequests,
        held: impl Fn(&str) -> Amount,
    ) -> QuotaFacts {
        let mut levels = self.0.remove(name).unwrap_or_default();
        levels.retain(|key, _| quota.hard.contains_key(key));
        let (mut used, mut unattributed) = (BTreeMap::new(), BTreeMap::new());
        for key in quota.hard.keys() {
            let all = quota.used.get(key).copied().unwrap_or_default();
            let (own, held) = (own.get(resource_of(key)), held(resource_of(key)));
            let beyond = |ours| all.minus(ours).max(Amount::ZERO);
            let (seen, unexplained) = (beyond(own), beyond(own.max(held)));
            let level = levels.entry(key.clone()).or_insert_with(|| {
                let most = if sight.are_watched { seen } else { all };
                Level::new(most, unexplained)
            });
            level.see(sight, seen, unexplained);
            used.insert(key.clone(), level.most.counts.plus(own));
            unattributed.insert(key.clone(), level.most.counts.minus(level.least.counts));
        }
        self.0.insert(Arc::clone(name), levels);
        QuotaFacts { hard: quota.hard.clone(), used, unattributed }
    }

    /// Pods or quotas are not watched for a while: a smaller use begins to stand again after that. Released
    /// units hold the use of their Pods, shown or not, so what is past doubt does not depend on the watches.
    pub fn interrupt(&mut self) {
        for level in self.0.values_mut().flat_map(BTreeMap::values_mut) {
            level.most.closer = None;
        }
    }

    /// The quota is gone.
    pub fn forget(&mut self, name: &str) {
        self.0.remove(name);
    }

    /// When something that stands may count.
    pub fn due(&self) -> Option<Duration> {
        let levels = self.0.values().flat_map(BTreeMap::values);
        levels.filter_map(Level::due).min()
    }
}

impl Level {
    /// The Pods of released units may not be seen yet, as in a namespace of another replica.
    fn new(seen: Amount, unexplained: Amount) -> Self {
        let bound = |counts| Bound { counts, closer: None };
        Level { most: bound(seen), least: bound(unexplained) }
    }

    fn see(&mut self, sight: Sight, seen: Amount, unexplained: Amount) {
        self.most.see(sight, seen, STANDS, Amount::max);
        // More usage than was past doubt says nothing if released units explain it.
        let least = self.least.counts.max(unexplained).min(self.most.counts);
        self.least.see(Sight { are_watched: true, ..sight }, least, LASTS, Amount::min);
    }

    fn due(&self) -> Option<Duration> {
        let dues = [(self.most, STANDS), (self.least, LASTS)];
        dues.into_iter().filter_map(|(bound, stands)| bound.closer.map(|(since, _)| since + stands)).min()
    }
}

impl Bound {
    /// Takes in the usage that is seen. `farther` chooses the value that is farther from the bounded one.
    fn see(&mut self, sight: Sight, seen: Amount, stands: Duration, farther: fn(Amount, Amount) -> Amount) {
        if let Some((since, farthest)) = self.closer
            && since + stands <= sight.at
        {
            // The newest value has not stood yet: the values seen before it count.
            (self.counts, self.closer) = (farthest, None);
        }
        self.closer = match self.closer {
            _ if farther(seen, self.counts) == seen || !sight.are_watched => None,
            None => Some((sight.at, seen)),
            Some((since, farthest)) => Some((since, farther(farthest, seen))),
        };
        self.counts = farther(self.counts, seen);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The upper bound of the usage by others, out of 10 CPUs. Each input is (milliseconds, used by all, by
    /// our own).
    fn counted(seen: &[(u64, i64, i64)]) -> Vec<i128> {
        let seen: Vec<_> = seen.iter().map(|(at, used, own)| (*at, *used, *own, 0)).collect();
        bounded(&seen).into_iter().map(|(most, _)| most).collect()
    }

    /// Milliseconds, used by all, used by our own, held.
    type Seen = (u64, i64, i64, i64);

    /// The least that they use.
    fn past_doubt(seen: &[Seen]) -> Vec<i128> {
        bounded(seen).into_iter().map(|(_, least)| least).collect()
    }

    fn bounded(seen: &[Seen]) -> Vec<(i128, i128)> {
        let seen: Vec<_> = seen.iter().map(|seen| (true, *seen)).collect();
        bounded_in_sight(&seen)
    }

    /// As [`bounded`], and whether Pods and quotas are watched.
    fn bounded_in_sight(seen: &[(bool, Seen)]) -> Vec<(i128, i128)> {
        let mut others = Others::default();
        let amounts = |cpu| [("requests.cpu".to_owned(), Amount::units(cpu))].into();
        let mut bounded = Vec::new();
        for (are_watched, (at, used, own, held)) in seen {
            if !are_watched {
                others.interrupt();
            }
            let sight = Sight { at: Duration::from_millis(*at), are_watched: *are_watched };
            let quota = QuotaFacts { hard: amounts(10), used: amounts(*used), ..Default::default() };
            let own: ResourceRequests = [("cpu", Amount::units(*own))].into_iter().collect();
            let held = |resource: &str| Amount::units(if resource == "cpu" { *held } else { 0 });
            let settled = others.settle(sight, &"q".into(), &quota, &own, held);
            let most = settled.used["requests.cpu"].minus(own.get("cpu"));
            let least = most.minus(settled.unattributed["requests.cpu"]);
            let units = |amount: Amount| amount.nanos() / Amount::units(1).nanos();
            bounded.push((units(most), units(least)));
        }
        bounded
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
    fn a_quota_that_drops_before_its_pod_is_gone_makes_no_room() {
        assert_eq!(counted(&[(0, 7, 3), (5, 4, 3), (9, 4, 0), (2_000, 4, 0)]), [4, 4, 4, 4]);
    }

    #[test]
    fn a_changing_smaller_use_counts_as_its_largest_value() {
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
    fn a_smaller_use_counts_after_pods_were_watched_for_a_second() {
        let gone = |watched, at| (watched, (at, 4, 3, 3));
        let seen = [
            (true, (0, 7, 3, 3)),
            gone(true, 10),
            gone(false, 900),
            gone(false, 5_000),
            gone(true, 6_000),
            gone(true, 6_999),
            gone(true, 7_000),
        ];
        let most: Vec<_> = bounded_in_sight(&seen).into_iter().map(|(most, _)| most).collect();
        assert_eq!(most, [4, 4, 4, 4, 4, 4, 1]);
    }

    #[test]
    fn use_that_nothing_explains_is_past_doubt_though_the_watch_closes() {
        let beyond = |watched, at| (watched, (at, 9, 0, 5));
        let seen = [
            (true, (0, 5, 0, 5)),
            beyond(true, 1),
            beyond(false, 3_000),
            beyond(true, 3_100),
            beyond(true, 5_001),
        ];
        let least: Vec<_> = bounded_in_sight(&seen).into_iter().map(|(_, least)| least).collect();
        assert_eq!(least, [0, 0, 0, 0, 4]);
    }

    #[test]
    fn a_quota_first_seen_while_pods_are_not_watched_leaves_least_room() {
        let seen = [(false, (0, 7, 3, 3)), (true, (10, 7, 3, 3)), (true, (1_010, 7, 3, 3))];
        assert_eq!(bounded_in_sight(&seen), [(7, 4), (7, 4), (4, 4)]);
    }

    #[test]
    fn usage_that_released_units_explain_stays_unattributed_without_pods() {
        let seen = [(0, 0, 0, 0), (1, 6, 0, 9), (60_000, 9, 3, 9), (61_000, 9, 9, 9), (70_000, 9, 9, 9)];
        assert_eq!(past_doubt(&seen), [0; 5]);
        assert_eq!(bounded(&seen)[1], (6, 0), "and leaves no room meanwhile");
    }

    /// The Pods of a namespace are listed when its slot is granted.
    #[test]
    fn usage_by_pods_that_are_yet_to_be_listed_is_past_doubt_at_no_time() {
        let seen = [(0, 9, 0, 6), (3_000, 9, 0, 6), (4_000, 9, 6, 6), (5_000, 9, 6, 6)];
        assert_eq!(bounded(&seen), [(9, 3), (9, 3), (9, 3), (3, 3)]);
    }

    #[test]
    fn unexplained_usage_is_attributed_to_others_after_a_while() {
        assert_eq!(
            past_doubt(&[(0, 0, 0, 0), (1, 9, 0, 5), (5_000, 9, 0, 5), (5_001, 9, 0, 5)]),
            [0, 0, 0, 4]
        );
        assert_eq!(
            past_doubt(&[(0, 3, 0, 0), (1, 3, 0, 9), (9_000, 8, 2, 9)]),
            [3; 3],
            "and stays that when units are released"
        );
    }

    #[test]
    fn a_brief_count_of_a_deleted_pod_stays_unattributed() {
        let seen = [(0, 9, 9, 9), (1, 9, 0, 0), (4_000, 2, 0, 0), (4_500, 0, 0, 0), (9_000, 0, 0, 0)];
        assert_eq!(past_doubt(&seen), [0; 5]);
    }

    #[test]
    fn less_is_no_longer_past_doubt_once_it_leaves_room() {
        assert_eq!(bounded(&[(0, 5, 0, 0), (1, 2, 0, 0), (1_001, 2, 0, 0)]), [(5, 5), (5, 5), (2, 2)]);
    }

    #[test]
    fn it_names_the_time_when_a_smaller_use_counts() {
        let mut others = Others::default();
        let quota = |used| QuotaFacts {
            hard: [("pods".to_owned(), Amount::units(9))].into(),
            used: [("pods".to_owned(), Amount::units(used))].into(),
            ..Default::default()
        };
        let name: Arc<str> = "q".into();
        let sight = |second| Sight { at: Duration::from_secs(second), are_watched: true };
        others.settle(sight(0), &name, &quota(5), &ResourceRequests::default(), |_| Amount::ZERO);
        assert_eq!(others.due(), None);
        let mut sees = |second, used| {
            others.settle(sight(second), &name, &quota(used), &ResourceRequests::default(), |_| Amount::ZERO);
            others.due()
        };
        assert_eq!(sees(3, 4), Some(Duration::from_secs(3) + STANDS));
        assert_eq!(sees(3, 6), Some(Duration::from_secs(3) + LASTS));
        others.forget(&name);
        assert_eq!(others.due(), None);
    }
}
