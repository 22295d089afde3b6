//! The production controller in the simulated cluster: single lives, and random walks over thousands of them.

#[path = "../finished/mod.rs"]
mod finished;
#[path = "../simulation/mod.rs"]
mod simulation;

mod compression;
mod lifecycle;
mod lifetime;
mod queue;
mod replay;
mod timers;
mod walk;
