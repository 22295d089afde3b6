//! The API server's clock, as the `Date` of its responses shows it.
//!
//! The bounds of the clock are kept relative to the monotonic clock. A wall clock that is wrong, or that is
//! set while the program runs, changes nothing once the first response is in. A `Date` is truncated to whole
//! seconds: the server's clock showed it, or less than a second more, between the request and its response.
//!
//! The tightest bounds of all responses are kept. So the estimate is behind by less than a second, and soon
//! by about the shortest time that a response takes. It is not ahead by more than the clocks drift meanwhile,
//! or, of several replicas of the API server, ahead of the one with the latest clock.

use std::time::Duration;

use framework_api::Time;
use jiff::{SignedDuration, Timestamp};

use framework_message::Now;

/// The interval at which timers are checked: the monotonic clock may stand still while the machine sleeps.
const LONGEST: Duration = Duration::from_secs(3600);
/// If the estimate moves by more than this, timers that were set by the old one come too late.
const JUMP: SignedDuration = SignedDuration::from_millis(100);
/// Replicas of the API server may differ by so much: one that is behind by no more does not set the clock
/// back ...
const SKEW: SignedDuration = SignedDuration::from_secs(3);
/// ... while another confirms the later time at least so often.
const CONFIRMED: Duration = Duration::from_secs(60);

/// The known bounds of the API server's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerTime {
    /// The bounds of its time at the zero of the monotonic clock.
    zero: Option<(Timestamp, Timestamp)>,
    /// When, on the monotonic clock, a response last agreed with these bounds.
    confirmed: Duration,
}

impl ServerTime {
    /// The response to a request that was sent at `sent` on the monotonic clock is received at `now`, and
    /// carries `date`. Returns whether timers are to be set again.
    pub fn heard(&mut self, date: Time, sent: Duration, now: Now) -> bool {
        let least = minus(date.timestamp(), now.steady);
        let most = minus(date.plus_seconds(1).timestamp(), sent);
        let Some((known_least, known_most)) = self.zero else {
            (self.zero, self.confirmed) = (Some((least, most)), now.steady);
            return true;
        };
        // A replica of the API server that is behind. If each reply set the clock forth and back, all timers
        // of all Frameworks would be set again and again.
        let is_behind = most < known_least && known_least.duration_since(most) <= SKEW;
        if is_behind && now.steady.saturating_sub(self.confirmed) < CONFIRMED {
            return false;
        }
        self.confirmed = now.steady;
        // Otherwise the clock was set, or is another server's, or the clocks have drifted apart.
        let agrees = known_least <= most && least <= known_most;
        self.zero = Some(if agrees { (known_least.max(least), known_most.min(most)) } else { (least, most) });
        least.duration_since(known_least) > JUMP
    }

    /// The API server answers without a `Date`: the local wall clock stands in for its clock. A decision that
    /// needs a `Date` still waits for one.
    pub fn give_up(&mut self, now: Now) {
        let zero = minus(now.wall, now.steady);
        self.zero.get_or_insert((zero, zero));
    }

    /// Whether the API server's time is known yet.
    pub fn is_known(&self) -> bool {
        self.zero.is_some()
    }

    /// The time of the API server's clock now, or a little less; the time of the wall clock as long as the
    /// API server's is not known.
    pub fn now(&self, now: Now) -> Timestamp {
        self.zero.map_or(now.wall, |(least, _)| plus(least, now.steady))
    }

    /// The latest time that the API server's clock may show now.
    pub fn latest(&self, now: Now) -> Timestamp {
        self.zero.map_or(now.wall, |(_, most)| plus(most, now.steady))
    }

    /// The moment `delay` from now on the API server's clock.
    pub fn after(&self, now: Now, delay: Duration) -> Timestamp {
        plus(self.now(now), delay)
    }

    /// When, on the monotonic clock, the API server's clock shows `at`; an hour from now if sooner.
    pub fn steady(&self, now: Now, at: Timestamp) -> Duration {
        after(now, self.now(now), at)
    }

    /// When, on the monotonic clock, the API server's clock may show `at`; an hour from now if sooner.
    pub fn earliest(&self, now: Now, at: Timestamp) -> Duration {
        after(now, self.latest(now), at)
    }
}

/// When a clock that shows `shown` now shows `at`.
fn after(now: Now, shown: Timestamp, at: Timestamp) -> Duration {
    let wait = Duration::try_from(at.duration_since(shown)).unwrap_or(Duration::ZERO);
    now.steady + wait.min(LONGEST)
}

fn plus(at: Timestamp, by: Duration) -> Timestamp {
    let by = SignedDuration::try_from(by).unwrap_or(SignedDuration::MAX);
    at.checked_add(by).unwrap_or(Timestamp::MAX)
}

fn minus(at: Timestamp, by: Duration) -> Timestamp {
    let by = SignedDuration::try_from(by).unwrap_or(SignedDuration::MAX);
    at.checked_sub(by).unwrap_or(Timestamp::MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3600;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// `steady` ms after the start, on a machine whose wall clock shows `wall` s.
    fn at(steady: u64, wall: i64) -> Now {
        Now { steady: ms(steady), boot: ms(steady), wall: Timestamp::from_second(wall).unwrap() }
    }

    fn date(second: i64) -> Time {
        Time::floor(Timestamp::from_second(second).unwrap())
    }

    #[test]
    fn the_wall_clock_serves_until_the_api_server_sends_a_date() {
        let mut time = ServerTime::default();
        assert!(!time.is_known());
        assert_eq!(time.now(at(5, 100)), at(5, 100).wall);
        assert!(time.heard(date(200), ms(5), at(5, 100)), "timers are set again");
        assert_eq!(time.now(at(5, 100)), date(200).timestamp());
    }

    #[test]
    fn a_wall_clock_that_is_set_changes_nothing() {
        for wall in [-HOUR, HOUR] {
            let mut time = ServerTime::default();
            time.heard(date(200), ms(0), at(0, 200));
            let later = Now { steady: ms(10_000), ..at(0, 210 + wall) };
            assert_eq!(time.now(later), date(210).timestamp());
        }
    }

    /// The server's clock shows 100.3 s when ours starts; requests take 20 ms there and 20 ms back.
    #[test]
    fn many_responses_narrow_it_to_the_travel_time_and_never_ahead() {
        let mut time = ServerTime::default();
        for sent in (0..3000).step_by(70) {
            let server = 100_300 + sent + 20;
            time.heard(date(i64::try_from(server / 1000).unwrap()), ms(sent), at(sent + 40, 0));
            let now = time.now(at(sent + 40, 0)).as_millisecond();
            let real = i64::try_from(100_300 + sent + 40).unwrap();
            assert!(now <= real, "{now} is ahead of {real}");
            assert!(now > real - 1000, "{now}, at {real}");
            let latest = time.latest(at(sent + 40, 0)).as_millisecond();
            assert!((real..=real + 1040).contains(&latest), "{latest}, at {real}");
        }
        let behind = 100_300 + 3000 - time.now(at(3000, 0)).as_millisecond();
        assert!((0..=90).contains(&behind), "{behind} ms behind");
        let ahead = time.latest(at(3000, 0)).as_millisecond() - 100_300 - 3000;
        assert!((0..=90).contains(&ahead), "{ahead} ms ahead");
    }

    #[test]
    fn a_clock_that_jumps_is_followed_and_timers_hear_of_it_if_they_are_late() {
        let mut time = ServerTime::default();
        time.heard(date(1000), ms(0), at(0, 0));
        assert!(!time.heard(date(1060), ms(59_990), at(60_000, 0)), "it goes as ours");
        assert!(time.heard(date(1100), ms(59_990), at(60_000, 0)), "forward");
        assert_eq!(time.now(at(60_000, 0)), date(1100).timestamp());
        assert!(!time.heard(date(500), ms(59_990), at(60_000, 0)), "back: timers come early and ask again");
        assert_eq!(time.now(at(60_000, 0)), date(500).timestamp());
    }

    #[test]
    fn replicas_whose_clocks_differ_set_no_timers_again_and_again() {
        for skew in [100, 300, 700, 1200, 2000] {
            let mut time = ServerTime::default();
            let mut jumps = 0;
            // Replies of two replicas in turn, 14 a second for five minutes.
            for (number, sent) in (0_u64..300_000).step_by(70).enumerate() {
                let server = 100_300 + sent + 20 + if number % 2 == 0 { 0 } else { skew };
                let date = date(i64::try_from(server / 1000).unwrap());
                jumps += usize::from(time.heard(date, ms(sent), at(sent + 40, 0)));
                let ahead = time.now(at(sent + 40, 0)).as_millisecond() - i64::try_from(server).unwrap();
                assert!(ahead <= 20 + i64::try_from(skew).unwrap(), "{ahead} ms ahead of this replica");
            }
            assert!(jumps <= 20, "{jumps} jumps for {skew} ms");
        }
    }

    #[test]
    fn a_clock_that_is_set_back_a_little_is_followed_after_a_minute() {
        let mut time = ServerTime::default();
        time.heard(date(1000), ms(0), at(0, 0));
        assert!(!time.heard(date(1028), ms(29_990), at(30_000, 0)), "a replica that is behind");
        assert_eq!(time.now(at(30_000, 0)), date(1030).timestamp());
        time.heard(date(1058), ms(59_990), at(60_000, 0));
        assert_eq!(time.now(at(60_000, 0)), date(1058).timestamp(), "none is ahead any more");
    }

    #[test]
    fn wakes_are_on_the_steady_clock_and_not_too_far() {
        let mut time = ServerTime::default();
        time.heard(date(100), ms(7000), at(7000, 0));
        let now = at(7000, 0);
        assert_eq!(time.steady(now, date(103).timestamp()), ms(10_000));
        assert_eq!(time.steady(now, date(90).timestamp()), ms(7000));
        assert_eq!(time.steady(now, Timestamp::MAX), ms(7000) + LONGEST);
        assert_eq!(time.earliest(now, date(103).timestamp()), ms(9000), "it may be a second later there");
    }
}
