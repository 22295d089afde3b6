//! When a Framework is to be evaluated: after events, and at the times that its last plan named.

use std::time::Duration;

use framework_api::Time;
use framework_message::Now;
use jiff::Timestamp;

use crate::server_time::ServerTime;

/// When one Framework is to be evaluated.
#[derive(Debug, Default)]
pub struct Schedule {
    /// The time of the oldest event that waits for an evaluation.
    dirty: Option<Duration>,
    /// The earliest time of the next evaluation: bursts are not evaluated event by event.
    not_before: Duration,
    /// When the changes that gather are to be written, on the monotonic clock.
    write_due: Option<Duration>,
    /// When a write of an earlier owner can land no more, on the monotonic clock.
    settles_at: Option<Duration>,
    /// When the last plan is to be reviewed, on the API server's clock.
    due: Option<Timestamp>,
    /// When a `Date` is to be fetched for it, on the API server's clock.
    proof_due: Option<Time>,
    /// The `Date` that it was waiting for, until the next evaluation. A later time needs a new `Date`,
    /// because the API server's clock may have been set back meanwhile.
    server_time: Option<Time>,
    /// The latest `Date` of these.
    server_date: Option<Time>,
}

impl Schedule {
    /// The Framework is to be evaluated.
    pub fn mark_dirty(&mut self, now: Duration) {
        self.dirty.get_or_insert(now);
    }

    /// A write of ours is persisted: it permits acts, and they do not wait for the rest to end. Writes have a
    /// least time between them, too.
    pub fn wrote(&mut self, now: Duration) {
        self.not_before = now;
        self.mark_dirty(now);
    }

    /// A plan, or a write that replaces it, covers all events so far.
    pub fn clear_dirty(&mut self) {
        self.dirty = None;
    }

    /// The time of the oldest event that waits for an evaluation.
    pub fn dirty_since(&self) -> Option<Duration> {
        self.dirty
    }

    /// Whether the Framework is to be evaluated by now.
    pub fn is_due(&self, now: Now, time: &ServerTime) -> bool {
        self.dirty.is_some() && self.not_before <= now.steady
            || self.write_due.iter().chain(&self.settles_at).any(|at| *at <= now.steady)
            || self.due.is_some_and(|due| due <= time.now(now))
    }

    /// When the Framework is to be evaluated, or a `Date` is to be fetched for it.
    pub fn next(&self, now: Now, time: &ServerTime) -> Option<Duration> {
        let dirty = self.dirty.map(|since| self.not_before.max(since));
        let due = self.due.map(|due| time.steady(now, due));
        let proof = self.proof_due.map(|due| time.earliest(now, due.timestamp()));
        [dirty, self.write_due, self.settles_at, due, proof].into_iter().flatten().min()
    }

    /// Drops every reason for an evaluation: only a new event adds one.
    pub fn forget(&mut self) {
        self.dirty = None;
        (self.write_due, self.settles_at) = (None, None);
        (self.due, self.proof_due) = (None, None);
    }

    /// The Framework was evaluated, and is not evaluated again for `rest`. Its plan is to be reviewed at
    /// `due`, and needs a `Date` of at least `proof_due`, both on the API server's clock.
    pub fn planned(
        &mut self,
        now: Duration,
        rest: Duration,
        due: Option<Timestamp>,
        proof_due: Option<Time>,
    ) {
        self.dirty = None;
        self.server_time = None;
        self.not_before = now + rest;
        (self.write_due, self.settles_at) = (None, None);
        (self.due, self.proof_due) = (due, proof_due);
    }

    /// The changes that gather are to be written at that time, on the monotonic clock. It replaces the time
    /// before: with each change they may gather longer.
    pub fn write_at(&mut self, at: Duration) {
        self.write_due = Some(at);
    }

    /// A write of an earlier owner can land no more from that time on, on the monotonic clock: acts wait for
    /// it.
    pub fn settle_at(&mut self, at: Duration) {
        self.settles_at = Some(at);
    }

    /// Whether a `Date` is to be fetched now that the API server's clock may show `latest`. Returns `true`
    /// once.
    pub fn take_proof(&mut self, latest: Timestamp) -> bool {
        self.proof_due.take_if(|due| due.timestamp() <= latest).is_some()
    }

    /// The `Date` that was fetched for it.
    pub fn heard(&mut self, date: Option<Time>) {
        self.server_time = date;
        self.server_date = self.server_date.max(date);
    }

    /// The `Date` that was fetched since the last evaluation.
    pub fn server_time(&self) -> Option<Time> {
        self.server_time
    }

    /// The latest `Date` that was ever fetched for it.
    pub fn server_date(&self) -> Option<Time> {
        self.server_date
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn at(steady: u64) -> Now {
        let wall = Timestamp::UNIX_EPOCH + jiff::SignedDuration::from_millis(steady.try_into().unwrap());
        Now { steady: ms(steady), boot: ms(steady), wall }
    }

    fn second(second: i64) -> Time {
        Time::floor(Timestamp::UNIX_EPOCH).plus_seconds(second)
    }

    #[test]
    fn the_first_of_many_events_says_how_long_they_have_waited() {
        let (mut schedule, time) = (Schedule::default(), ServerTime::default());
        assert_eq!(schedule.next(at(0), &time), None);
        schedule.mark_dirty(ms(5));
        schedule.mark_dirty(ms(9));
        assert_eq!((schedule.dirty_since(), schedule.next(at(9), &time)), (Some(ms(5)), Some(ms(5))));
        schedule.clear_dirty();
        assert!(!schedule.is_due(at(9), &time));
    }

    #[test]
    fn an_evaluated_framework_rests_and_then_follows_its_plan() {
        let (mut schedule, time) = (Schedule::default(), ServerTime::default());
        schedule.mark_dirty(ms(0));
        schedule.planned(ms(0), ms(50), Some(second(2).timestamp()), None);
        assert_eq!(schedule.next(at(0), &time), Some(ms(2000)));
        schedule.mark_dirty(ms(1));
        assert!(!schedule.is_due(at(49), &time) && schedule.is_due(at(50), &time));
        assert_eq!(schedule.next(at(1), &time), Some(ms(50)));
        schedule.planned(ms(50), ms(50), None, None);
        schedule.wrote(ms(60));
        assert!(schedule.is_due(at(60), &time), "the write permits acts");
        schedule.planned(ms(60), ms(0), None, None);
        schedule.write_at(ms(70));
        assert!(!schedule.is_due(at(69), &time) && schedule.is_due(at(70), &time));
        schedule.forget();
        assert_eq!(schedule.next(at(70), &time), None);
    }

    #[test]
    fn changes_that_gather_longer_hide_no_other_time() {
        let (mut schedule, time) = (Schedule::default(), ServerTime::default());
        schedule.planned(ms(0), ms(0), Some(second(2).timestamp()), None);
        schedule.settle_at(ms(65));
        schedule.write_at(ms(60));
        schedule.write_at(ms(70));
        assert!(!schedule.is_due(at(64), &time) && schedule.is_due(at(65), &time));
        assert_eq!(schedule.next(at(0), &time), Some(ms(65)));
        schedule.planned(ms(65), ms(0), None, None);
        assert_eq!(schedule.next(at(65), &time), None, "the next plan names its own times");
    }

    #[test]
    fn a_date_is_fetched_once_and_serves_one_evaluation() {
        let mut schedule = Schedule::default();
        schedule.planned(ms(0), ms(0), None, Some(second(5)));
        assert!(!schedule.take_proof(second(4).timestamp()));
        assert!(schedule.take_proof(second(5).timestamp()));
        assert!(!schedule.take_proof(second(9).timestamp()));
        schedule.heard(Some(second(6)));
        assert_eq!(schedule.server_time(), Some(second(6)));
        schedule.planned(ms(0), ms(0), None, None);
        schedule.heard(Some(second(3)));
        assert_eq!((schedule.server_time(), schedule.server_date()), (Some(second(3)), Some(second(6))));
    }
}
