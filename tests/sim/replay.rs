//! The same seed gives the same trace: with the production controller inside, with users, faults and crashes.

use std::collections::BTreeSet;

use crate::simulation::walk::{Manner, walk};

#[test]
fn a_seed_replays_to_the_last_byte_and_no_two_seeds_alike() {
    let digests: Vec<u64> = (0..50).map(|seed| walk(seed, Manner::default()).digest).collect();
    for (seed, digest) in digests.iter().enumerate() {
        let again = walk(seed as u64, Manner::default()).digest;
        assert_eq!(again, *digest, "seed {seed} took another way");
    }
    let different: BTreeSet<u64> = digests.iter().copied().collect();
    assert_eq!(different.len(), digests.len());
}
