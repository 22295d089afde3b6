//! The share of all objects that a watch shows.

use crate::slot::Slots;

/// The slots whose objects a LIST and the watch after it show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotSelection {
    /// The number of the latest grant that was known when the LIST began. Numbers rise with each grant. A
    /// LIST that began before a slot was granted may lack changes of its earlier owner (rule B8).
    pub grant: u64,
    /// The slots that are watched.
    pub slots: Slots,
    /// Those of them that the LIST shows. The others were listed before, since their grant, and the watch
    /// goes on from the last version it showed.
    pub list: Slots,
}

impl SlotSelection {
    /// A share of which every slot is listed.
    pub fn whole(grant: u64, slots: Slots) -> Self {
        SlotSelection { grant, slots, list: slots }
    }
}

/// Everything, as a controller that runs alone watches it.
impl Default for SlotSelection {
    fn default() -> Self {
        SlotSelection::whole(0, Slots::ALL)
    }
}
