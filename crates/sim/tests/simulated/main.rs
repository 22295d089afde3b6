//! The simulated cluster: its own rules, its faults, and whether the real API server answers as it does.

mod conformance;
mod determinism;
mod faults;
mod neighbours;
mod objects;
mod queue_conformance;
