//! Makes a program a member of the replicas that share the slots.
//!
//! `framework_shard` decides; this crate steps it with the time, with the Leases and the map as the API
//! server shows them, and with the ends of their writes. Its [`run`](run::run) is a task of its own with a
//! connection of its own, so that a controller with much to do renews its Lease in time.

mod exchange;
mod grants;
mod lease;
mod leases;
mod map;
mod message;
mod report;
mod request;
pub mod run;
mod slim;
mod store;
mod unconfirmed;
mod watch;

pub use framework_shard::event::Outcome;
pub use framework_shard::member::view::{Figures, View};
pub use lease::is_member;
pub use map::MAP;
pub use message::{Command, Elected, LeaderLease, LeaseRole, Moved, Notice, ViewQuery};
pub use run::Parts;
