//! A moment on the local clocks.

use std::time::Duration;

use jiff::Timestamp;

/// A moment on the local clocks, each of which serves one purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// The monotonic clock, since the program started: for windows and time-outs. It may stand still while
    /// the machine is suspended.
    pub steady: Duration,
    /// Time since the program started, including suspension. Proofs of ownership expire by this clock.
    pub boot: Duration,
    /// The local wall clock, for users.
    pub wall: Timestamp,
}

impl Now {
    /// The moment at which the program starts, before any clock was read.
    pub const START: Now = Now { steady: Duration::ZERO, boot: Duration::ZERO, wall: Timestamp::UNIX_EPOCH };
}
