//! The memory of a waiting unit, counted by the allocator.
//!
//! A program of its own, because the allocator that counts is that of the whole program.

#![allow(
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    reason = "it says what it has counted, and timed"
)]

mod synthetic;

use allocation_counter::measure;
use framework_queue::ResourceRequests;
use k8s_openapi::api::core::v1::{Container, PodSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use synthetic::{RUNNING, SyntheticLoad, all_different, mixed};

/// The message of a unit is one allocation, and its position a share of one.
const ALLOCATIONS_PER_UNIT: f64 = 2.0;
const BYTES_PER_UNIT: usize = 1_000;
const UNITS: usize = 50_000;

#[test]
fn a_waiting_unit_takes_less_than_a_kilobyte() {
    for (what, queues, shape) in [
        ("30 queues, three different asks", 30, mixed as synthetic::Shape),
        ("1000 queues, three different asks", 1000, mixed),
        ("one queue, no two ask the same", 1, all_different),
    ] {
        let mut kept = None;
        let taken = measure(|| {
            let mut load = SyntheticLoad::new(queues, UNITS, shape);
            load.round();
            kept = Some(load);
        });
        let units = kept.map_or(0, |load| load.namespace.waiting());
        assert_eq!(units, UNITS);
        let bytes = usize::try_from(taken.bytes_current).unwrap() / (UNITS + RUNNING);
        println!("{what}: {bytes} bytes a unit");
        assert!(bytes <= BYTES_PER_UNIT, "{what}: {bytes} bytes a unit");
    }
}

#[test]
fn the_first_round_over_unique_requests_allocates_little_per_unit() {
    let mut load = SyntheticLoad::new(1000, UNITS, all_different);
    let begun = std::time::Instant::now();
    let mut decided = 0;
    let made = measure(|| decided = load.round().len());
    let (took, each) = (begun.elapsed(), made.count_total as f64 / UNITS as f64);
    println!("{UNITS} different asks: {took:?}, {each:.2} allocations a unit");
    assert_eq!(decided, UNITS, "each gets a reason");
    assert!(each <= ALLOCATIONS_PER_UNIT, "{each:.2} allocations a unit");
    let mut load = SyntheticLoad::new(1000, UNITS, mixed);
    let begun = std::time::Instant::now();
    let made = measure(|| decided = load.round().len());
    let (took, each) = (begun.elapsed(), made.count_total as f64 / UNITS as f64);
    println!("{UNITS} units, three different asks: {took:?}, {each:.2} allocations a unit");
    assert!(decided == UNITS && each <= 0.5, "{each:.2} allocations a unit");
}

/// The sum is made on the thread of all events.
#[test]
fn an_init_container_without_requests_costs_a_sum_nothing() {
    let sidecar = Container {
        restart_policy: Some("Always".to_owned()),
        resources: Some(ResourceRequirements {
            requests: Some((0..29).map(|at| (format!("r{at}"), Quantity("1".to_owned()))).collect()),
            ..ResourceRequirements::default()
        }),
        ..Container::default()
    };
    let allocations = |empty: usize| {
        let init = std::iter::once(sidecar.clone()).chain(vec![Container::default(); empty]).collect();
        let spec = PodSpec { init_containers: Some(init), ..PodSpec::default() };
        measure(|| assert!(ResourceRequests::pod(&spec).is_ok())).count_total
    };
    assert_eq!(allocations(0), allocations(999));
}
