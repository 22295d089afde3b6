//! Syncs many Frameworks together, on all cores if that is faster.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use rayon::prelude::*;

use crate::observed::{Moment, Observed, Policy};
use crate::plan::Plan;
use crate::sync::sync;

/// The work, in Tasks, from which a batch is spread over threads: about 0.3 ms, some ten times the cost of
/// waking them. `docs/evaluation.md` has the measurement.
const WORTH_ALL_CORES: usize = 2000;

/// The fixed cost of a Framework, in Tasks.
const FRAMEWORK: usize = 5;

/// The message of a panic. It is a defect of this program, and costs one Framework its plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Panicked(pub String);

/// Decides the next step of each. The plans are in the order of the observations.
pub fn sync_all(batch: &[(Observed<'_>, Moment)], policy: &Policy) -> Vec<Result<Plan, Panicked>> {
    let plan = |(observed, moment): &(Observed<'_>, Moment)| contained(|| sync(observed, *moment, policy));
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

/// Does some work that changes nothing, and ends a panic in it.
fn contained<T>(work: impl FnOnce() -> T) -> Result<T, Panicked> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| Panicked(message(&*panic).to_owned()))
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message")
}

fn work(observed: &Observed<'_>) -> usize {
    let tasks = match observed.status {
        Some(status) => status.task_roles().iter().map(|role| role.task_statuses.len()).sum(),
        None => observed.framework.spec.task_number(),
    };
    FRAMEWORK + tasks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_a_missing_plan_with_its_message() {
        let nothing: [i32; 0] = [];
        let first = || nothing.iter().copied().next().expect("one at least");
        assert_eq!(contained(first), Err(Panicked("one at least".to_owned())));
        assert_eq!(contained(|| 3), Ok(3));
    }
}
