//! A round costs what has changed, counted by how often an ask is held against the room.

#![allow(clippy::disallowed_macros, reason = "it says what it has counted")]

use framework_queue::{Decision, Verdict};

use crate::crowd::{Crowd, all_different, mixed};
use crate::world::released;

const UNITS: usize = 50_000;
const QUEUES: usize = 1_000;

fn refused(decisions: &[Decision]) -> usize {
    decisions.iter().filter(|decision| matches!(decision.verdict, Verdict::Wait(_))).count()
}

#[test]
fn a_round_over_fifty_thousand_waiting_units_looks_at_what_has_changed() {
    let mut crowd = Crowd::new(QUEUES, UNITS, mixed);
    assert_eq!(crowd.namespace.waiting(), UNITS);
    let (decisions, looks) = crowd.counted();
    println!("{UNITS} units in {QUEUES} queues, the first round: {looks} looks");
    assert_eq!((refused(&decisions), released(&decisions).len()), (UNITS, 0), "each is told why it waits");
    assert!(looks <= 3, "{looks}: one for each different ask");

    let (decisions, looks) = crowd.counted();
    assert_eq!((decisions.len(), looks), (0, 0), "nothing has changed");

    crowd.end();
    let (decisions, looks) = crowd.counted();
    println!("one has ended: {looks} looks, {} decisions", decisions.len());
    assert_eq!((released(&decisions).len(), refused(&decisions)), (1, 0));
    assert!(looks <= 5, "{looks}");

    crowd.come();
    let (decisions, looks) = crowd.counted();
    println!("one has come: {looks} looks");
    assert_eq!((decisions.len(), looks), (1, 0), "it asks what many ask in vain");

    (0..25).for_each(|_| crowd.end());
    let (decisions, looks) = crowd.counted();
    let gone = released(&decisions).len();
    println!("25 have ended: {looks} looks, {gone} released");
    assert!(gone > 1 && looks <= u64::try_from(gone).unwrap() + 15, "{looks}");
}

#[test]
fn a_round_costs_little_more_when_each_queue_has_an_overdue_unit() {
    let mut crowd = Crowd::new(QUEUES, UNITS, mixed);
    crowd.round();
    // The youngest of all goes first, and so overtakes the first of all other queues.
    let last = format!("00000000-0000-4000-8000-{:012}", UNITS - 1);
    let mut facts = crowd.namespace.unit(&last).unwrap().clone();
    crowd.namespace.set_queue(
        "first",
        Some(framework_queue::QueueFacts { policy: framework_api::queue::QueuePolicy::Fifo, priority: 1 }),
    );
    facts.queue = "first".into();
    crowd.namespace.set_unit(&last, Some(facts));
    crowd.end();
    let overtaken = crowd.round().len() - 1;
    assert!(overtaken >= QUEUES - 1, "{overtaken}");
    crowd.pass(300);
    let (decisions, looks) = crowd.counted();
    assert_eq!(decisions.len(), overtaken, "each has its ask set aside");
    println!("{overtaken} become overdue: {looks} looks");
    crowd.end();
    let (decisions, looks) = crowd.counted();
    println!("one has ended: {looks} looks, {} decisions", decisions.len());
    assert!(looks <= 5, "{looks}");
}

#[test]
fn when_no_two_units_ask_the_same_a_round_looks_at_those_for_which_there_may_be_room() {
    let mut crowd = Crowd::new(1, UNITS, all_different);
    let (_, looks) = crowd.counted();
    println!("{UNITS} different asks in one queue, the first round: {looks} looks");
    assert!(looks <= UNITS as u64);
    (0..2).for_each(|_| crowd.end());
    let (decisions, looks) = crowd.counted();
    println!("two have ended: {looks} looks, {} decisions", decisions.len());
    // 2000m are free: 1001 units ask no more than that.
    assert_eq!(released(&decisions).len(), 1);
    assert!(looks <= 3 * 1_001 + 5, "{looks}");
}
