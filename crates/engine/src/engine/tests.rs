//! Scenarios: the engine against a scripted cluster, event by event.
//!
//! Nothing is served, and no watch event is delivered, before the test says so: that is how interleavings are
//! made. Each rule's test is run a second time with the rule switched off, to show that it can fail.

mod budget;
mod cluster;
mod confirm;
mod creates;
mod drain;
mod history;
mod lifecycle;
mod ownership;
mod quarantine;
mod queue;
mod relist;
mod rules;
mod server;
mod timers;
mod writes;
