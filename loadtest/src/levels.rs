//! Compares a run with the levels of its scenario.

use crate::phase_names::{COMPLETED, DEADLINE_LATENCY, EXPIRY_LATENCY, RUNNING};
use crate::report::{self, Run};
use crate::scenario::{Level, Scenario};

const MEBIBYTE: f64 = 1024.0 * 1024.0;
/// The first word of a level that counts the jobs of an outcome. No level of a scenario has a space.
const JOBS: &str = "jobs ";

/// Whether every job ended as its group says.
pub fn ended_as_wanted(run: &Run) -> bool {
    run.levels.iter().all(|level| level.met || !level.name.starts_with(JOBS))
}

/// The levels of a run whose other figures are known: the levels of the scenario, and the outcomes of all
/// jobs.
pub fn judge(scenario: &Scenario, run: &Run, promises: bool) -> Vec<report::Level> {
    let mut levels = Vec::new();
    let wanted = |outcome: &str| -> usize {
        scenario.groups.iter().filter(|group| group.outcome == outcome).map(|group| group.jobs).sum()
    };
    for outcome in ["Succeeded", "Failed", "DeadlineExceeded", "Deleted"] {
        let (wanted, came) = (wanted(outcome), run.totals.outcomes.get(outcome).copied().unwrap_or(0));
        if wanted > 0 {
            levels.push(report::Level {
                name: format!("{JOBS}{outcome}"),
                bound: format!("= {wanted}"),
                measured: Some(came as f64),
                met: came == wanted,
            });
        }
    }
    // The levels do not apply to systems that ours is compared with.
    let promised = scenario.levels.iter().filter(|_| promises);
    levels.extend(promised.map(|(level, bound)| {
        let measured = measured(*level, scenario, run);
        let (sign, met) = if level.is_least() {
            ("≥", measured.is_some_and(|measured| measured >= *bound))
        } else {
            ("≤", measured.is_some_and(|measured| measured.abs() <= *bound))
        };
        report::Level { name: level.name(), bound: format!("{sign} {bound}"), measured, met }
    }));
    levels
}

fn measured(level: Level, scenario: &Scenario, run: &Run) -> Option<f64> {
    let is_counted = run.requests.source != "none";
    let counted = |count: usize| is_counted.then_some(count as f64);
    match level {
        Level::WriteEfficiency => run.requests.write_efficiency,
        Level::Refused => counted(run.requests.refused),
        Level::Reads => counted(run.requests.reads),
        Level::RunningP99Seconds => run.slowest(RUNNING, |latency| latency.p99),
        Level::CompletedP99Seconds => run.slowest(COMPLETED, |latency| latency.p99),
        Level::DeadlineMaxSeconds => run.slowest(DEADLINE_LATENCY, |latency| latency.max),
        Level::ExpiryP99Seconds => run.slowest(EXPIRY_LATENCY, |latency| latency.p99),
        Level::JobsPerSecond => Some(run.throughput.jobs_per_second),
        Level::TasksPerSecond => Some(run.throughput.tasks_per_second),
        Level::ControllerPeakMebibytes => {
            Some(run.process("frameworkcontroller")?.rss_peak_bytes as f64 / MEBIBYTE)
        }
        Level::StatusBytesPerTask => run.bytes.status_writes_per_task,
        Level::ApiServerBytesPerTask => run.bytes.api_server_allocated_per_task,
        Level::ApiServerObjectsPerTask => run.bytes.api_server_objects_per_task,
        Level::ExtraPods => run.pods().map(|pods| pods as f64 - scenario.pods() as f64),
        Level::ReleasesPerSecond => run.queue.as_ref()?.releases_per_second,
        Level::OverAdmitted => run.queue.as_ref()?.over_admitted.map(|over| over as f64),
        Level::RequestsPerUnit => is_counted.then_some(run.requests.per_job),
        Level::Unreconciled => run.requests.unreconciled.map(|difference| difference as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Requests, Throughput};
    use jiff::Timestamp;

    fn run(efficiency: Option<f64>, unreconciled: Option<i64>) -> Run {
        let (totals, latencies, bytes, used, levels, series) = Default::default();
        let requests = Requests { write_efficiency: efficiency, unreconciled, ..Requests::default() };
        Run {
            system: "s".into(),
            profile: String::new(),
            started_at: Timestamp::UNIX_EPOCH,
            elapsed_seconds: 1.0,
            given_up: None,
            totals,
            throughput: Throughput { jobs_per_second: 1.0, tasks_per_second: 1.0 },
            latencies,
            queue_age_seconds: None,
            queue: None,
            requests,
            bytes,
            used,
            levels,
            series,
        }
    }

    fn met(run: &Run) -> Vec<bool> {
        let text = "description: d\ngroups: [{name: a, jobs: 1, taskRoles: [{name: w, taskNumber: 2}]}]\n\
            levels: {writeEfficiency: 0.95, unreconciled: 0}";
        let mut run = run.clone();
        run.totals.outcomes.insert("Succeeded".into(), 1);
        judge(&Scenario::parse(text).unwrap(), &run, true).iter().map(|level| level.met).collect()
    }

    #[test]
    fn a_level_is_kept_missed_or_cannot_be_measured_which_misses_it() {
        assert_eq!(met(&run(Some(0.95), Some(0))), [true, true, true]);
        assert_eq!(met(&run(Some(0.94), Some(-3))), [true, false, false]);
        assert_eq!(met(&run(None, None)), [true, false, false]);
    }

    #[test]
    fn a_job_that_ended_otherwise_misses_a_level() {
        let text = "description: d\ngroups: [{name: a, jobs: 1, outcome: Failed, taskRoles: \
            [{name: w, taskNumber: 2}]}]";
        let levels = judge(&Scenario::parse(text).unwrap(), &run(None, None), false);
        assert_eq!((levels.len(), levels[0].met, levels[0].measured), (1, false, Some(0.0)));
    }
}
