//! Claims about the scheduler of queues, properties of it, and the cost of its rounds.

mod claims;
mod cost;
mod fairness;
mod model;
mod position;
mod property;
#[path = "../synthetic/mod.rs"]
mod synthetic;
mod world;
