//! The share of all objects that a watch shows.

use crate::slot::Slots;

/// The slots whose objects a LIST, and the watch after it, show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Selection {
    /// The number of the latest grant that was known when the LIST began. Numbers rise with each grant. A
    /// LIST that began before a slot was granted may lack what its earlier owner has changed (rule B8).
    pub grant: u64,
    /// The slots.
    pub slots: Slots,
}

/// Everything, as a controller that runs alone watches it.
impl Default for Selection {
    fn default() -> Self {
        Selection { grant: 0, slots: Slots::ALL }
    }
}
