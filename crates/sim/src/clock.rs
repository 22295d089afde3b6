//! Virtual time. It stands still while anything runs and jumps to the next timer when all sleep.
//!
//! It is tokio's paused clock: every task of the simulation, the controller's too, sees the same one.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::HeaderValue;
use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// Moment at which every simulation begins: 2026-01-01T00:00:00Z.
const EPOCH_SECOND: i64 = 1_767_225_600;

/// The cluster's clock. Clones show the same time.
#[derive(Debug, Clone)]
pub struct Clock {
    start: Instant,
    skew_ms: Arc<AtomicI64>,
}

impl Clock {
    /// A clock that starts now.
    pub(crate) fn start() -> Self {
        Self { start: Instant::now(), skew_ms: Arc::new(AtomicI64::new(0)) }
    }

    /// Virtual time since the simulation began.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    /// The moment, on the runtime's clock, at which [`Clock::elapsed`] is `since`.
    pub(crate) fn instant(&self, since: Duration) -> Instant {
        self.start + since
    }

    /// True time, as a controller with a perfect clock sees it.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        Timestamp::from_second(EPOCH_SECOND).unwrap_or(Timestamp::UNIX_EPOCH)
            + SignedDuration::try_from(self.elapsed()).unwrap_or(SignedDuration::MAX)
    }

    /// Time as the API server and the kubelets see it.
    #[must_use]
    pub fn server_now(&self) -> Timestamp {
        self.now() + SignedDuration::from_millis(self.skew_ms.load(Ordering::Relaxed))
    }

    /// Sets by how much the server's clock is ahead of true time (negative: behind).
    pub fn skew_server(&self, by: SignedDuration) {
        let ms = i64::try_from(by.as_millis()).unwrap_or(0);
        self.skew_ms.store(ms, Ordering::Relaxed);
    }
}

/// A time as objects carry it: whole seconds, UTC.
pub(crate) fn wire_time(at: Timestamp) -> String {
    Timestamp::from_second(at.as_second()).unwrap_or(Timestamp::UNIX_EPOCH).to_string()
}

/// Times as the `Date` header carries them; the last one is kept, since most replies share their second.
#[derive(Debug, Default)]
pub(crate) struct Dates {
    last: Mutex<Option<(i64, HeaderValue)>>,
}

impl Dates {
    /// The header of a reply that leaves at that time.
    pub(crate) fn header(&self, at: Timestamp) -> HeaderValue {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match &*last {
            Some((second, header)) if *second == at.as_second() => header.clone(),
            _ => {
                let text = at.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
                let header = HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static(""));
                *last = Some((at.as_second(), header.clone()));
                header
            }
        }
    }
}
