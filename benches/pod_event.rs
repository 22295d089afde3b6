//! Benchmarks of reading one watch event of a Pod: as JSON, by the controller's own reader, and as protobuf.
//!
//! `cargo bench --bench pod_event -- FILTER` measures. No benchmark fails because it is slow.
//! `tests/footprint/decoding_cost.rs` counts the allocations, and shows that both give the same object.

#[path = "../tests/footprint/pod_event/mod.rs"]
mod pod_event;
#[path = "../tests/footprint/synthetic/mod.rs"]
mod synthetic;

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use pod_event::{PodEvent, Stage};

/// An event, from its bytes to the object that the engine takes. The line and the frame are cut already.
fn read(criterion: &mut Criterion) {
    for stage in Stage::ALL {
        let event = PodEvent::new(stage);
        let (json, protobuf) = event.lengths();
        let mut group = criterion.benchmark_group(format!("read an event of a Pod, {stage:?}"));
        group.bench_function(format!("JSON: {json} bytes"), |bencher| {
            bencher.iter(|| black_box(&event).read_json());
        });
        group.bench_function(format!("protobuf: {protobuf} bytes"), |bencher| {
            bencher.iter(|| black_box(&event).read_protobuf());
        });
        if stage == Stage::Deleted {
            group.bench_function("the last state as JSON, in addition to protobuf", |bencher| {
                bencher.iter(|| black_box(&event).last_state());
            });
        }
    }
}

criterion_group!(benches, read);
criterion_main!(benches);
