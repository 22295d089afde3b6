//! A round checks only the changes, counted by how often a request is compared with the room.

#![allow(clippy::disallowed_macros, reason = "it says what it has counted")]

use framework_queue::{Decision, UnitUpdate};

use crate::synthetic::{SyntheticLoad, all_different, mixed};
use crate::world::released;

const UNITS: usize = 50_000;
const QUEUES: usize = 1_000;

fn refused(decisions: &[Decision]) -> usize {
    decisions.iter().filter(|decision| matches!(decision.update, UnitUpdate::Wait(_))).count()
}

#[test]
fn a_round_over_fifty_thousand_units_checks_only_changes() {
    let mut load = SyntheticLoad::new(QUEUES, UNITS, mixed);
    assert_eq!(load.namespace.waiting(), UNITS);
    let (decisions, fit_checks) = load.counted();
    println!("{UNITS} units in {QUEUES} queues, the first round: {fit_checks} fit checks");
    assert_eq!((refused(&decisions), released(&decisions).len()), (UNITS, 0), "each gets a reason");
    assert!(fit_checks <= 3, "{fit_checks}: one for each shape");

    let (decisions, fit_checks) = load.counted();
    assert_eq!((decisions.len(), fit_checks), (0, 0), "nothing has changed");

    load.end();
    let (decisions, fit_checks) = load.counted();
    println!("one has ended: {fit_checks} fit checks, {} decisions", decisions.len());
    assert_eq!((released(&decisions).len(), refused(&decisions)), (1, 0));
    assert!(fit_checks <= 5, "{fit_checks}");

    load.come();
    let (decisions, fit_checks) = load.counted();
    println!("one has come: {fit_checks} fit checks");
    assert_eq!((decisions.len(), fit_checks), (1, 0), "it asks what many ask in vain");

    (0..25).for_each(|_| load.end());
    let (decisions, fit_checks) = load.counted();
    let gone = released(&decisions).len();
    println!("25 have ended: {fit_checks} fit checks, {gone} released");
    assert!(gone > 1 && fit_checks <= u64::try_from(gone).unwrap() + 15, "{fit_checks}");
}

#[test]
fn a_round_costs_little_more_when_each_queue_has_an_overdue_unit() {
    let mut load = SyntheticLoad::new(QUEUES, UNITS, mixed);
    load.round();
    // The youngest of all goes first, and so overtakes the first of all other queues.
    let last = format!("00000000-0000-4000-8000-{:012}", UNITS - 1);
    let mut facts = load.namespace.unit(&last).unwrap().clone();
    load.namespace.set_queue(
        "first",
        Some(framework_queue::QueueFacts { policy: framework_api::queue::QueuePolicy::Fifo, priority: 1 }),
    );
    facts.queue = "first".into();
    load.namespace.set_unit(&*last, Some(facts));
    load.end();
    let overtaken = load.round().len() - 1;
    assert!(overtaken >= QUEUES - 1, "{overtaken}");
    load.pass(300);
    let (decisions, fit_checks) = load.counted();
    assert_eq!(decisions.len(), overtaken, "each has its ask set aside");
    println!("{overtaken} become overdue: {fit_checks} fit checks");
    load.end();
    let (decisions, fit_checks) = load.counted();
    println!("one has ended: {fit_checks} fit checks, {} decisions", decisions.len());
    assert!(fit_checks <= 5, "{fit_checks}");
}

#[test]
fn a_round_over_unique_requests_checks_only_units_that_may_fit() {
    let mut load = SyntheticLoad::new(1, UNITS, all_different);
    let (_, fit_checks) = load.counted();
    println!("{UNITS} different requests in one queue, the first round: {fit_checks} fit checks");
    assert!(fit_checks <= UNITS as u64);
    (0..2).for_each(|_| load.end());
    let (decisions, fit_checks) = load.counted();
    println!("two have ended: {fit_checks} fit checks, {} decisions", decisions.len());
    // 2000m are free: 1001 units ask no more than that.
    assert_eq!(released(&decisions).len(), 1);
    assert!(fit_checks <= 3 * 1_001 + 5, "{fit_checks}");
}
