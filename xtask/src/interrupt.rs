//! Commands that take a while: Ctrl-C or SIGTERM ends them, with all that they started.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Result, bail};
use tokio::signal::unix::{SignalKind, signal};

/// How long work that cannot be interrupted may take to notice that it was.
const LAST_WORK: Duration = Duration::from_secs(2);

/// Does the work until it ends or somebody interrupts it, which is an error. What the work holds is dropped
/// then; `given_up` tells those parts of it that block.
pub(crate) fn run(work: impl Future<Output = Result<()>>, given_up: &AtomicBool) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let outcome = runtime.block_on(async {
        let (mut interrupt, mut terminate) =
            (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        tokio::select! {
            biased;
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            outcome = work => return outcome,
        }
        bail!("interrupted; nothing is left running")
    });
    given_up.store(outcome.is_err(), Ordering::Relaxed);
    runtime.shutdown_timeout(LAST_WORK);
    outcome
}
