//! The times that the protocol waits for, all computed from the duration of a Lease.
//!
//! A holder stops 0.8 durations after it *sent* its last successful renewal; another replica frees its slots
//! 1.2 durations after it last *saw* the Lease change. Both count on their own clocks, so a clock may run up
//! to a fifth faster or slower than another one before the two times meet.

use std::time::Duration;

use framework_message::Now;
use framework_message::timeout::LANDS_WITHIN;

use crate::defect::{Defect, Defects};

/// The longest duration of a Lease. One that names more was edited by hand.
pub const LONGEST_LEASE: Duration = Duration::from_secs(3600);

/// The settings of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Policy {
    /// The duration of a Lease.
    pub duration: Duration,
    /// The time between two renewals.
    pub interval: Duration,
    /// The longest wait for the reply to a renewal.
    pub timeout: Duration,
    /// The longest life of a request, from its sending. A hold is shorter: it begins when the right to send
    /// is over.
    pub request_lifetime: Duration,
    /// Nothing is moved to a member before it has been seen for this time. A member that leaves meanwhile
    /// hands over to it, so a replacement within that time moves each slot once.
    pub settle: Duration,
    /// The rules that a test switched off.
    pub defects: Defects,
}

/// Settings that contradict each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// Renewals would come too late.
    #[error(
        "a renewal every {interval:?} and two time-outs of {timeout:?} take longer than 0.8 of the Lease's \
         {duration:?}: one lost renewal would stop the replica"
    )]
    RenewsTooLate {
        /// The duration of a Lease.
        duration: Duration,
        /// The time between two renewals.
        interval: Duration,
        /// The longest wait for the reply to a renewal.
        timeout: Duration,
    },
}

impl Policy {
    /// Settings for this duration and interval, if one renewal may be lost without consequence.
    pub fn new(
        duration: Duration,
        interval: Duration,
        timeout: Duration,
        request_lifetime: Duration,
    ) -> Result<Self, PolicyError> {
        let settle = duration / 2;
        let policy = Policy { duration, interval, timeout, request_lifetime, settle, defects: Defects::NONE };
        match interval.saturating_add(timeout.saturating_mul(2)) <= policy.validity() {
            true if !interval.is_zero() => Ok(policy),
            _ => Err(PolicyError::RenewsTooLate { duration, interval, timeout }),
        }
    }

    /// How long a renewal permits its sender to act, from sending it.
    pub fn validity(&self) -> Duration {
        fifths(self.duration, 4)
    }

    /// How long a Lease of `duration` must be seen unchanged before it is emptied.
    pub fn expiry(&self, duration: Duration) -> Duration {
        if self.defects.has(Defect::TakeOverAtOnce) { duration / 4 } else { expiry(duration) }
    }

    /// How far the wall clock may jump ahead of the clock that counts suspension.
    pub fn tolerated_jump(&self) -> Duration {
        fifths(self.duration, 1)
    }

    /// How long a read of the map permits its reader to act, from sending it.
    pub fn map_validity(&self) -> Duration {
        fifths(self.duration, 8)
    }

    /// How long the map must be seen absent before it is made again.
    pub fn map_absence(&self, duration: Duration) -> Duration {
        fifths(duration, 12)
    }

    /// How long a member waits for the leader's first plan with it, before some slots may be its whole share.
    /// Slots of one that leaves or is gone may come to it sooner.
    pub fn first_plan(&self) -> Duration {
        self.settle.saturating_add(self.interval)
    }

    /// How long a member waits for its share of the slots before it counts as ready without it. A leader that
    /// died is replaced after 1.2 D, and moves slots to a new member D/2 later. An owner that hands nothing
    /// over is emptied after 2 M + D, and its slots are seized 1.2 D later. At most 5 minutes, since a
    /// Deployment counts a rollout as failed after 10.
    pub fn share_patience(&self) -> Duration {
        let waits = self.request_lifetime.saturating_mul(2).saturating_add(self.duration.saturating_mul(4));
        waits.min(Duration::from_secs(300))
    }

    /// The clock by which a member's own right to act ends.
    pub fn clock(&self, now: Now) -> Duration {
        if self.defects.has(Defect::WallClock) {
            Duration::from_millis(u64::try_from(now.wall.as_millisecond()).unwrap_or(0))
        } else {
            now.boot
        }
    }
}

/// How long a Lease of `duration` must be seen unchanged before its holder counts as gone.
pub fn expiry(duration: Duration) -> Duration {
    fifths(duration, 6)
}

/// How long the owner of a slot that was seized sends no create that the stored status already permitted. No
/// connection takes a request of an owner whose right has ended. One fifth more than such a request may take
/// to land, since its sender and the server may measure that on slower clocks.
pub fn hold() -> Duration {
    fifths(LANDS_WITHIN, 6)
}

fn fifths(whole: Duration, count: u32) -> Duration {
    whole.saturating_mul(count) / 5
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_policy_is_refused_if_one_lost_renewal_would_stop_the_replica() {
        assert!(Policy::new(secs(10), secs(2), secs(3), secs(28)).is_ok());
        let error = Policy::new(secs(10), secs(3), secs(3), secs(28)).unwrap_err().to_string();
        assert!(error.contains("every 3s") && error.contains("10s"), "{error}");
        assert!(Policy::new(secs(10), secs(0), secs(3), secs(28)).is_err());
    }

    #[test]
    fn clocks_that_differ_by_a_tenth_either_way_leave_a_margin() {
        let policy = Policy::new(secs(10), secs(2), secs(3), secs(28)).unwrap();
        // The holder's clock is slow: its time lasts longer. The clock of the replica that waits is fast.
        let holder_stops = policy.validity().mul_f64(1.0 / 0.9);
        let freed = policy.expiry(policy.duration).mul_f64(1.0 / 1.1);
        assert!(holder_stops + secs(2) < freed, "{holder_stops:?} {freed:?}");
        assert!(policy.map_validity().mul_f64(1.0 / 0.9) < policy.map_absence(secs(10)).mul_f64(1.0 / 1.1));
        assert_eq!(hold(), Duration::from_millis(19_200), "as the documents say");
        assert!(hold().mul_f64(1.0 / 1.1) > LANDS_WITHIN);
    }

    #[test]
    fn a_share_is_waited_for_until_dead_leaders_and_stuck_owners_are_gone() {
        let policy = Policy::new(secs(10), secs(2), secs(3), secs(28)).unwrap();
        let expiry = policy.expiry(policy.duration);
        let evicted = policy.request_lifetime * 2 + policy.duration + expiry;
        assert!(policy.share_patience() > expiry + policy.settle + evicted);
        assert_eq!(policy.share_patience(), secs(96), "as the documents say");
        let long = Policy::new(secs(100), secs(20), secs(3), secs(28)).unwrap();
        assert_eq!(long.share_patience(), secs(300), "a Deployment waits for ten minutes");
    }

    /// The clock of the sender is a tenth slow: its requests land later. That of the next owner is a tenth
    /// fast: it holds for less. The hold alone misses this by a third of a second. It begins only after the
    /// time between the end of the sender's right and the seizure, and with this time it suffices.
    #[test]
    fn a_hold_on_a_fast_clock_covers_the_requests_of_a_slow_one() {
        let (slow, fast) = (1.0 / 0.9, 1.0 / 1.1);
        // The shortest duration that a user may set leaves the least time.
        for duration in [4, 10, 3600].map(secs) {
            let policy = Policy::new(duration, secs(1), secs(1), secs(28)).unwrap();
            assert!(hold().mul_f64(fast) < LANDS_WITHIN.mul_f64(slow), "the hold alone suffices");
            let ways = [
                ("from the last renewal", policy.validity(), policy.expiry(duration)),
                ("from the last read of the map", policy.map_validity(), policy.map_absence(duration)),
            ];
            for (from, stops, freed) in ways {
                let landed = (stops + LANDS_WITHIN).mul_f64(slow);
                let held = (freed + hold()).mul_f64(fast);
                assert!(landed < held, "{from}: {landed:?}, held until {held:?}, with {duration:?}");
            }
        }
    }
}
