//! The words that the deciding crates and the shell share: how an object is named, what a watch shows of it,
//! when something happened, which request a reply answers, and who may act.
//!
//! `framework-engine` and `framework-queueing` are stepped with these words and know nothing of each other;
//! `framework-runtime` turns bytes into them. This crate does no I/O, reads no clock and draws no random
//! numbers.

pub mod backoff;
mod change;
mod key;
mod now;
mod ownership;
mod reply;
mod slot;
mod ticket;
pub mod timeout;

pub use change::Change;
pub use key::Key;
pub use now::Now;
pub use ownership::{MayAct, Ownership};
pub use reply::{Rejection, Reply};
pub use slot::{Slot, Slots};
pub use ticket::Ticket;
