//! The local clocks, compared: a suspended virtual machine shows as a wall clock that jumps ahead.

use std::time::Duration;

use framework_message::Now;

use crate::policy::Policy;

/// The last reading of the clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Clock {
    last: Option<(Duration, i64)>,
    /// A jump was noticed then: requests that were sent earlier prove nothing.
    jumped: Option<Duration>,
}

impl Clock {
    /// Compares the clocks with their last reading. It is made several times in each interval of renewals.
    pub fn step(&mut self, now: Now, policy: &Policy) {
        let wall = now.wall.as_millisecond();
        if let Some((boot, last)) = self.last {
            let passed = i64::try_from(now.boot.saturating_sub(boot).as_millis()).unwrap_or(i64::MAX);
            let ahead = wall.saturating_sub(last).saturating_sub(passed);
            if ahead > i64::try_from(policy.tolerated_jump().as_millis()).unwrap_or(i64::MAX) {
                self.jumped = Some(now.boot);
            }
        }
        self.last = Some((now.boot, wall));
    }

    /// Whether a renewal that was sent then still proves anything.
    pub fn trusts(&self, sent: Duration) -> bool {
        self.jumped.is_none_or(|jumped| sent >= jumped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wall_clock_that_jumps_ahead_voids_earlier_renewals() {
        let secs = Duration::from_secs;
        let policy = Policy::new(secs(10), secs(2), secs(3), secs(28)).unwrap();
        let at = |boot, wall| Now {
            steady: Duration::ZERO,
            boot: secs(boot),
            wall: jiff::Timestamp::from_second(wall).unwrap(),
        };
        let mut clock = Clock::default();
        for now in [at(1, 1000), at(2, 1001), at(3, 1004), at(4, 500)] {
            clock.step(now, &policy);
        }
        assert!(clock.trusts(secs(0)), "2 s ahead are tolerated, and so is a clock that is set back");
        clock.step(at(5, 504), &policy);
        assert_eq!([4, 5].map(|sent| clock.trusts(secs(sent))), [false, true]);
    }
}
