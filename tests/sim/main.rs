//! The production controller in the simulated cluster: single lives, random walks over thousands of them, and
//! the same with single rules switched off.

#[path = "../finished/mod.rs"]
mod finished;
#[path = "../simulation/mod.rs"]
mod simulation;

mod compression;
mod defects;
mod job_rows;
mod lifecycle;
mod lifetime;
mod outage;
mod queue;
mod replay;
mod replicas;
mod shared_queues;
mod slot_labels;
mod timers;
mod two_owners;
mod walk;
