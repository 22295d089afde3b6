//! When a decision is made.

use framework_api::Time;
use jiff::Timestamp;

/// When a decision is made, and the randomness it may use.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// Now, corrected to the API server's clock as well as is known.
    pub now: Timestamp,
    /// The `Date` that the API server answered with when it was last asked; `None`: it was not asked since
    /// the last evaluation. Forced deletions and expiries act on this alone, never on `now` (rule A8).
    pub server: Option<Time>,
    /// Unique for every evaluation, and not to be guessed; instance UIDs and random delays derive from it.
    pub seed: u128,
}

impl Moment {
    /// Now, in whole seconds.
    pub fn time(&self) -> Time {
        Time::floor(self.now)
    }
}
