//! Tracks the jobs of a run by watch events.
//!
//! Times are those at which events arrive, since times in objects have whole seconds. Each job is timed from
//! its scheduled creation, so that a system that delays creations does not look faster.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use framework_api::State;
use jiff::Timestamp;
use tokio::sync::oneshot;

use crate::partial_status::{Observation, Phase};
use crate::phase_names::{DEADLINE_LATENCY, EXPIRY_LATENCY, PhaseNames};
use crate::report::{Latency, Series};

/// One job of the run.
#[derive(Debug)]
struct TrackedJob {
    group: String,
    wanted: Instant,
    /// When its deadline passes.
    deadline: Option<Timestamp>,
    /// When it expires.
    expiry: Option<Timestamp>,
    seen: BTreeMap<Phase, Instant>,
    /// The state of its last event, and when the first event with it arrived.
    state: Option<(State, Instant)>,
    /// When the event of its exceeded deadline, or of its deletion, arrived.
    acted: Option<Timestamp>,
    outcome: Option<&'static str>,
    /// The resourceVersions of its release and its deletion.
    quota_period: QuotaPeriod,
    /// Notified when the job runs.
    on_running: Option<oneshot::Sender<()>>,
}

/// The resourceVersions between which a QueueUnit used quota.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuotaPeriod {
    /// The release.
    pub from: Option<u64>,
    /// The deletion.
    pub until: Option<u64>,
}

/// All jobs of a run.
#[derive(Debug, Default)]
pub struct Tracker {
    jobs: BTreeMap<String, TrackedJob>,
    /// The phases that jobs reached, in the order of their events, for the plots.
    arrivals: Vec<(Instant, Phase)>,
    /// The seconds that jobs of a group were seen in a state, one number for each time that one left it.
    in_states: BTreeMap<(String, State), Vec<f64>>,
    names: PhaseNames,
    /// The watch was restarted, so changes may have been missed.
    gaps: bool,
}

impl Tracker {
    /// An empty tracker.
    pub fn new(names: PhaseNames) -> Self {
        Tracker { names, ..Tracker::default() }
    }

    /// Adds a job that is scheduled for `wanted`.
    pub fn expect(&mut self, name: String, group: &str, wanted: Instant) {
        let (deadline, expiry, acted, outcome, quota_period, on_running) = Default::default();
        let (group, seen, state) = (group.to_owned(), BTreeMap::new(), None);
        let job = TrackedJob {
            group,
            wanted,
            deadline,
            expiry,
            seen,
            state,
            acted,
            outcome,
            quota_period,
            on_running,
        };
        self.jobs.insert(name, job);
    }

    /// A receiver that is notified once, when the job runs.
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

    /// Notes that changes may have been missed.
    pub fn has_gaps(&mut self) {
        self.gaps = true;
    }

    /// The versions between which a unit used quota; `None` if changes may have been missed.
    pub fn quota_period(&self, name: &str) -> Option<QuotaPeriod> {
        self.jobs.get(name).filter(|_| !self.gaps).map(|job| job.quota_period)
    }

    /// The number of jobs of the groups that ran, and when the first and the last did.
    pub fn came_to_run(&self, of: impl Fn(&str) -> bool) -> (usize, Option<Instant>, Option<Instant>) {
        let jobs = self.jobs.values().filter(|job| of(&job.group));
        let times: Vec<Instant> = jobs.filter_map(|job| job.seen.get(&Phase::Running).copied()).collect();
        (times.len(), times.iter().min().copied(), times.iter().max().copied())
    }

    /// Whether all jobs of the groups have reached a phase, or a later one.
    pub fn all_reached(&self, phase: Phase, of: impl Fn(&str) -> bool) -> bool {
        let mut jobs = self.jobs.values().filter(|job| of(&job.group));
        jobs.all(|job| job.has_reached(phase))
    }

    /// The names of phases.
    pub fn names(&self) -> PhaseNames {
        self.names
    }

    /// Sets when its deadline passes.
    pub fn has_deadline(&mut self, name: &str, at: Timestamp) {
        if let Some(job) = self.jobs.get_mut(name) {
            job.deadline = Some(at);
        }
    }

    /// Sets when it expires.
    pub fn expires(&mut self, name: &str, at: Timestamp) {
        if let Some(job) = self.jobs.get_mut(name) {
            job.expiry = Some(at);
        }
    }

    /// Notes that the API server has stored it.
    pub fn stored(&mut self, name: &str, at: Instant) {
        self.reached(name, Phase::Stored, at);
    }

    /// Takes in a watch event.
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
        self.entered(&observation.name, observation.state, at);
        self.reached(&observation.name, observation.phase, at);
    }

    /// Whether a job has reached a phase, or a later one.
    pub fn has_reached(&self, name: &str, phase: Phase) -> bool {
        self.jobs.get(name).is_some_and(|job| job.has_reached(phase))
    }

    /// Takes in its deletion.
    pub fn gone(&mut self, name: &str, version: u64, at: Instant, wall: Timestamp) {
        if let Some(job) = self.jobs.get_mut(name) {
            job.acted.get_or_insert(wall);
            job.quota_period.until.get_or_insert(version);
        }
        self.entered(name, None, at);
        self.reached(name, Phase::Deleted, at);
    }

    /// Takes in the state of a job; none once it is gone.
    fn entered(&mut self, name: &str, state: Option<State>, at: Instant) {
        let Some(job) = self.jobs.get_mut(name) else { return };
        if job.state.map(|(known, _)| known) == state {
            return;
        }
        let next = state.map(|state| (state, at));
        if let Some((left, since)) = std::mem::replace(&mut job.state, next) {
            let seconds = at.saturating_duration_since(since).as_secs_f64();
            self.in_states.entry((job.group.clone(), left)).or_default().push(seconds);
        }
    }

    fn reached(&mut self, name: &str, phase: Phase, at: Instant) {
        let Some(job) = self.jobs.get_mut(name) else { return };
        if let std::collections::btree_map::Entry::Vacant(entry) = job.seen.entry(phase) {
            entry.insert(at);
            self.arrivals.push((at, phase));
        }
    }

    /// Counts the jobs that have reached a phase, or a later one.
    pub fn count(&self, phase: Phase) -> usize {
        self.jobs.values().filter(|job| job.has_reached(phase)).count()
    }

    /// Whether every job is completed, or deleted if its group ends by deletion.
    pub fn is_over(&self, deleted: impl Fn(&str) -> bool) -> bool {
        self.jobs
            .values()
            .all(|job| job.has_reached(if deleted(&job.group) { Phase::Deleted } else { Phase::Completed }))
    }

    /// When the last job ended.
    pub fn last_end(&self) -> Option<Instant> {
        let end =
            |job: &TrackedJob| job.seen.get(&Phase::Completed).or(job.seen.get(&Phase::Deleted)).copied();
        self.jobs.values().filter_map(end).max()
    }

    /// The number of jobs by group and outcome.
    pub fn outcomes(&self) -> BTreeMap<(String, &'static str), usize> {
        let mut outcomes = BTreeMap::new();
        for job in self.jobs.values() {
            let outcome = match job.outcome {
                Some(outcome) if job.has_reached(Phase::Completed) => outcome,
                None if job.seen.contains_key(&Phase::Deleted) => "Deleted",
                _ => "Unfinished",
            };
            *outcomes.entry((job.group.clone(), outcome)).or_default() += 1;
        }
        outcomes
    }

    /// The most Tasks at one time, of jobs that were stored and not yet over.
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

    /// The latencies of all transitions, by group.
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
            let exceeded = of_group().filter_map(|job| job.late(job.deadline, true)).collect();
            latencies.extend(latency(DEADLINE_LATENCY, group, exceeded));
            let expired = of_group().filter_map(|job| job.late(job.expiry, false)).collect();
            latencies.extend(latency(EXPIRY_LATENCY, group, expired));
        }
        latencies
    }

    /// The times that the jobs of each group were seen in each state that they left, in the order of a life.
    pub fn states(&self) -> Vec<Latency> {
        let of = |((group, state), seconds): (&(String, State), &Vec<f64>)| {
            latency(&format!("{state:?}"), group, seconds.clone())
        };
        self.in_states.iter().filter_map(of).collect()
    }

    /// The jobs in each phase over time, and the latencies of the jobs that reached a phase in each second.
    pub fn series(&self, start: Instant, seconds: f64) -> Vec<Series> {
        let last = seconds.ceil() as u64;
        let at = |second: u64| start + Duration::from_secs(second);
        let mut all = Vec::new();
        for &(name, phase) in self.names.counted {
            let reached = |second| {
                let count =
                    self.arrivals.iter().filter(|(when, what)| *what == phase && *when <= at(second)).count();
                (second as f64, count as f64)
            };
            if self.arrivals.iter().any(|(_, what)| *what == phase) {
                all.push(Series::new("jobs", name, "jobs", (0..=last).map(reached)));
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
                all.push(Series::new("latency", &format!("{name}, {label}"), "s", points));
            }
        }
        all
    }
}

impl TrackedJob {
    /// Whether it has reached a phase, or a later one.
    fn has_reached(&self, phase: Phase) -> bool {
        self.seen.keys().any(|seen| *seen >= phase)
    }

    fn took(&self, from: Option<Phase>, to: Phase) -> Option<f64> {
        let from = from.map_or(Some(self.wanted), |phase| self.seen.get(&phase).copied())?;
        Some(self.seen.get(&to)?.saturating_duration_since(from).as_secs_f64())
    }

    /// The seconds from `due` to its exceeded deadline, or to its deletion if it has not exceeded one.
    fn late(&self, due: Option<Timestamp>, exceeded: bool) -> Option<f64> {
        let is_asked = (self.outcome == Some("DeadlineExceeded")) == exceeded;
        due.filter(|_| is_asked).and_then(|due| Some(self.acted?.duration_since(due).as_secs_f64()))
    }
}

/// The latency of a transition; `None` if no job made it.
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

/// The percentile by nearest rank; 0 without samples.
pub(crate) fn percentile(sorted: &[f64], percent: usize) -> f64 {
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
    fn a_state_is_timed_from_its_first_event_to_that_of_the_next() {
        let (mut tracker, start) = (Tracker::default(), Instant::now());
        let (at, wall) = (|ms| start + Duration::from_millis(ms), Timestamp::UNIX_EPOCH);
        tracker.expect("a0".into(), "a", start);
        for (state, ms) in [
            ("", 50),
            ("AttemptPreparing", 100),
            ("AttemptRunning", 200),
            ("AttemptRunning", 900),
            ("AttemptDeletionPending", 1200),
            // A retry with a delay of three seconds.
            ("AttemptCompleted", 1300),
            ("AttemptPreparing", 4300),
            ("AttemptRunning", 4600),
            ("Completed", 6600),
        ] {
            tracker.saw(&framework(state, None), at(ms), wall);
        }
        let seen = |tracker: &Tracker| {
            let states = tracker.states().into_iter();
            states.map(|state| (state.transition, state.count, state.p50, state.max)).collect::<Vec<_>>()
        };
        let expected = [
            ("AttemptPreparing".to_owned(), 2, 0.1, 0.3),
            ("AttemptRunning".to_owned(), 2, 1.0, 2.0),
            ("AttemptDeletionPending".to_owned(), 1, 0.1, 0.1),
            ("AttemptCompleted".to_owned(), 1, 3.0, 3.0),
        ];
        assert_eq!(seen(&tracker), expected, "states that no event had are left out, and Completed lasts");
        tracker.gone("a0", 7, at(9600), wall);
        assert_eq!(seen(&tracker)[4..], [("Completed".to_owned(), 1, 3.0, 3.0)]);
    }

    #[test]
    fn a_deadline_is_timed_by_the_wall_clock() {
        let (mut tracker, now) = (Tracker::default(), Instant::now());
        let wall = |ms| Timestamp::from_millisecond(ms).unwrap();
        tracker.expect("a0".into(), "a", now);
        tracker.has_deadline("a0", wall(5000));
        tracker.saw(&framework("AttemptDeletionPending", Some(-240)), now, wall(5250));
        tracker.saw(&framework("Completed", Some(-240)), now, wall(9000));
        let late = tracker.latencies().into_iter().find(|latency| latency.transition == DEADLINE_LATENCY);
        assert_eq!(late.map(|late| late.p50), Some(0.25));
        assert_eq!(tracker.outcomes(), [(("a".to_owned(), "DeadlineExceeded"), 1)].into());
    }

    #[test]
    fn the_deletion_of_a_job_that_kept_its_deadline_is_no_expiry() {
        let (mut tracker, now) = (Tracker::default(), Instant::now());
        let wall = |ms| Timestamp::from_millisecond(ms).unwrap();
        tracker.expect("a0".into(), "a", now);
        tracker.has_deadline("a0", wall(60_000));
        tracker.saw(&framework("Completed", Some(0)), now, wall(2000));
        tracker.gone("a0", 7, now, wall(7000));
        let timed = |tracker: &Tracker| {
            let of_both = |late: &Latency| [DEADLINE_LATENCY, EXPIRY_LATENCY].contains(&&*late.transition);
            tracker.latencies().into_iter().filter(of_both).map(|late| late.max).collect::<Vec<_>>()
        };
        assert!(timed(&tracker).is_empty());
        tracker.expires("a0", wall(6500));
        assert_eq!(timed(&tracker), [0.5]);
    }

    #[test]
    fn a_job_that_is_not_over_is_unfinished_unless_it_was_deleted() {
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
