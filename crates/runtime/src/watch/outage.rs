//! The lines of the log about a watch that fails.
//!
//! An outage of the API server ends all watches, and each is tried again every few seconds. Guarantees: a
//! failure is a warning, unless there was one less than a minute ago; then it is a line at the level `debug`.
//! After a warning, one line says that the watch is open again.

use std::time::Duration;

use kube::runtime::watcher;
use tokio::time::Instant;
use tracing::{debug, info, warn};

/// The shortest time between two warnings about one watch.
const INTERVAL: Duration = Duration::from_secs(60);

/// Whether a watch is too far behind.
pub fn has_expired(error: &watcher::Error) -> bool {
    matches!(error, watcher::Error::WatchError(status) if status.code == 410)
}

/// The failures of one watch.
#[derive(Debug)]
pub struct Outage {
    /// The plural of the resource that is watched.
    resource: &'static str,
    /// When the last warning was given.
    warned: Option<Instant>,
    /// There was a warning, and the watch was not opened after it.
    lasts: bool,
    is_open: bool,
}

impl Outage {
    /// No failure yet.
    pub fn new(resource: &'static str) -> Self {
        Outage { resource, warned: None, lasts: false, is_open: false }
    }

    /// A LIST or the watch failed, and is tried again after `delay`.
    pub fn failed(&mut self, error: &watcher::Error, delay: Duration) {
        let resource = self.resource;
        if has_expired(error) {
            // This is normal: the API server's history was compacted.
            debug!(resource, retry_in = ?delay, "the resourceVersion of a watch is too old: listing again");
        } else if self.warns() {
            warn!(resource, %error, retry_in = ?delay, "a watch failed and is retried");
        } else {
            debug!(resource, %error, retry_in = ?delay, "a watch failed and is retried");
        }
    }

    /// The watch is open now, or is not. An error does not close it: it is opened again once it has ended.
    pub fn watched(&mut self, is_open: bool) {
        if self.ends(is_open) {
            info!(resource = self.resource, "a watch that had failed is open again");
        }
    }

    /// Whether a failure is a warning.
    fn warns(&mut self) -> bool {
        if self.warned.is_some_and(|at| at.elapsed() < INTERVAL) {
            return false;
        }
        (self.warned, self.lasts) = (Some(Instant::now()), true);
        true
    }

    /// Whether the watch was opened after a warning.
    fn ends(&mut self, is_open: bool) -> bool {
        let is_opened = is_open && !self.is_open;
        self.is_open = is_open;
        is_opened && std::mem::take(&mut self.lasts)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_outage_warns_once_a_minute_and_ends_once() {
        let mut outage = Outage::new("pods");
        assert!(!outage.ends(true), "the first time");
        let mut warnings = 0;
        // 5 s each, for more than two minutes.
        for _ in 0..30 {
            warnings += u32::from(outage.warns());
            assert!(!outage.ends(true), "an error does not show that a watch works");
            tokio::time::sleep(Duration::from_secs(5)).await;
        }
        assert_eq!(warnings, 3);
        let ends = [false, false, true, true, false, true].map(|is_open| outage.ends(is_open));
        assert_eq!(ends, [false, false, true, false, false, false]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_opens_and_fails_all_the_time_has_two_lines_a_minute() {
        let mut outage = Outage::new("pods");
        let mut lines = 0;
        for _ in 0..60 {
            lines += u32::from(outage.ends(false)) + u32::from(outage.ends(true)) + u32::from(outage.warns());
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        assert_eq!(lines, 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_version_that_is_too_old_is_no_outage() {
        let failure = |code: u16| {
            let status = serde_json::from_value(json!({"code": code})).unwrap();
            watcher::Error::WatchError(status)
        };
        let mut outage = Outage::new("pods");
        outage.failed(&failure(410), Duration::ZERO);
        assert!(!outage.lasts);
        outage.failed(&failure(500), Duration::ZERO);
        assert!(outage.lasts);
    }
}
