//! A moment on the local clocks.

use std::time::Duration;

use jiff::Timestamp;

/// A moment on both local clocks: the steady one for windows and time-outs, the wall clock for users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Time since the program started; never goes back.
    pub steady: Duration,
    /// The local wall clock.
    pub wall: Timestamp,
}
