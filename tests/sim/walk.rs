//! The promises over thousands of random lives: users, Pods, faults and a controller that dies again and
//! again, each walk from one seed.
//!
//! `FRAMEWORK_SIM_SEEDS=from..to` chooses the seeds; `cargo xtask soak sim --seeds 100000` runs many.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use crate::simulation;
use crate::simulation::walk::{Manner, walk};

/// Seeds of the gate.
const SEEDS: Range<u64> = 0..2_000;
/// Seeds are walked on as many threads, each walk in a runtime of its own.
const THREADS: usize = 2;
/// So many failures are printed; there may be more.
const TOLD: usize = 5;

/// The walk of a seed that went wrong once more, with every message.
fn story(seed: u64) -> String {
    let again = walk(seed, Manner { talks: true, ..Manner::default() });
    let Some(broken) = again.broken else {
        return format!("seed {seed} went wrong once and then right: it does not replay");
    };
    let next = seed + 1;
    let command = format!("FRAMEWORK_SIM_SEEDS={seed}..{next} cargo test --test sim walk:: -- --nocapture");
    let tail = broken.tail.join("\n");
    format!("{tail}\nseed {seed}: {}\nrepeat it with: {command}", broken.what)
}

#[test]
fn every_promise_holds_in_every_walk_and_every_framework_ends() {
    let seeds = simulation::seeds::from_environment(SEEDS);
    let began = Instant::now();
    let (next, requests) = (AtomicU64::new(seeds.start), AtomicUsize::new(0));
    let broken = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if !seeds.contains(&seed) || broken.lock().unwrap().len() >= TOLD {
                        return;
                    }
                    let walked = walk(seed, Manner::default());
                    requests.fetch_add(walked.requests, Ordering::Relaxed);
                    if let Some(what) = walked.broken {
                        broken.lock().unwrap().push((seed, what.what));
                    }
                }
            });
        }
    });
    let (seconds, requests) = (began.elapsed().as_secs_f64(), requests.into_inner());
    eprintln!("{} seeds, {requests} requests, {seconds:.1} s", seeds.end - seeds.start);
    let mut broken = broken.into_inner().unwrap();
    broken.sort_unstable();
    let failures: Vec<String> = broken.iter().map(|(seed, what)| format!("seed {seed}: {what}")).collect();
    assert!(broken.is_empty(), "{}\n\nall that was found:\n{}", story(broken[0].0), failures.join("\n"));
}
