//! How often things go wrong at random, and how slow they are when nothing does.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::duration::ms;

/// How often each random fault happens, as a probability per request, and how slow things are.
#[derive(Debug, Clone, PartialEq)]
pub struct Rates {
    /// Time a request takes to the server, and a reply to the client.
    pub latency: RangeInclusive<Duration>,
    /// How old a state is that is read with resourceVersion 0.
    pub staleness: RangeInclusive<Duration>,
    /// [`crate::Fault::RefuseConnection`].
    pub refuse_connection: f64,
    /// [`crate::Fault::LoseReply`].
    pub lose_reply: f64,
    /// [`crate::Fault::Break`], as late as a request that hangs.
    pub break_off: f64,
    /// [`crate::Fault::Hang`]: half of them applied late, half of them never.
    pub hang: f64,
    /// How late a hanging request is applied; never later than its own `timeout` parameter allows.
    pub hang_for: RangeInclusive<Duration>,
    /// [`crate::Fault::Conflict`], of a PUT or PATCH.
    pub conflict: f64,
    /// [`crate::Fault::TooManyRequests`].
    pub too_many_requests: f64,
    /// [`crate::Fault::InternalError`].
    pub internal_error: f64,
    /// [`crate::Fault::Unavailable`].
    pub unavailable: f64,
    /// [`crate::Fault::Timeout`], applied or not.
    pub timeout: f64,
    /// [`crate::Fault::Gone`], of a list with a token or a watch.
    pub gone: f64,
    /// [`crate::Fault::Quota`], of a POST of a Pod.
    pub quota: f64,
    /// The delays and faults of watches.
    pub watch: WatchRates,
}

/// How far each watch lags behind the store, and how often it fails, as a probability per watch.
#[derive(Debug, Clone, PartialEq)]
pub struct WatchRates {
    /// How far it lags behind the store.
    pub lag: RangeInclusive<Duration>,
    /// It lags by one to ten seconds.
    pub behind: f64,
    /// It ends within a minute.
    pub close: f64,
    /// It stands still for up to half a minute at some time within its first minute.
    pub freeze: f64,
}

impl Rates {
    /// No faults and no delay at all.
    #[must_use]
    pub fn none() -> Self {
        Self {
            latency: ms(0, 0),
            staleness: ms(0, 0),
            refuse_connection: 0.0,
            lose_reply: 0.0,
            break_off: 0.0,
            hang: 0.0,
            hang_for: ms(0, 60_000),
            conflict: 0.0,
            too_many_requests: 0.0,
            internal_error: 0.0,
            unavailable: 0.0,
            timeout: 0.0,
            gone: 0.0,
            quota: 0.0,
            watch: WatchRates { lag: ms(0, 0), behind: 0.0, close: 0.0, freeze: 0.0 },
        }
    }

    /// No faults; requests and watches take a few milliseconds.
    #[must_use]
    pub fn calm() -> Self {
        let none = Self::none();
        Self { latency: ms(1, 8), watch: WatchRates { lag: ms(1, 8), ..none.watch }, ..none }
    }

    /// All faults, each now and then.
    #[must_use]
    pub fn rough() -> Self {
        Self {
            latency: ms(0, 80),
            staleness: ms(0, 3_000),
            refuse_connection: 0.02,
            lose_reply: 0.02,
            hang: 0.005,
            conflict: 0.01,
            too_many_requests: 0.01,
            internal_error: 0.01,
            unavailable: 0.01,
            timeout: 0.01,
            gone: 0.05,
            quota: 0.01,
            watch: WatchRates { lag: ms(0, 80), behind: 0.2, close: 0.5, freeze: 0.2 },
            ..Self::none()
        }
    }
}
