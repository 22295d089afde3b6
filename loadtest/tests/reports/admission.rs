//! Releases beyond the quota are found in a history, however short they are.

use std::time::{Duration, Instant};

use framework_loadtest::admission::{QuotaUse, judge, over_admissions};
use framework_loadtest::partial_status::{Observation, Phase};
use framework_loadtest::scenario::{Queues, Scenario, Unit};
use framework_loadtest::tracker::{QuotaPeriod, Tracker};
use jiff::Timestamp;

/// A unit: its namespace, its requested CPUs, and the resourceVersions of its release and its deletion.
type Line = (usize, u64, u64, Option<u64>);

fn over(history: &[Line]) -> Vec<String> {
    let queues = Queues { namespaces: 2, queues: 1, quota: [("cpu".to_owned(), 20)].into() };
    let unit = |line: &Line| Unit {
        resource: [("cpu".to_owned(), line.1), ("memory".to_owned(), 1 << 40)].into(),
        priority: 0,
        run_seconds: 0.0,
        until_all_wait: false,
    };
    let units: Vec<Unit> = history.iter().map(unit).collect();
    let usage = |((namespace, _, from, until), unit): (&Line, _)| {
        let period = QuotaPeriod { from: Some(*from), until: *until };
        QuotaUse { name: "a0", unit, namespace: *namespace, period }
    };
    over_admissions(&queues, &history.iter().zip(&units).map(usage).collect::<Vec<_>>())
}

#[test]
fn a_history_is_checked_against_the_quota_at_every_moment() {
    let fits = [(0, 20, 5, Some(9)), (0, 15, 10, None), (0, 5, 11, None), (1, 20, 6, None)];
    assert_eq!(over(&fits), [""; 0], "one after another, and each namespace by itself");
    // The same, but the second is released before the first is deleted.
    let overlap = [(0, 20, 5, Some(9)), (0, 15, 8, None), (0, 5, 11, None), (1, 20, 6, None)];
    assert_eq!(over(&overlap), ["a0 in namespace 0 at resourceVersion 8: cpu 35 of 20"]);
    // Too much for one version only, and all is well before and after.
    let flash = [(0, 15, 5, None), (0, 6, 7, Some(8)), (0, 5, 9, None)];
    assert_eq!(over(&flash), ["a0 in namespace 0 at resourceVersion 7: cpu 21 of 20"]);
    let huge = [(0, u64::MAX, 5, None), (0, u64::MAX, 6, None)];
    assert_eq!(over(&huge).len(), 2, "their sum does not overflow");
}

#[test]
fn the_scenarios_of_the_manual_are_good() {
    let manual = include_str!("../../../docs/manual/load-test.md");
    let blocks = manual.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next());
    let good: Vec<bool> =
        blocks.map(|text| Scenario::parse(text).expect("a good scenario").queue.is_some()).collect();
    assert_eq!(good, [false, true]);
}

#[test]
fn a_unit_that_blocks_others_is_not_scaled() {
    let text = include_str!("../../scenarios/queue-50000.yaml");
    let tenth = Scenario::parse(text).expect("a good scenario").scaled(0.1);
    let jobs: Vec<usize> = tenth.groups.iter().map(|group| group.jobs).collect();
    assert_eq!(jobs, [50, 5000]);
}

/// Releases a second of units that were released so many milliseconds after the start.
fn rate(releases: &[u64]) -> Option<f64> {
    let text = "description: d\nqueue: {namespaces: 1, queues: 1, quota: {cpu: 9}}\n\
        groups: [{name: a, jobs: 9, unit: {resource: {cpu: 1}}}]";
    let scenario = Scenario::parse(text).expect("a good scenario");
    let queues = scenario.queue.as_ref().expect("it has queues");
    let (mut tracker, start) = (Tracker::default(), Instant::now());
    for (number, after) in releases.iter().enumerate() {
        let name = format!("a{number}");
        tracker.expect(name.clone(), "a", start);
        let seen = Observation { name, phase: Phase::Running, state: None, outcome: None, version: 1 };
        tracker.saw(&seen, start + Duration::from_millis(*after), Timestamp::UNIX_EPOCH);
    }
    judge(&scenario, queues, &tracker, |_| None).releases_per_second
}

#[test]
fn releases_have_a_rate_only_if_time_passed_between_two_of_them() {
    assert_eq!(rate(&[0, 500, 2000]), Some(1.5));
    assert_eq!([rate(&[]), rate(&[700]), rate(&[700, 700])], [None; 3]);
}
