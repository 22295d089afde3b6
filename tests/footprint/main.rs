//! The costs of the controller: allocations of an event and of reading it, bytes of a Pod in the cache,
//! memory of a process, and threads that are blocked.
//!
//! This is a program of its own, because its allocator counts the allocations of every test. It counts by
//! thread, so that tests do not see each other.

mod decoding_cost;
mod evaluation_cost;
mod large_templates;
mod memory;
mod pod_event;
mod replica;
mod stall;
mod steady_state;
mod synthetic;
