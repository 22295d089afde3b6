//! The largest numbers of a scenario. Beyond them, the clock, the counts or the memory of a run would
//! overflow.

use anyhow::{Result, ensure};

/// The jobs of a group.
pub(super) const JOBS: usize = 10_000_000;
/// The Tasks of a job: as many as a Framework may have.
pub(super) const TASKS: usize = 10_000;
/// The Pods of a job, retries included.
pub(super) const PODS: usize = 1_000_000;
/// Any time, in seconds: a year.
const SECONDS: f64 = 31_536_000.0;

/// An error that names the field unless a run can wait for so long.
pub(super) fn check_time(field: &str, seconds: f64) -> Result<()> {
    ensure!((0.0..=SECONDS).contains(&seconds), "{field}: 0 to {SECONDS} seconds (a year) are allowed");
    Ok(())
}
