//! A position says which units are served before: the next releases, and their order.

use std::sync::Arc;

use framework_api::queue::QueuePolicy;
use framework_queue::{Amount, Namespace, ResourceRequests, UnitFacts, UnitPhase};
use proptest::prelude::*;

use crate::world::{World, at, quota, released, requests, unit};

/// Queue, priority, time of arrival, requests of CPU and GPU, and the time at which it was overtaken.
type RawUnit = (usize, i32, i64, i64, i64, Option<i64>);

fn raw_unit() -> impl Strategy<Value = RawUnit> {
    (0..3_usize, 0..3, 0..6_i64, 0..8_i64, 1..3_i64, prop::option::weighted(0.2, 0..900_i64))
}

fn facts((queue, priority, came, cpu, gpu, overtaken): RawUnit) -> UnitFacts {
    let amounts = [("cpu", cpu), ("gpu", gpu)];
    UnitFacts {
        grows: false,
        queue: ["a", "b", "c"][queue].into(),
        priority,
        enqueued: at(came),
        requests: amounts
            .into_iter()
            .map(|(name, units)| (name, Amount::units(units)))
            .collect::<ResourceRequests>(),
        phase: UnitPhase::Waiting { overtaken: overtaken.map(at), reserved: false, reason: None },
    }
}

/// All units wait for the one that holds everything.
fn waiting(units: &[RawUnit]) -> Namespace {
    let mut world = World::new("cpu 500 gpu 100");
    world.queue("b", QueuePolicy::Priority, 1);
    world.queue("c", QueuePolicy::Fifo, 0);
    world.queue("all", QueuePolicy::Fifo, 9);
    for (at, raw) in units.iter().enumerate() {
        world.set_unit(&format!("u{}", at * 7 % 30), facts(*raw));
    }
    let mut all = unit("all", 0, "cpu 500 gpu 100");
    all.phase = UnitPhase::Released { usage: requests("cpu 500 gpu 100") };
    world.set_unit("all", all);
    assert_eq!(world.released(0), [""; 0]);
    world.namespace
}

proptest! {
    #[test]
    fn positions_are_the_order_in_which_units_go(units in prop::collection::vec(raw_unit(), 1..30)) {
        let mut namespace = waiting(&units);
        let position = |uid: &str| namespace.position(uid).unwrap();
        let positions: Vec<_> = (0..units.len()).map(|at| format!("u{}", at * 7 % 30)).collect();
        let mut positions: Vec<_> = positions.iter().map(|uid| (position(uid), uid.clone())).collect();
        namespace.set_unit("all", None);
        let order = released(&namespace.round(at(1000)));
        positions.sort_by_key(|(position, _)| position.before);
        prop_assert_eq!(positions.len(), order.len());
        let mut last: Option<Arc<str>> = None;
        for (nth, (uid, (position, of))) in order.into_iter().zip(positions).enumerate() {
            prop_assert_eq!((&*uid, nth), (&*of, position.before));
            prop_assert_eq!(position.directly_before, last);
            last = Some(uid);
        }
    }

    #[test]
    fn a_unit_without_predecessors_goes_first_if_it_fits(
        units in prop::collection::vec(raw_unit(), 1..30), cpu in 0..8_i64, gpu in 1..3_i64)
    {
        let mut namespace = waiting(&units);
        let mut uids = (0..units.len()).map(|at| format!("u{}", at * 7 % 30));
        let first = uids.find(|uid| namespace.position(uid).unwrap().before == 0).unwrap();
        let wanted = namespace.unit(&first).unwrap().requests.clone();
        let fits = wanted.get("cpu") <= Amount::units(cpu) && wanted.get("gpu") <= Amount::units(gpu);
        let mut all = namespace.unit("all").unwrap().clone();
        all.phase = UnitPhase::Released { usage: requests(&format!("cpu {} gpu {}", 500 - cpu, 100 - gpu)) };
        namespace.set_unit("all", Some(all));
        let order = released(&namespace.round(at(1000)));
        prop_assert_eq!(order.first().is_some_and(|uid| **uid == *first), fits);
    }
}

#[test]
fn a_limit_that_is_not_set_shares_nothing_out() {
    let mut world = World::new("");
    world.namespace.set_quota("team", Some(quota("", "")));
    world.set_unit("u1", unit("a", 1, "cpu 1"));
    world.set_unit("u2", unit("a", 2, "cpu 1"));
    world.set_unit("u3", unit("b", 2, "cpu 1"));
    assert_eq!(world.position("u3"), (0, 2, Some("u2".into())), "as old as u2, whose queue is called a");
}
