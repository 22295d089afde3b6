//! Benchmarks of rounds of the queue scheduler: 50,000 units wait for a quota that is full.
//!
//! `cargo bench --bench queue -- FILTER` measures. No benchmark fails because it is slow;
//! `crates/queue/tests/queue/cost.rs` bounds the number of units that a round examines.

#[path = "../crates/queue/tests/synthetic/mod.rs"]
mod synthetic;

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use synthetic::{SyntheticLoad, all_different, mixed};

const UNITS: usize = 50_000;
const LOADS: [(&str, usize, synthetic::Shape); 3] = [
    ("1000 queues", 1000, mixed),
    ("30 queues", 30, mixed),
    ("one queue, no two ask the same", 1, all_different),
];

/// The round after one unit ended and another arrived.
fn change(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("queue, 50000 wait, a round after one change");
    for (what, queues, shape) in LOADS {
        group.bench_function(what, |bencher| {
            let mut load = SyntheticLoad::new(queues, UNITS, shape);
            load.round();
            bencher.iter_custom(|times| {
                let mut took = Duration::ZERO;
                for _ in 0..times {
                    load.end();
                    load.come();
                    let begun = Instant::now();
                    black_box(load.round());
                    took += begun.elapsed();
                }
                took
            });
        });
    }
}

/// The first round after a start, when every unit is new.
fn first(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("queue, 50000 wait, the first round");
    group.sample_size(10);
    for (what, queues, shape) in LOADS {
        let load = || SyntheticLoad::new(queues, UNITS, shape);
        group.bench_function(what, |bencher| {
            bencher.iter_batched_ref(load, |load| load.round().len(), BatchSize::PerIteration);
        });
    }
}

/// The position of the last unit.
fn position(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("queue, 50000 wait, the position of the last");
    group.sample_size(10);
    for (what, queues, shape) in LOADS {
        let mut load = SyntheticLoad::new(queues, UNITS, shape);
        load.round();
        let last = format!("00000000-0000-4000-8000-{:012}", UNITS - 1);
        group.bench_function(what, |bencher| bencher.iter(|| load.namespace.position(&last)));
    }
}

criterion_group!(benches, change, first, position);
criterion_main!(benches);
