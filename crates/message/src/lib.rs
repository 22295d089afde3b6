//! The types that the deciding crates and the shell share. They name objects, carry changes from watches,
//! measure time, match replies to requests, and define which replica may act.
//!
//! `framework-engine` and `framework-queueing` are stepped with these types and do not depend on each other;
//! `framework-runtime` turns bytes into them. This crate does no I/O, reads no clock and draws no random
//! numbers.

pub mod backoff;
mod change;
mod dues;
mod key;
mod now;
mod ownership;
mod paused;
mod reply;
mod slot;
mod slot_selection;
mod ticket;
pub mod timeout;

pub use change::Change;
pub use dues::Dues;
pub use key::Key;
pub use now::Now;
pub use ownership::{MayAct, Ownership, Right};
pub use paused::Paused;
pub use reply::{LONGEST_PAUSE, Rejection, Reply};
pub use slot::{Slot, Slots};
pub use slot_selection::SlotSelection;
pub use ticket::Ticket;
