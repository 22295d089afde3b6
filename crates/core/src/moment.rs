//! The moment of a decision.

use framework_api::Time;
use jiff::Timestamp;

/// The moment of a decision, and the randomness that it may use.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// Now, corrected to the API server's clock as far as it is known.
    pub now: Timestamp,
    /// The last `Date` of the API server that was fetched since the last sync, if any. Forced deletions and
    /// expiries depend on it alone, never on `now` (rule A8).
    pub server: Option<Time>,
    /// Unique for every sync, and unpredictable. Instance UIDs and random delays derive from it.
    pub seed: u128,
}

impl Moment {
    /// Now, in whole seconds.
    pub fn time(&self) -> Time {
        Time::floor(self.now)
    }
}
