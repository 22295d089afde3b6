//! What a waiting unit takes, counted by the allocator.
//!
//! A program of its own, because the allocator that counts is that of the whole program.

#![allow(clippy::disallowed_macros, reason = "it says what it has counted")]

mod crowd;

use allocation_counter::measure;
use crowd::{Crowd, RUNNING, all_different, mixed};

const BYTES_PER_UNIT: usize = 1_000;
const UNITS: usize = 50_000;

#[test]
fn a_waiting_unit_takes_less_than_a_kilobyte() {
    for (what, queues, shape) in [
        ("30 queues, three different asks", 30, mixed as crowd::Shape),
        ("1000 queues, three different asks", 1000, mixed),
        ("one queue, no two ask the same", 1, all_different),
    ] {
        let mut kept = None;
        let taken = measure(|| {
            let mut crowd = Crowd::new(queues, UNITS, shape);
            crowd.round();
            kept = Some(crowd);
        });
        let units = kept.map_or(0, |crowd| crowd.namespace.waiting());
        assert_eq!(units, UNITS);
        let bytes = usize::try_from(taken.bytes_current).unwrap() / (UNITS + RUNNING);
        println!("{what}: {bytes} bytes a unit");
        assert!(bytes <= BYTES_PER_UNIT, "{what}: {bytes} bytes a unit");
    }
}
