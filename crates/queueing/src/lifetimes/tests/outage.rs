//! An API server that is down for an hour around the end of a job: the end comes late, once, and never early.

use std::ops::Range;

use super::*;

/// In milliseconds, as all times here.
const HOUR: i64 = 3_600_000;
/// The job ends so soon after an outage: the longest pause between two tries, and one between two writes.
const SOON: i64 = 62_000;

/// The outcome of a request during an outage.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Failure {
    NotSent,
    Refused,
    RequestLost,
    /// It has its effect, of which nothing is known.
    ReplyLost,
}

/// The stored TrainJob, the end of its JobSet, and the accepted writes with their times.
struct Server {
    job: Facts,
    /// The version that the watch showed last.
    shown: u128,
    set: ChildEnd,
    accepted: Vec<(i64, &'static str)>,
    down: Range<i64>,
    failure: Failure,
    /// Whether reads are answered during the outage.
    reads: bool,
    /// Whether a request for the time has no answer yet.
    asked: bool,
}

impl Server {
    /// Lets the time pass to the next half of a second.
    fn pass(&mut self, world: &mut World, time: i64) {
        world.time = time;
        world.turn();
        self.asked |= world.lifetimes.asks();
        let tells_time = self.reads || time <= self.down.start || time >= self.down.end;
        if self.asked && tells_time {
            self.asked = false;
            world.lifetimes.heard(world.now().steady, Time::floor(world.time()));
        }
        while let Some((ticket, request)) = world.next() {
            assert!(time < self.down.end + 2 * SOON, "it goes on: {request:?}");
            let reply = self.answer(time, &request);
            world.reply(ticket, reply);
        }
        if !self.down.contains(&time) && self.shown != self.job.version {
            self.shown = self.job.version;
            world.shows(self.job);
        }
    }

    fn answer(&mut self, time: i64, request: &QueueRequest) -> Reply {
        if !self.down.contains(&time) || self.reads && is_look(request) {
            return self.store(time, request);
        }
        match self.failure {
            Failure::NotSent => Reply::NotSent("no route".to_owned()),
            Failure::Refused => refused(503),
            Failure::RequestLost => Reply::Unknown("lost".to_owned()),
            Failure::ReplyLost => {
                self.store(time, request);
                Reply::Unknown("lost".to_owned())
            }
        }
    }

    /// Accepts a write of the stored version.
    fn store(&mut self, time: i64, request: &QueueRequest) -> Reply {
        let job = &mut self.job;
        let write = match request {
            QueueRequest::DeleteJob { resource_version, .. } if *resource_version == job.version => {
                *job = Facts { version: job.version + 1, deleting: true, ..*job };
                "deletes the TrainJob"
            }
            QueueRequest::Fail { row: None, condition, .. } if self.set == ChildEnd::None => {
                self.set = ChildEnd::Deadline(condition.clone());
                "fails the JobSet"
            }
            QueueRequest::Fail { row: Some(_), resource_version, condition, .. }
                if *resource_version == job.version =>
            {
                let finished = condition.at.unix() - at(0).unix();
                let version = job.version + 1;
                *job = Facts { version, finished: Some(finished), overdue: true, ..*job };
                "fails the TrainJob"
            }
            QueueRequest::GetChild { .. } => return child(self.set.clone(), "uid"),
            _ => return refused(409),
        };
        self.accepted.push((time, write));
        Reply::Done
    }
}

/// Each kind of outage that begins before an end is due, or as it is due: the writes that are accepted are
/// these, each once.
#[track_caller]
fn ends_late_and_once(job: Facts, due: i64, writes: &[&str]) {
    for failure in [Failure::NotSent, Failure::Refused, Failure::RequestLost, Failure::ReplyLost] {
        for (from, reads) in [(due / 2, false), (due / 2, true), (due, false)] {
            let outage = format!("{failure:?} from {from}, reads: {reads}");
            let (shown, set, accepted) = (job.version, ChildEnd::None, Vec::new());
            let down = from..from + HOUR;
            let mut server = Server { job, shown, set, accepted, down, failure, reads, asked: false };
            let mut world = World::new(job);
            (0..2 * HOUR).step_by(500).for_each(|time| server.pass(&mut world, time));
            let accepted: Vec<_> = server.accepted.iter().map(|(_, write)| *write).collect();
            assert_eq!(accepted, writes, "{outage}");
            let earliest = if failure == Failure::ReplyLost { due } else { from + HOUR };
            let in_time = |(time, _): &(i64, _)| (earliest..=from + HOUR + SOON).contains(time);
            assert!(server.accepted.iter().all(in_time), "{outage}: {:?}", server.accepted);
            let (deadlines, deletions): (Vec<_>, Vec<_>) =
                world.measures().into_iter().partition(|one| *one == LifetimeMeasure::DeadlineExceeded);
            assert!(deadlines.len() <= 1 && deletions.len() <= 1, "{outage}: {:?}", world.measures());
        }
    }
}

#[test]
fn an_outage_of_an_hour_delays_a_deletion_and_one_is_accepted() {
    let job = Facts { version: 7, finished: Some(10), ttl: Some(50), ..Facts::default() };
    ends_late_and_once(job, 60_000, &["deletes the TrainJob"]);
}

#[test]
fn an_outage_of_an_hour_delays_a_deadline_which_is_stored_once() {
    let job = Facts { version: 7, deadline: Some(30), ..Facts::default() };
    ends_late_and_once(job, 30_000, &["fails the JobSet", "fails the TrainJob"]);
}

#[test]
fn an_outage_of_an_hour_delays_both_ends_of_a_job_in_their_order() {
    let job = Facts { version: 7, deadline: Some(30), ttl: Some(0), ..Facts::default() };
    ends_late_and_once(job, 30_000, &["fails the JobSet", "fails the TrainJob", "deletes the TrainJob"]);
}
