//! Who may act for a Framework: the only place that knows of shards.
//!
//! Asked before a Framework is evaluated and again before anything is sent for it. A controller that is alone
//! owns every slot.

use std::time::Duration;

/// The slots that this controller owns.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ownership;

impl Ownership {
    /// Whether this controller may act for the Frameworks of `slot` at `now`, on the steady clock.
    pub fn may_act(self, _slot: u8, _now: Duration) -> bool {
        true
    }
}
