//! Claims about the scheduler of queues, properties of it, and what its rounds cost.

mod claims;
mod cost;
mod fairness;
mod model;
mod position;
mod property;
#[path = "../synthetic/mod.rs"]
mod synthetic;
mod world;
