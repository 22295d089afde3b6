//! The settings of the controller of QueueUnits.

use std::time::Duration;

use framework_core::Defects;
use framework_message::Now;

use crate::object::Reply;

/// The settings of the controller of QueueUnits.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How long a unit may be overtaken by others before capacity is kept for it.
    pub reserve_after: Duration,
    /// The longest life of a request that was sent.
    pub request_lifetime: Duration,
    /// Rules that a test switches off. The shipped program keeps all of them.
    pub defects: Defects,
}

impl Settings {
    /// Until when, on the monotonic clock, a request that ended with this reply may land; `None`: it has
    /// landed, or never will.
    pub fn may_land(&self, now: Now, reply: &Reply) -> Option<Duration> {
        matches!(reply, Reply::Unknown(_)).then(|| now.steady + self.request_lifetime)
    }
}
