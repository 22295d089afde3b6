//! What becomes of the jobs of a run, as a watch tells it.
//!
//! Times are those at which events arrive here, not those in the objects, which have whole seconds. Each job
//! is timed from the moment at which the scenario wants it created: a system that makes its users wait does
//! not look faster for it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio::sync::oneshot;

use crate::partial_status::{Observation, Phase};
use crate::report::{Latency, Series};

/// One job of the run.
#[derive(Debug)]
struct TrackedJob {
    group: String,
    wanted: Instant,
    /// When the deadline passes, or the Framework expires.
    due: Option<Timestamp>,
    seen: BTreeMap<Phase, Instant>,
    /// When its end by a deadline, or its deletion, arrived.
    acted: Option<Timestamp>,
    outcome: Option<&'static str>,
    /// The resourceVersions with which it came to run, and went.
    quota_period: QuotaPeriod,
    /// Notified once it runs.
    on_running: Option<oneshot::Sender<()>>,
}

/// Between which resourceVersions a QueueUnit held what it asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuotaPeriod {
    /// The release.
    pub from: Option<u64>,
    /// The deletion.
    pub until: Option<u64>,
}

/// What became of all jobs so far.
#[derive(Debug, Default)]
pub struct Tracker {
    jobs: BTreeMap<String, TrackedJob>,
    /// Phases that were reached, in the order of their arrival, for the plots.
    arrivals: Vec<(Instant, Phase)>,
    names: PhaseNames,
    /// The watch began anew, so that changes may have been missed.
    gaps: bool,
}

/// What phases and the steps between them are called.
#[derive(Clone, Copy, Debug)]
pub struct PhaseNames {
    /// How long it took, for those that made it.
    transitions: &'static [(&'static str, Option<Phase>, Phase)],
    /// How many are there.
    pub counted: &'static [(&'static str, Phase)],
    /// How long those took that came there in each second.
    timed: &'static [(&'static str, Phase)],
}

impl Default for PhaseNames {
    fn default() -> Self {
        JOBS
    }
}

const RUNNING: &str = "creation → first Task running";

/// Of jobs with Tasks.
pub const JOBS: PhaseNames = PhaseNames {
    transitions: &[
        ("creation → stored", None, Phase::Stored),
        ("creation → accepted", None, Phase::Accepted),
        ("creation → preparing", None, Phase::Preparing),
        (RUNNING, None, Phase::Running),
        ("creation → completed", None, Phase::Completed),
        ("first Task running → ended", Some(Phase::Running), Phase::Ended),
        ("ended → completed", Some(Phase::Ended), Phase::Completed),
    ],
    counted: &[
        ("stored", Phase::Stored),
        ("first Task running", Phase::Running),
        ("completed", Phase::Completed),
        ("deleted", Phase::Deleted),
    ],
    timed: &[(RUNNING, Phase::Running), ("creation → completed", Phase::Completed)],
};

/// Of QueueUnits.
pub const UNITS: PhaseNames = PhaseNames {
    transitions: &[
        ("creation → stored", None, Phase::Stored),
        ("creation → Enqueued", None, Phase::Accepted),
        ("creation → Dequeued", None, Phase::Running),
        ("Enqueued → Dequeued", Some(Phase::Accepted), Phase::Running),
        ("Dequeued → gone", Some(Phase::Running), Phase::Deleted),
    ],
    counted: &[
        ("stored", Phase::Stored),
        ("Enqueued", Phase::Accepted),
        ("Dequeued", Phase::Running),
        ("gone", Phase::Deleted),
    ],
    timed: &[("creation → Enqueued", Phase::Accepted), ("creation → Dequeued", Phase::Running)],
};
/// The name of that for the deadline.
pub const DEADLINE_LATENCY: &str = "deadline → exceeded";
/// The name of that for the expiry.
pub const EXPIRY_LATENCY: &str = "expiry → deletion";

impl Tracker {
    /// Of nothing, which calls phases so.
    pub fn new(names: PhaseNames) -> Self {
        Tracker { names, ..Tracker::default() }
    }

    /// A job is to be created at `wanted`.
    pub fn expect(&mut self, name: String, group: &str, wanted: Instant) {
        let (due, seen, acted, outcome, quota_period, on_running) = Default::default();
        let group = group.to_owned();
        self.jobs
            .insert(name, TrackedJob { group, wanted, due, seen, acted, outcome, quota_period, on_running });
    }

    /// Waits until a job runs: the other end hears of it once.
    pub fn runs(&mut self, name: &str) -> oneshot::Receiver<()> {
        let (sender, receiver) = oneshot::channel();
        if let Some(job) = self.jobs.get_mut(name) {
            if job.seen.contains_key(&Phase::Running) {
                // An error means that the receiver was dropped.
                let _ = sender.send(());
            } else {
                job.on_running = Some(sender);
            }
        }
        receiver
    }

    /// Changes may have been missed.
    pub fn has_gaps(&mut self) {
        self.gaps = true;
    }

    /// Between which versions a unit held what it asks for; `None`: that is not known for certain.
    pub fn quota_period(&self, name: &str) -> Option<QuotaPeriod> {
        self.jobs.get(name).filter(|_| !self.gaps).map(|job| job.quota_period)
    }

    /// How many jobs of the groups came to run, when the first did, and when the last.
    pub fn came_to_run(&self, of: impl Fn(&str) -> bool) -> (usize, Option<Instant>, Option<Instant>) {
        let jobs = self.jobs.values().filter(|job| of(&job.group));
        let times: Vec<Instant> = jobs.filter_map(|job| job.seen.get(&Phase::Running).copied()).collect();
        (times.len(), times.iter().min().copied(), times.iter().max().copied())
    }

    /// Whether all jobs of the groups have reached a phase, or a later one.
    pub fn all_reached(&self, phase: Phase, of: impl Fn(&str) -> bool) -> bool {
        let mut jobs = self.jobs.values().filter(|job| of(&job.group));
        jobs.all(|job| job.seen.keys().any(|seen| *seen >= phase))
    }

    /// What phases are called.
    pub fn names(&self) -> PhaseNames {
        self.names
    }

    /// Its deadline passes then, or it expires.
    pub fn due(&mut self, name: &str, due: Timestamp) {
        if let Some(job) = self.jobs.get_mut(name) {
            job.due = Some(due);
        }
    }

    /// The API server has stored it.
    pub fn stored(&mut self, name: &str, at: Instant) {
        self.reached(name, Phase::Stored, at);
    }

    /// The watch showed it.
    pub fn saw(&mut self, observation: &Observation, at: Instant, wall: Timestamp) {
        let Some(job) = self.jobs.get_mut(&observation.name) else { return };
        if observation.outcome.is_some() {
            job.outcome = observation.outcome;
        }
        if observation.phase == Phase::Deleted || observation.outcome == Some("DeadlineExceeded") {
            job.acted.get_or_insert(wall);
        }
        if observation.phase == Phase::Running {
            job.quota_period.from.get_or_insert(observation.version);
            if let Some(on_running) = job.on_running.take() {
                // An error means that the receiver was dropped.
                let _ = on_running.send(());
            }
        }
        self.reached(&observation.name, observation.phase, at);
    }

    /// Whether a job has reached a phase, or a later one.
    pub fn has_reached(&self, name: &str, phase: Phase) -> bool {
        self.jobs.get(name).is_some_and(|job| job.seen.keys().any(|seen| *seen >= phase))
    }

    /// It is gone.
    pub fn gone(&mut self, name: &str, version: u64, at: Instant, wall: Timestamp) {
        if let Some(job) = self.jobs.get_mut(name) {
            job.acted.get_or_insert(wall);
            job.quota_period.until.get_or_insert(version);
        }
        self.reached(name, Phase::Deleted, at);
    }

    fn reached(&mut self, name: &str, phase: Phase, at: Instant) {
        let Some(job) = self.jobs.get_mut(name) else { return };
        if let std::collections::btree_map::Entry::Vacant(entry) = job.seen.entry(phase) {
            entry.insert(at);
            self.arrivals.push((at, phase));
        }
    }

    /// How many jobs have reached a phase, or a later one.
    pub fn count(&self, phase: Phase) -> usize {
        self.jobs.values().filter(|job| job.seen.keys().any(|seen| *seen >= phase)).count()
    }

    /// Whether every job is where it has to end: completed, or deleted if its group is to be deleted.
    pub fn is_over(&self, deleted: impl Fn(&str) -> bool) -> bool {
        self.jobs.values().all(|job| {
            let last = if deleted(&job.group) { Phase::Deleted } else { Phase::Completed };
            job.seen.keys().any(|seen| *seen >= last)
        })
    }

    /// When the last job ended.
    pub fn last_end(&self) -> Option<Instant> {
        let end =
            |job: &TrackedJob| job.seen.get(&Phase::Completed).or(job.seen.get(&Phase::Deleted)).copied();
        self.jobs.values().filter_map(end).max()
    }

    /// What became of each group's jobs: (group, outcome), how many.
    pub fn outcomes(&self) -> BTreeMap<(String, &'static str), usize> {
        let mut outcomes = BTreeMap::new();
        for job in self.jobs.values() {
            let is_over = job.seen.keys().any(|seen| *seen >= Phase::Completed);
            let outcome = match job.outcome {
                Some(outcome) if is_over => outcome,
                None if job.seen.contains_key(&Phase::Deleted) => "Deleted",
                _ => "Unfinished",
            };
            *outcomes.entry((job.group.clone(), outcome)).or_default() += 1;
        }
        outcomes
    }

    /// The most Tasks that there were at one time, of jobs that were stored and not yet over.
    pub fn peak(&self, tasks: impl Fn(&str) -> usize) -> usize {
        let mut changes = Vec::new();
        for job in self.jobs.values() {
            let over = job.seen.iter().find(|(phase, _)| **phase >= Phase::Completed);
            let count = i64::try_from(tasks(&job.group)).unwrap_or(i64::MAX);
            changes.extend(job.seen.values().min().map(|at| (*at, count)));
            changes.extend(over.map(|(_, at)| (*at, -count)));
        }
        changes.sort_unstable();
        let (mut now, mut peak) = (0, 0);
        for (_, change) in changes {
            now += change;
            peak = peak.max(now);
        }
        usize::try_from(peak).unwrap_or(0)
    }

    /// How many jobs of a group are deleted.
    pub fn deleted(&self, group: &str) -> usize {
        let is = |job: &&TrackedJob| job.group == group && job.seen.contains_key(&Phase::Deleted);
        self.jobs.values().filter(is).count()
    }

    /// How long everything took, by group.
    pub fn latencies(&self) -> Vec<Latency> {
        let mut groups: Vec<&str> = self.jobs.values().map(|job| job.group.as_str()).collect();
        groups.sort_unstable();
        groups.dedup();
        let mut latencies = Vec::new();
        for group in groups {
            let of_group = || self.jobs.values().filter(|job| job.group == group);
            for &(transition, from, to) in self.names.transitions {
                latencies.extend(latency(
                    transition,
                    group,
                    of_group().filter_map(|job| job.took(from, to)).collect(),
                ));
            }
            for (transition, outcome) in [(DEADLINE_LATENCY, true), (EXPIRY_LATENCY, false)] {
                let late = of_group().filter(|job| (job.outcome == Some("DeadlineExceeded")) == outcome);
                latencies.extend(latency(transition, group, late.filter_map(TrackedJob::late).collect()));
            }
        }
        latencies
    }

    /// Jobs by phase over time, and how long those took that came to run or to their end in each second.
    pub fn series(&self, start: Instant, seconds: f64) -> Vec<Series> {
        let last = seconds.ceil() as u64;
        let at = |second: u64| start + Duration::from_secs(second);
        let series = |plot: &str, name: &str, unit: &str, points| Series {
            plot: plot.into(),
            name: name.into(),
            unit: unit.into(),
            points,
        };
        let mut all = Vec::new();
        for &(name, phase) in self.names.counted {
            let reached = |second| {
                let count =
                    self.arrivals.iter().filter(|(when, what)| *what == phase && *when <= at(second)).count();
                (second as f64, count as f64)
            };
            if self.arrivals.iter().any(|(_, what)| *what == phase) {
                all.push(series("jobs", name, "jobs", (0..=last).map(reached).collect()));
            }
        }
        for &(name, phase) in self.names.timed {
            let mut by_second = BTreeMap::<u64, Vec<f64>>::new();
            for job in self.jobs.values() {
                let (Some(when), Some(took)) = (job.seen.get(&phase), job.took(None, phase)) else {
                    continue;
                };
                by_second.entry(when.duration_since(start).as_secs()).or_default().push(took);
            }
            for (percent, label) in [(50, "p50"), (99, "p99")] {
                let points = by_second.iter().map(|(second, took)| {
                    let mut took = took.clone();
                    took.sort_by(f64::total_cmp);
                    (*second as f64, percentile(&took, percent))
                });
                all.push(series("latency", &format!("{name}, {label}"), "s", points.collect()));
            }
        }
        all
    }
}

impl TrackedJob {
    fn took(&self, from: Option<Phase>, to: Phase) -> Option<f64> {
        let from = from.map_or(Some(self.wanted), |phase| self.seen.get(&phase).copied())?;
        Some(self.seen.get(&to)?.saturating_duration_since(from).as_secs_f64())
    }

    fn late(&self) -> Option<f64> {
        Some(self.acted?.duration_since(self.due?).as_secs_f64())
    }
}

/// `None`: nobody made it.
pub fn latency(transition: &str, group: &str, mut took: Vec<f64>) -> Option<Latency> {
    took.sort_by(f64::total_cmp);
    let max = *took.last()?;
    Some(Latency {
        transition: transition.into(),
        group: group.into(),
        count: took.len(),
        p50: percentile(&took, 50),
        p90: percentile(&took, 90),
        p99: percentile(&took, 99),
        max,
    })
}

/// The smallest that `percent` of a hundred do not exceed (nearest rank); 0 of nothing.
fn percentile(sorted: &[f64], percent: usize) -> f64 {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn framework(state: &str, code: Option<i32>) -> Observation {
        let completion = code.map(|code| json!({ "code": code }));
        let object = json!({
            "metadata": { "name": "a0" },
            "spec": { "taskRoles": [] },
            "status": { "state": state, "attemptStatus": { "completionStatus": completion, "more": 1 } },
        });
        Observation::framework(&serde_json::from_value(object).unwrap()).unwrap()
    }

    #[test]
    fn a_framework_is_timed_from_the_moment_that_the_scenario_wants_it() {
        let (mut tracker, start) = (Tracker::default(), Instant::now());
        let at = |ms| start + Duration::from_millis(ms);
        let wall = Timestamp::UNIX_EPOCH;
        tracker.expect("a0".into(), "a", at(1000));
        tracker.stored("a0", at(1100));
        tracker.saw(&framework("AttemptCreationPending", None), at(1200), wall);
        tracker.saw(&framework("AttemptRunning", None), at(1500), wall);
        tracker.saw(&framework("AttemptRunning", None), at(1700), wall);
        assert!(!tracker.is_over(|_| false));
        tracker.saw(&framework("AttemptDeletionPending", Some(0)), at(2000), wall);
        tracker.saw(&framework("Completed", Some(0)), at(3000), wall);
        assert!(tracker.is_over(|_| false) && !tracker.is_over(|_| true));
        let took = |name: &str| {
            tracker
                .latencies()
                .into_iter()
                .find(|latency| latency.transition == name)
                .map(|latency| latency.max)
        };
        assert_eq!(took("creation → stored"), Some(0.1));
        assert_eq!(took("creation → first Task running"), Some(0.5));
        assert_eq!((took("ended → completed"), took("creation → preparing")), (Some(1.0), None));
        assert_eq!(tracker.outcomes(), [(("a".to_owned(), "Succeeded"), 1)].into());
        assert_eq!(tracker.peak(|_| 20), 20);
        let series = tracker.series(start, 3.0);
        assert_eq!(series[0].points, [(0.0, 0.0), (1.0, 0.0), (2.0, 1.0), (3.0, 1.0)]);
    }

    #[test]
    fn a_deadline_is_timed_by_the_wall_clock() {
        let (mut tracker, now) = (Tracker::default(), Instant::now());
        let wall = |ms| Timestamp::from_millisecond(ms).unwrap();
        tracker.expect("a0".into(), "a", now);
        tracker.due("a0", wall(5000));
        tracker.saw(&framework("AttemptDeletionPending", Some(-240)), now, wall(5250));
        tracker.saw(&framework("Completed", Some(-240)), now, wall(9000));
        let late = tracker.latencies().into_iter().find(|latency| latency.transition == DEADLINE_LATENCY);
        assert_eq!(late.map(|late| late.p50), Some(0.25));
        assert_eq!(tracker.outcomes(), [(("a".to_owned(), "DeadlineExceeded"), 1)].into());
    }

    #[test]
    fn a_job_that_is_not_over_is_unfinished_and_one_that_was_deleted_first_is_deleted() {
        let (mut tracker, now) = (Tracker::default(), Instant::now());
        for name in ["a0", "b0"] {
            tracker.expect(name.into(), &name[..1], now);
        }
        tracker.saw(&framework("AttemptDeletionPending", Some(0)), now, Timestamp::UNIX_EPOCH);
        tracker.gone("b0", 7, now, Timestamp::UNIX_EPOCH);
        let outcomes = tracker.outcomes();
        assert_eq!(outcomes[&("a".to_owned(), "Unfinished")] + outcomes[&("b".to_owned(), "Deleted")], 2);
    }

    #[test]
    fn percentiles_are_of_the_nearest_rank() {
        let hundred: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!([50, 90, 99, 100].map(|percent| percentile(&hundred, percent)), [50.0, 90.0, 99.0, 100.0]);
        assert_eq!((percentile(&[3.0], 50), percentile(&[], 99)), (3.0, 0.0));
    }
}
