//! Releases beyond the quota are found in a history, however short they are.

use framework_loadtest::admission::{QuotaUse, over_admissions};
use framework_loadtest::scenario::{Queues, Scenario, Unit};
use framework_loadtest::tracker::QuotaPeriod;

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
