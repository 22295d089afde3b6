//! The units of one namespace that are passed over because the API server refuses their status.
//!
//! Where it refuses the status of some, the units behind them have their turn, however many are refused.
//! Where it refuses all, thousands are not tried in turn: most keep their turn until that is over.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Units that are passed over without delay.
const AT_ONCE: usize = 100;

/// After this time one more is passed over. A unit waits so long for each of them before it is considered
/// again: however many they are, they cost a hundred tries in a minute.
const PACE: Duration = Duration::from_millis(600);

/// How many more are considered when one of them is released.
const BROUGHT_FORWARD: usize = 2;

/// A unit that is passed over.
#[derive(Debug)]
struct Passed {
    /// Why.
    note: String,
    /// Until when, on the monotonic clock.
    until: Duration,
}

/// The units of one namespace that are passed over.
#[derive(Debug, Default)]
pub struct RefusedUnits {
    /// By their names.
    passed: BTreeMap<Arc<str>, Passed>,
    /// When, on the monotonic clock, one more may be passed over though they are many.
    next: Duration,
}

impl RefusedUnits {
    /// Why a unit is passed over, if it is.
    pub fn note(&self, unit: &str) -> Option<&String> {
        self.passed.get(unit).map(|passed| &passed.note)
    }

    /// Until when a unit is passed over, if it is.
    pub fn until(&self, unit: &str) -> Option<Duration> {
        self.passed.get(unit).map(|passed| passed.until)
    }

    /// Passes over a unit, `now` on the monotonic clock, at least until `retry_at`; `again`: it was before.
    /// Returns the moment before which it is not considered. `None`: it keeps its turn, because others have
    /// just been passed over.
    pub fn pass(
        &mut self,
        now: Duration,
        unit: &Arc<str>,
        note: &str,
        retry_at: Duration,
        again: bool,
    ) -> Option<Duration> {
        let count = self.passed.len();
        if !again && count >= AT_ONCE && now < self.next {
            return None;
        }
        if !again {
            self.next = now + PACE;
        }
        let until = retry_at.max(now + PACE.saturating_mul(u32::try_from(count).unwrap_or(u32::MAX)));
        self.passed.insert(Arc::clone(unit), Passed { note: note.to_owned(), until });
        Some(until)
    }

    /// A unit that was passed over is released, `now` on the monotonic clock. Returns others that are to be
    /// considered now: the refusals may be over.
    pub fn bring_forward(&mut self, now: Duration) -> Vec<Arc<str>> {
        let mut first = Vec::new();
        for _ in 0..BROUGHT_FORWARD {
            let later = self.passed.iter_mut().filter(|(_, passed)| now < passed.until);
            // One that was just refused again waits longest: it holds up no other.
            let Some((unit, passed)) = later.min_by_key(|(_, passed)| passed.until) else { break };
            passed.until = now;
            first.push(Arc::clone(unit));
        }
        first
    }

    /// A unit is considered again, or is gone.
    pub fn remove(&mut self, unit: &str) {
        self.passed.remove(unit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl RefusedUnits {
        fn passes(&mut self, now: Duration, unit: &Arc<str>, again: bool) -> bool {
            self.pass(now, unit, "why", Duration::ZERO, again).is_some()
        }
    }

    /// A hundred units were passed over at the start, and the names of more.
    fn full() -> (RefusedUnits, [Arc<str>; 3]) {
        let mut refused = RefusedUnits::default();
        for number in 0..AT_ONCE {
            assert!(refused.passes(Duration::ZERO, &format!("{number}").into(), false));
        }
        (refused, ["x", "y", "z"].map(Arc::from))
    }

    #[test]
    fn one_more_unit_is_passed_over_after_each_pause() {
        let (mut refused, [x, y, z]) = full();
        let mut passes = |at: u32, unit: &Arc<str>| refused.passes(PACE * at, unit, false);
        assert!(!passes(0, &x) && passes(1, &x) && !passes(1, &y) && passes(2, &y));
        for name in ["x", "y", "7"] {
            refused.remove(name);
        }
        let mut passes = |unit: &Arc<str>| refused.passes(PACE * 2, unit, false);
        assert!(passes(&x) && !passes(&z), "there is one free place");
    }

    #[test]
    fn a_unit_that_was_passed_over_before_is_so_again_without_a_pause() {
        let (mut refused, [x, y, _]) = full();
        assert!(refused.passes(PACE, &x, false));
        for at in [PACE, PACE * 2] {
            refused.remove(&x);
            assert_eq!(refused.note("x"), None);
            assert!(refused.passes(at, &x, true) && refused.note("x").is_some());
        }
        assert!(refused.passes(PACE * 2, &y, false), "it delays no other");
    }

    #[test]
    fn a_unit_waits_for_each_of_the_others_before_it_is_considered() {
        let (mut refused, [x, y, _]) = full();
        assert!(refused.passes(PACE, &x, false));
        assert_eq!(refused.until("x"), Some(PACE * 101), "a minute");
        let retry_at = PACE * 1_000;
        assert_eq!(refused.pass(PACE * 2, &y, "why", retry_at, false), Some(retry_at));
    }

    #[test]
    fn units_that_are_refused_again_hold_up_no_other() {
        let mut refused = RefusedUnits::default();
        let [x, y, z] = ["x", "y", "z"].map(Arc::<str>::from);
        for unit in [&x, &y, &z] {
            refused.pass(Duration::ZERO, unit, "why", PACE * 9, false);
        }
        assert_eq!(refused.bring_forward(PACE), [x.clone(), y.clone()]);
        for unit in [&x, &y] {
            refused.pass(PACE, unit, "why", PACE * 20, true);
        }
        assert_eq!(refused.bring_forward(PACE * 2)[0], z);
    }

    #[test]
    fn a_unit_is_brought_forward_once() {
        let mut refused = RefusedUnits::default();
        let names: [Arc<str>; 3] = ["a", "b", "c"].map(Arc::from);
        for name in &names {
            refused.pass(Duration::ZERO, name, "why", PACE * 9, false);
        }
        let mut forward = || refused.bring_forward(PACE);
        assert_eq!([forward(), forward(), forward()], [names[..2].to_vec(), names[2..].to_vec(), vec![]]);
        assert_eq!(refused.until("a"), Some(PACE));
    }
}
