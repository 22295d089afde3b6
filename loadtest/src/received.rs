//! The events that came on the watches of a measurement.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use tokio::time::Instant;

/// How long the last events of a measurement may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// The events that came on watches, and their bytes.
#[derive(Debug, Default)]
pub(crate) struct Received {
    events: AtomicUsize,
    bytes: AtomicUsize,
}

impl Received {
    /// An event of so many bytes came.
    pub(crate) fn count(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.events.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn events(&self) -> usize {
        self.events.load(Ordering::Relaxed)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Waits for exactly so many events.
    pub(crate) async fn wait_for(&self, expected: usize) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let events = self.events();
            ensure!(
                events <= expected && Instant::now() < deadline,
                "{events} events came, and {expected} were expected"
            );
            if events == expected {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}
