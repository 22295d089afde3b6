//! How long changes of a status gather before it is written.

use std::time::Duration;

use framework_core::Urgency;

/// How long changes gather before they are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    /// The window if an act waits for the write and more Tasks are likely to join.
    pub gather: Duration,
    /// The window if nothing waits for the write.
    pub record: Duration,
    /// The most bytes of a status that are written a second, as they are stored.
    pub bytes_per_second: u64,
    /// The most Tasks of a status that are written a second, however few bytes they are stored in.
    pub tasks_per_second: u64,
}

/// How much a status costs to write: the API server its bytes, and this controller its Tasks.
#[derive(Clone, Copy, Debug, Default)]
pub struct StatusSize {
    /// As it is stored, maybe compressed.
    pub bytes: usize,
    /// Each is rendered, and maybe compressed, for every write.
    pub tasks: usize,
}

/// Changes gather for at most this many windows, even if events continue.
const LONGEST: u32 = 5;
/// The least length of a window, in round trips of a status write. An API server that is slow to answer is
/// busy, and Pods start one after another there. A write for each few of them would make it busier.
const ROUND_TRIPS: u32 = 4;
/// A status that costs less is written whenever its changes have gathered: 30 KiB, or 300 Tasks.
const SHORTEST: Duration = Duration::from_millis(30);
/// Longer round trips do not lengthen the windows further.
const SLOWEST: Duration = Duration::from_millis(500);

impl Windows {
    /// The same windows, stretched for status writes that take this long.
    pub fn stretched(mut self, round_trip: Duration) -> Self {
        let least = round_trip.min(SLOWEST) * ROUND_TRIPS;
        self.gather = self.gather.max(least);
        self.record = self.record.max(least);
        self
    }

    /// When the changes between `first` and `last` have gathered.
    pub fn gathered(&self, urgency: Urgency, first: Duration, last: Duration) -> Duration {
        let window = self.of(urgency);
        (last + window).min(first + window * LONGEST)
    }

    fn of(&self, urgency: Urgency) -> Duration {
        match urgency {
            Urgency::Now => Duration::ZERO,
            Urgency::Gather => self.gather,
            Urgency::Record => self.record,
        }
    }

    /// The least time between writes of a status of this size. A large one is written less often, so that the
    /// bytes and Tasks written stay linear in the number of Tasks.
    pub fn between(&self, size: StatusSize) -> Duration {
        let time = |amount: usize, per_second: u64| {
            let amount = u64::try_from(amount).unwrap_or(u64::MAX);
            Duration::from_micros(amount.saturating_mul(1_000_000) / per_second.max(1))
        };
        let time = time(size.bytes, self.bytes_per_second).max(time(size.tasks, self.tasks_per_second));
        if time < SHORTEST { Duration::ZERO } else { time }
    }
}

/// The windows, and how fast the API server takes status writes.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    windows: Windows,
    /// How long a status write takes, smoothed.
    round_trip: Duration,
}

impl Pace {
    /// These windows, as long as no status write has shown that the API server is slow.
    pub fn new(windows: Windows) -> Self {
        Pace { windows, round_trip: Duration::ZERO }
    }

    /// Records the duration of a status write.
    pub fn took(&mut self, time: Duration) {
        // An eighth of the difference: a single slow write has little effect.
        self.round_trip = (self.round_trip * 7 + time) / 8;
    }

    /// The current windows.
    pub fn windows(&self) -> Windows {
        self.windows.stretched(self.round_trip)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn windows_grow_with_the_time_that_status_writes_take() {
        let windows = Windows { gather: ms(100), record: ms(250), bytes_per_second: 1, tasks_per_second: 1 };
        let mut pace = Pace::new(windows);
        pace.took(ms(100));
        assert_eq!(pace.windows().gather, ms(100), "a single slow one says little");
        (0..100).for_each(|_| pace.took(ms(100)));
        let windows = pace.windows();
        assert!(windows.gather > ms(380) && windows.record == windows.gather, "{windows:?}");
        (0..100).for_each(|_| pace.took(ms(60_000)));
        assert_eq!(pace.windows().record, ms(2000), "and no further");
    }
}
