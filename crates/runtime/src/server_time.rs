//! The API server's clock, as its responses tell it.

use std::time::Duration;

use framework_api::Time;
use jiff::{SignedDuration, Timestamp};

use crate::event::Now;

/// Clocks that differ by less are taken for equal: a `Date` header has whole seconds, and travels.
const TOLERANCE: SignedDuration = SignedDuration::from_secs(1);

/// What is known of the API server's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct ServerTime {
    offset: SignedDuration,
}

impl ServerTime {
    /// A response received at `now` carries `date`.
    pub fn heard(&mut self, date: Time, now: Now) {
        // The second that the header speaks of lasts until its end.
        let behind = now.wall.duration_since(date.timestamp());
        let differs = behind < -TOLERANCE || behind > TOLERANCE + SignedDuration::from_secs(1);
        self.offset = if differs { -behind } else { SignedDuration::ZERO };
    }

    /// The wall clock, corrected to the API server's.
    pub fn now(&self, now: Now) -> Timestamp {
        now.wall.checked_add(self.offset).unwrap_or(now.wall)
    }

    /// The moment `delay` from now on the corrected wall clock.
    pub fn after(&self, now: Now, delay: Duration) -> Timestamp {
        let delay = SignedDuration::try_from(delay).unwrap_or(SignedDuration::MAX);
        self.now(now).checked_add(delay).unwrap_or(Timestamp::MAX)
    }

    /// When, on the steady clock, the corrected wall clock shows `at`. An hour at most: the wall may be set.
    pub fn steady(&self, now: Now, at: Timestamp) -> Duration {
        const LONGEST: Duration = Duration::from_secs(3600);
        let wait = Duration::try_from(at.duration_since(self.now(now))).unwrap_or(Duration::ZERO);
        now.steady + wait.min(LONGEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64, millisecond: i64) -> Now {
        let wall = Timestamp::from_millisecond(second * 1000 + millisecond).unwrap();
        Now { steady: Duration::from_secs(7), wall }
    }

    fn date(second: i64) -> Time {
        Time::floor(Timestamp::from_second(second).unwrap())
    }

    #[test]
    fn clocks_that_agree_are_not_corrected() {
        let mut time = ServerTime::default();
        for second in [99, 100, 101] {
            time.heard(date(second), at(100, 700));
            assert_eq!(time.now(at(100, 0)), at(100, 0).wall, "{second}");
        }
    }

    #[test]
    fn a_clock_that_is_wrong_is_corrected() {
        for (local, server) in [(100, 160), (160, 100)] {
            let mut time = ServerTime::default();
            time.heard(date(server), at(local, 0));
            assert_eq!(time.now(at(local + 10, 0)), at(server + 10, 0).wall);
        }
    }

    #[test]
    fn wakes_are_on_the_steady_clock_and_not_too_far() {
        let time = ServerTime::default();
        let now = at(100, 0);
        assert_eq!(time.steady(now, at(103, 0).wall), Duration::from_secs(10));
        assert_eq!(time.steady(now, at(90, 0).wall), Duration::from_secs(7));
        assert_eq!(time.steady(now, Timestamp::MAX), Duration::from_secs(7 + 3600));
    }
}
