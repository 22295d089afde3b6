//! The settings of the controller of QueueUnits.

use std::time::Duration;

/// The settings of the controller of QueueUnits.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How long a unit may be overtaken by others before capacity is kept for it.
    pub reserve_after: Duration,
    /// The longest life of a request that was sent.
    pub request_lifetime: Duration,
}
