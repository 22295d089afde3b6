//! Which replica owns which slot.
//!
//! Every replica renews a [`lease`] of its own. One of them is the leader: it computes the owners by the hash
//! [`ring`] and proposes moves. The owner itself hands a slot over once nothing of its own is on the way. The
//! argument for exclusive ownership is in `docs/sharding.md`.
//!
//! This crate is synchronous and deterministic. It does no I/O, reads no clock and draws no random numbers:
//! the name of the life in an [`Incarnation`] comes from outside.
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing,
        clippy::unreachable
    )
)]

mod clock;
pub mod defect;
pub mod event;
mod hold;
mod holding;
mod incarnation;
pub mod leader;
pub mod lease;
pub mod map;
mod map_view;
pub mod member;
pub mod moves;
mod peers;
mod policy;
mod renewal;
pub mod ring;
mod version;

pub use incarnation::Incarnation;
pub use policy::{LONGEST_LEASE, Policy, PolicyError, expiry, hold};
pub use version::{Seen, Version};
