//! The cost of reading one watch event of a Pod, in allocations, as JSON and as protobuf.
//! `benches/pod_event.rs` measures its time.

use std::hint::black_box;

use allocation_counter::{AllocationInfo, measure};

use crate::pod_event::{PodEvent, Stage};

/// The bytes of an event as JSON and as protobuf, around those in `docs/sharding.md`.
const LENGTHS: [std::ops::Range<usize>; 2] = [6_000..7_000, 4_200..5_200];

fn allocations<T>(read: impl Fn() -> T) -> AllocationInfo {
    measure(|| drop(black_box(read())))
}

#[test]
fn json_and_protobuf_give_the_same_pod_but_for_the_last_state() {
    for stage in Stage::ALL {
        let event = PodEvent::new(stage);
        let (mut json, protobuf) = (event.read_json(), event.read_protobuf());
        assert_eq!(json.last.take().is_some(), stage == Stage::Deleted);
        assert_eq!(json.facts.end.is_some(), stage != Stage::Running);
        assert_eq!(format!("{json:?}"), format!("{protobuf:?}"), "{stage:?}");
    }
}

#[test]
fn an_event_is_about_as_long_as_one_that_an_api_server_sent() {
    for stage in Stage::ALL {
        let (json, protobuf) = PodEvent::new(stage).lengths();
        println!("{stage:?}: {json} bytes of JSON, {protobuf} of protobuf");
        let [of_json, of_protobuf] = &LENGTHS;
        assert!(of_json.contains(&json) && of_protobuf.contains(&protobuf), "{json}, {protobuf}");
    }
}

#[test]
fn a_pod_that_is_not_deleted_is_read_in_less_memory_than_its_event() {
    for stage in Stage::ALL {
        let event = PodEvent::new(stage);
        let costs = [
            ("JSON", allocations(|| event.read_json())),
            ("protobuf", allocations(|| event.read_protobuf())),
            ("the last state as JSON", allocations(|| event.last_state())),
        ];
        for (what, cost) in costs {
            println!("{stage:?}, {what}: {} allocations, {} bytes", cost.count_total, cost.bytes_total);
        }
        let [(_, json), (_, protobuf), _] = costs;
        let (_, shortest) = event.lengths();
        let is_small = |cost: AllocationInfo| cost.bytes_total < shortest as u64;
        assert!(is_small(protobuf), "{protobuf:?}");
        assert_eq!(is_small(json), stage != Stage::Deleted, "{json:?}");
    }
}
