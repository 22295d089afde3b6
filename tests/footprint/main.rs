//! What the controller costs: allocations of an event, bytes of a Pod in the cache, memory of a process, and
//! threads that are blocked.
//!
//! A program of its own, because its allocator counts what every test allocates. It counts by thread, so that
//! tests do not see each other.

mod evaluation_cost;
mod memory;
mod replica;
mod stall;
mod steady_state;
mod synthetic;
