//! Claims about the scheduler of queues, properties of it, and what its rounds cost.

mod claims;
mod cost;
#[path = "../crowd/mod.rs"]
mod crowd;
mod fairness;
mod model;
mod places;
mod property;
mod world;
