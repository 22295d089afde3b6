//! Commands that work on a cluster until they are interrupted: by Ctrl-C or by SIGTERM.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};

use crate::error::Error;

/// How long blocking work may take to notice the interrupt.
const LAST_WORK: Duration = Duration::from_secs(2);

/// Does the work until it ends or is interrupted; an interrupt is an [`Error::Interrupted`].
///
/// An interrupt drops the work, and with it all that it started. Blocking parts of it watch `given_up`.
pub fn run<E: From<Error>>(
    work: impl Future<Output = Result<(), E>>,
    given_up: &AtomicBool,
) -> Result<(), E> {
    let failed = |step| move |source| E::from(Error::io(step)(source));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(failed("starting a runtime"))?;
    let outcome = runtime.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt()).map_err(failed("catching SIGINT"))?;
        let mut terminate = signal(SignalKind::terminate()).map_err(failed("catching SIGTERM"))?;
        tokio::select! {
            biased;
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            outcome = work => return outcome,
        }
        Err(E::from(Error::Interrupted))
    });
    given_up.store(outcome.is_err(), Ordering::Relaxed);
    runtime.shutdown_timeout(LAST_WORK);
    outcome
}
