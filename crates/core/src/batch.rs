//! Syncs many Frameworks together, on all cores if that is faster.

use rayon::prelude::*;

use crate::observed::{Moment, Observed, Policy};
use crate::plan::Plan;
use crate::sync::sync;

/// The work, in Tasks, from which a batch is spread over threads: about 0.3 ms, some ten times the cost of
/// waking them. `docs/evaluation.md` has the measurement.
const WORTH_ALL_CORES: usize = 2000;

/// The fixed cost of a Framework, in Tasks.
const FRAMEWORK: usize = 5;

/// Decides the next step of each. The plans are in the order of the observations.
pub fn sync_all(batch: &[(Observed<'_>, Moment)], policy: &Policy) -> Vec<Plan> {
    let plan = |(observed, moment): &(Observed<'_>, Moment)| sync(observed, *moment, policy);
    if is_worth_all_cores(batch) {
        batch.par_iter().map(plan).collect()
    } else {
        batch.iter().map(plan).collect()
    }
}

/// Whether several threads would be faster.
pub fn is_worth_all_cores(batch: &[(Observed<'_>, Moment)]) -> bool {
    // A single one cannot be divided.
    batch.len() > 1 && batch.iter().map(|(observed, _)| work(observed)).sum::<usize>() >= WORTH_ALL_CORES
}

fn work(observed: &Observed<'_>) -> usize {
    let tasks = match observed.status {
        Some(status) => status.task_roles().iter().map(|role| role.task_statuses.len()).sum(),
        None => observed.framework.spec.task_number(),
    };
    FRAMEWORK + tasks
}
