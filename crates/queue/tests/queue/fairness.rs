//! A unit that could fit starves behind none but those of higher priority in its queue. One that is overtaken
//! waits at most until it is overdue. Then it waits at most until the units that run, and those overdue
//! before it, have ended.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use framework_api::queue::QueuePolicy;
use framework_queue::order::Overdue;
use framework_queue::{Amount, UnitFacts, UnitPhase, UnitUpdate};
use jiff::Timestamp;
use proptest::prelude::*;

use crate::world::{World, at, unit, with_priority};

/// A second at a time, units come, run as long as they do, and end.
struct Course {
    world: World,
    /// How long each runs.
    lasts: BTreeMap<Arc<str>, i64>,
    /// The units that run, and until when.
    ends: BTreeMap<Arc<str>, i64>,
    /// When each was released.
    released: BTreeMap<Arc<str>, i64>,
    /// Since when each was overtaken, and how many are overdue before it.
    overtaken: BTreeMap<Arc<str>, (i64, Option<usize>)>,
    reserve_after: i64,
}

impl Course {
    fn new(hard: &str, reserve_after: Duration, queues: &[(&str, QueuePolicy, i32)]) -> Self {
        let mut world = World::with(hard, reserve_after);
        for (name, policy, priority) in queues {
            world.queue(name, *policy, *priority);
        }
        Self {
            world,
            lasts: BTreeMap::new(),
            ends: BTreeMap::new(),
            released: BTreeMap::new(),
            overtaken: BTreeMap::new(),
            reserve_after: i64::try_from(reserve_after.as_secs()).unwrap_or(i64::MAX / 2),
        }
    }

    fn come(&mut self, uid: &str, facts: UnitFacts, lasts: i64) {
        self.world.set_unit(uid, facts);
        self.lasts.insert(uid.into(), lasts);
    }

    fn overdue(&self, uid: &Arc<str>) -> Option<Overdue> {
        let unit = self.world.namespace.unit(uid)?;
        let UnitPhase::Waiting { overtaken: Some(since), .. } = unit.phase else { return None };
        Some(Overdue { since, enqueued: unit.enqueued, uid: Arc::clone(uid) })
    }

    fn second(&mut self) {
        self.world.now += 1;
        let now = self.world.now;
        for (uid, _) in self.ends.extract_if(.., |_, end| *end <= now) {
            self.world.end(&uid);
        }
        for decision in self.world.namespace.round(at(now)) {
            match decision.update {
                UnitUpdate::Release => {
                    self.ends.insert(Arc::clone(&decision.uid), now + self.lasts[&decision.uid]);
                    self.released.insert(decision.uid, now);
                }
                UnitUpdate::Overtaken { since } => {
                    self.overtaken.insert(decision.uid, (since.as_second(), None));
                }
                UnitUpdate::Wait(_) | UnitUpdate::Reserved => {}
            }
        }
        let line: Vec<_> = self.overtaken.keys().filter_map(|uid| self.overdue(uid)).collect();
        for overdue in &line {
            let before = line.iter().filter(|other| *other < overdue).count();
            let (since, known) = self.overtaken.get_mut(&overdue.uid).unwrap();
            if since.saturating_add(self.reserve_after) <= now {
                known.get_or_insert(before);
            }
        }
    }
}

/// When it comes, queue, priority, cpu, memory, and how long it runs.
type Coming = (i64, usize, i32, i64, i64, i64);

const LONGEST: i64 = 30;

fn coming() -> impl Strategy<Value = Coming> {
    let size = || prop_oneof![5 => 1..4_i64, 1 => 4..11_i64];
    (0..200_i64, 0..3_usize, 0..3, size(), size(), 1..=LONGEST)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn an_overtaken_unit_goes_in_bounded_time(comings in prop::collection::vec(coming(), 1..120)) {
        let queues = [
            ("a", QueuePolicy::Priority, 0),
            ("b", QueuePolicy::Fifo, 0),
            ("c", QueuePolicy::Priority, 1),
        ];
        let reserve_after = Duration::from_secs(20);
        let mut course = Course::new("cpu 10 memory 10", reserve_after, &queues);
        // Each is done before the last of all could have run alone after all others.
        let last = 200 + LONGEST * i64::try_from(comings.len()).unwrap() + 30;
        for second in 0..last {
            for (nth, coming) in comings.iter().enumerate().filter(|(_, coming)| coming.0 == second) {
                let (_, queue, priority, cpu, memory, lasts) = *coming;
                let amounts = [("cpu", Amount::units(cpu)), ("memory", Amount::units(memory))];
                let mut facts = with_priority(priority, unit(queues[queue].0, second, ""));
                facts.requests = amounts.into_iter().collect();
                course.come(&format!("u{nth}"), facts, lasts);
            }
            course.second();
        }
        prop_assert_eq!(course.released.len(), comings.len(), "everybody goes");
        for (uid, (since, before)) in &course.overtaken {
            let before = i64::try_from(before.unwrap_or(0)).unwrap();
            let bound = since + 20 + (before + 1) * LONGEST + 1;
            let went = course.released[uid];
            prop_assert!(went <= bound, "{} went at {}, not by {}", uid, went, bound);
        }
    }
}

/// When a unit goes that asks for everything, while one that asks for half comes every ten seconds, earlier
/// in some queue and with some priority, and runs for twenty.
fn endless(big_in: &str, (small_in, priority): (&str, i32), reserve_after: Duration) -> Option<i64> {
    let queues = [
        ("low", QueuePolicy::Priority, 0),
        ("high", QueuePolicy::Priority, 9),
        ("fifo", QueuePolicy::Fifo, 0),
    ];
    let small = |second| with_priority(priority, unit(small_in, second, "cpu 5"));
    let mut course = Course::new("cpu 10", reserve_after, &queues);
    course.come("s", small(0), 20);
    course.second();
    course.come("big", unit(big_in, 1, "cpu 10"), 10);
    for second in 2..3000 {
        if second % 10 == 0 {
            course.come(&format!("s{second}"), small(second), 20);
        }
        course.second();
    }
    course.released.get("big").copied()
}

#[test]
fn a_big_unit_goes_in_spite_of_an_endless_stream_of_small_ones() {
    let five_minutes = Duration::from_secs(300);
    for (big_in, small_in) in [("low", "low"), ("low", "high"), ("high", "low")] {
        let went = endless(big_in, (small_in, 0), five_minutes).expect("it goes");
        assert!((300..=10 + 300 + 20 + 1).contains(&went), "{big_in}, {small_in}: at {went}");
    }
}

#[test]
fn without_a_reservation_the_same_stream_starves_it() {
    assert_eq!(endless("low", ("low", 0), Duration::MAX), None);
    assert_eq!(endless("low", ("high", 0), Duration::MAX), None);
}

#[test]
fn an_endless_stream_of_higher_priority_starves_it_in_its_own_queue_only() {
    let goes = |big_in, small_in| endless(big_in, (small_in, 9), Duration::from_secs(300)).is_some();
    assert!(!goes("low", "low"));
    assert!(goes("fifo", "fifo") && goes("low", "high") && goes("high", "low"));
}

#[test]
fn the_end_of_time_is_no_moment_to_wake() {
    let mut course = Course::new("cpu 10", Duration::MAX, &[("a", QueuePolicy::Fifo, 0)]);
    course.come("u1", unit("a", 0, "cpu 6"), 5);
    course.come("u2", unit("a", 0, "cpu 6"), 5);
    course.come("u3", unit("a", 0, "cpu 1"), 5);
    course.second();
    assert_eq!(course.overtaken.keys().map(|uid| &**uid).collect::<Vec<_>>(), ["u2"]);
    assert_eq!(course.world.namespace.next_wake(), Some(Timestamp::MAX));
}
