//! Scenarios: the engine against a scripted cluster, event by event.
//!
//! The test decides when a request is served and when a watch event is delivered: that is how interleavings
//! are made. Each rule's test is run a second time with the rule switched off, to show that it can fail.

mod budget;
mod cluster;
mod confirm;
mod creates;
mod drain;
mod first_attempt;
mod history;
mod leftovers;
mod lifecycle;
mod ownership;
mod quarantine;
mod queue;
mod relist;
mod replies;
mod rules;
mod server;
mod slots;
mod timers;
mod traces;
mod writes;
