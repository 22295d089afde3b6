//! The promises over thousands of random lives: users, Pods, faults and a controller that dies again and
//! again, each walk from one seed.
//!
//! `FRAMEWORK_SIM_SEEDS=from..to` chooses the seeds; `cargo xtask soak sim --seeds 100000` runs many.

use std::ops::Range;

use crate::simulation::seeds::{each, from_environment};
use crate::simulation::walk::walk;

/// Seeds of the gate.
const SEEDS: Range<u64> = 0..2_000;

#[test]
fn every_promise_holds_in_every_walk_and_every_framework_ends() {
    let test = "every_promise_holds_in_every_walk";
    each(test, from_environment(SEEDS), walk);
}
