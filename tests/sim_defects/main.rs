//! Each rule of the controller switched off in the simulated cluster: the checks of `tests/sim` notice.
//!
//! A program of its own, because rules can be switched off only with feature `defects`, which nothing else is
//! tested with.

#[path = "../simulation/mod.rs"]
mod simulation;

mod lifecycle;
mod queue;
