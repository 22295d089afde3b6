//! Finds releases beyond the quota in the history of QueueUnits.
//!
//! The resourceVersions of all objects have one order. A unit uses the quota from the version of its release
//! to the version of its deletion. Use only grows at a release, so a check at each release covers every
//! moment.

use std::collections::BTreeMap;
use std::time::Instant;

use crate::report::Queue;
use crate::scenario::{Queues, Scenario, Unit};
use crate::tracker::{QuotaPeriod, Tracker};

/// The least time in seconds between the first release and the last that gives a rate. The events of units
/// that are released together arrive closer to each other.
const LEAST: f64 = 0.001;

/// The use of quota by one unit.
#[derive(Clone, Copy, Debug)]
pub struct QuotaUse<'a> {
    /// Its name.
    pub name: &'a str,
    /// The unit with its requested resources.
    pub unit: &'a Unit,
    /// The index of its namespace.
    pub namespace: usize,
    /// The versions of its release and its deletion.
    pub period: QuotaPeriod,
}

/// The releases beyond the quota of their namespace, as text, in their order.
pub fn over_admissions(queues: &Queues, uses: &[QuotaUse<'_>]) -> Vec<String> {
    let mut moments = Vec::new();
    for (number, usage) in uses.iter().enumerate() {
        let Some(from) = usage.period.from else { continue };
        moments.push((from, true, number));
        moments.extend(usage.period.until.map(|until| (until, false, number)));
    }
    moments.sort_unstable();
    let mut held = BTreeMap::<(usize, &str), u64>::new();
    let mut over = Vec::new();
    for (version, released, number) in moments {
        let usage = &uses[number];
        let mut exceeded = None;
        for (resource, asked) in &usage.unit.resource {
            let sum = held.entry((usage.namespace, resource.as_str())).or_default();
            if !released {
                *sum = sum.saturating_sub(*asked);
                continue;
            }
            *sum = sum.saturating_add(*asked);
            let limit = queues.quota.get(resource).copied().unwrap_or(u64::MAX);
            if *sum > limit {
                exceeded = Some(format!("{resource} {sum} of {limit}"));
            }
        }
        if let Some(what) = exceeded {
            let (name, namespace) = (usage.name, usage.namespace);
            over.push(format!("{name} in namespace {namespace} at resourceVersion {version}: {what}"));
        }
    }
    over
}

/// The releases of a scenario's units. `turns` is the duration within which a share of the controller's turns
/// ended.
pub fn judge(
    scenario: &Scenario,
    queues: &Queues,
    tracker: &Tracker,
    turns: impl Fn(f64) -> Option<f64>,
) -> Queue {
    let names: Vec<_> = scenario.units().collect();
    let uses: Option<Vec<QuotaUse>> = names
        .iter()
        .map(|(name, index, unit)| {
            let period = tracker.quota_period(name)?;
            Some(QuotaUse { name, unit, namespace: queues.queue_of(*index).namespace, period })
        })
        .collect();
    let over = uses.map(|uses| over_admissions(queues, &uses));
    let (releases, first, last) = tracker.came_to_run(|group| !scenario.runs_until_all_wait(group));
    let seconds = first.zip(last).map(|(first, last): (Instant, Instant)| (last - first).as_secs_f64());
    let seconds = seconds.filter(|seconds| *seconds >= LEAST);
    Queue {
        releases,
        releases_per_second: seconds.map(|seconds| releases as f64 / seconds),
        over_admitted: over.as_ref().map(Vec::len),
        turn_p99_seconds: turns(0.99),
        turn_max_seconds: turns(1.0),
        first_over_admission: over.and_then(|over| over.into_iter().next()),
    }
}
