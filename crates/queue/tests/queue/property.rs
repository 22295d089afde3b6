//! After any events in a namespace, its rounds decide by the rule, as if the namespace had received
//! everything just now. They never put more into a limit than it allows.

use std::sync::Arc;

use framework_api::queue::QueuePolicy;
use framework_queue::{Amount, Namespace, QueueFacts, QuotaFacts, ResourceRequests, UnitFacts, UnitPhase};
use proptest::prelude::*;

use crate::model::{Expected, Facts};
use crate::world::{RESERVE_AFTER, at};

const QUEUES: [&str; 4] = ["a", "b", "c", "d"];
const RESOURCES: [&str; 3] = ["cpu", "gpu", "pods"];
const KEYS: [&str; 4] = ["cpu", "requests.cpu", "requests.gpu", "pods"];

/// An event between two rounds. Numbers that choose among objects are taken modulo their count.
#[derive(Clone, Debug)]
enum Happening {
    Come {
        queue: usize,
        priority: i32,
        age: i64,
        requests: ResourceRequests,
        grows: bool,
    },
    End {
        which: usize,
    },
    Shrink {
        which: usize,
        percent: u64,
    },
    Leave {
        which: usize,
    },
    Prefer {
        which: usize,
        priority: i32,
    },
    /// A decision is read again as it was before: the write was refused.
    Forget {
        which: usize,
    },
    Queue {
        which: usize,
        facts: Option<QueueFacts>,
    },
    Quota {
        which: usize,
        facts: Option<QuotaFacts>,
    },
    Use {
        own: ResourceRequests,
    },
    Pass {
        seconds: i64,
    },
}

fn requests() -> impl Strategy<Value = ResourceRequests> {
    let amounts = prop::array::uniform3(prop_oneof![2 => Just(0), 5 => 1..6_i64, 1 => 6..20_i64]);
    // Many ask the same, as in life.
    let usual = prop::sample::select(vec![[1, 0, 1], [3, 1, 1], [7, 0, 2]]);
    let of = |units: [i64; 3]| RESOURCES.into_iter().zip(units.map(Amount::units)).collect();
    prop_oneof![usual, amounts].prop_map(of)
}

fn queue_facts() -> impl Strategy<Value = Option<QueueFacts>> {
    let policy = prop::sample::select(vec![QueuePolicy::Fifo, QueuePolicy::Priority]);
    let facts = (policy, 0..2).prop_map(|(policy, priority)| QueueFacts { policy, priority });
    prop::option::weighted(0.8, facts)
}

fn quota_facts() -> impl Strategy<Value = Option<QuotaFacts>> {
    let lines = prop::collection::btree_map(
        prop::sample::select(&KEYS[..]),
        (0..25_i64, 0..6_i64, prop_oneof![2 => Just(0), 1 => 0..8_i64]),
        0..4,
    );
    let facts = lines.prop_map(|lines| {
        let column = |of: fn(&(i64, i64, i64)) -> i64| {
            lines.iter().map(|(key, line)| ((*key).to_owned(), Amount::units(of(line)))).collect()
        };
        QuotaFacts {
            hard: column(|line| line.0),
            used: column(|line| line.1),
            unattributed: column(|line| line.2),
        }
    });
    prop::option::weighted(0.8, facts)
}

fn happening() -> impl Strategy<Value = Happening> {
    use Happening::{Come, End, Forget, Leave, Pass, Prefer, Queue, Quota, Shrink, Use};
    let which = || 0..100_usize;
    prop_oneof![
        8 => (0..4_usize, 0..3, 0..50_i64, requests(), prop::bool::weighted(0.3))
            .prop_map(|(queue, priority, age, requests, grows)| {
                Come { queue, priority, age, requests, grows }
            }),
        4 => which().prop_map(|which| End { which }),
        1 => (which(), 0..100_u64).prop_map(|(which, percent)| Shrink { which, percent }),
        1 => which().prop_map(|which| Leave { which }),
        1 => (which(), 0..3).prop_map(|(which, priority)| Prefer { which, priority }),
        1 => which().prop_map(|which| Forget { which }),
        1 => (0..4_usize, queue_facts()).prop_map(|(which, facts)| Queue { which, facts }),
        2 => (0..2_usize, quota_facts()).prop_map(|(which, facts)| Quota { which, facts }),
        1 => requests().prop_map(|own| Use { own }),
        4 => prop_oneof![0..10_i64, 100..400_i64].prop_map(|seconds| Pass { seconds }),
    ]
}

/// A namespace that gets the events, and the same facts for the model.
struct Both {
    namespace: Namespace,
    facts: Facts,
    now: i64,
    came: usize,
}

impl Both {
    fn new() -> Self {
        let mut both =
            Self { namespace: Namespace::new(RESERVE_AFTER), facts: Facts::default(), now: 1000, came: 0 };
        for (which, name) in QUEUES.into_iter().enumerate().take(3) {
            let policy = if name == "c" { QueuePolicy::Fifo } else { QueuePolicy::Priority };
            both.happen(&Happening::Queue { which, facts: Some(QueueFacts { policy, priority: 0 }) });
        }
        let hard = [("cpu", 12), ("pods", 15)].map(|(key, units)| (key.to_owned(), Amount::units(units)));
        let quota = QuotaFacts { hard: hard.into(), ..Default::default() };
        both.happen(&Happening::Quota { which: 0, facts: Some(quota) });
        both
    }

    fn choose(&self, which: usize, wanted: impl Fn(&UnitFacts) -> bool) -> Option<(Arc<str>, UnitFacts)> {
        let some: Vec<_> = self.facts.units.iter().filter(|(_, unit)| wanted(unit)).collect();
        let (uid, unit) = some.get(which % some.len().max(1))?;
        Some((Arc::clone(uid), (*unit).clone()))
    }

    fn set_unit(&mut self, uid: &Arc<str>, unit: Option<UnitFacts>) {
        self.namespace.set_unit(Arc::clone(uid), unit.clone());
        match unit {
            Some(unit) => self.facts.units.insert(Arc::clone(uid), unit),
            None => self.facts.units.remove(uid),
        };
    }

    fn happen(&mut self, what: &Happening) {
        let waits = |unit: &UnitFacts| matches!(unit.phase, UnitPhase::Waiting { .. });
        let runs = |unit: &UnitFacts| !waits(unit);
        match what {
            Happening::Come { queue, priority, age, requests, grows } => {
                self.came += 1;
                // Not in the order in which they come, so that ties are broken by something else.
                let uid = format!("u{:02}", self.came * 37 % 100).into();
                let unit = UnitFacts {
                    queue: QUEUES[*queue].into(),
                    priority: *priority,
                    enqueued: at(self.now - age),
                    requests: requests.clone(),
                    grows: *grows,
                    phase: UnitPhase::NEW,
                };
                self.set_unit(&uid, Some(unit));
            }
            Happening::End { which } => {
                if let Some((uid, _)) = self.choose(*which, runs) {
                    self.set_unit(&uid, None);
                }
            }
            Happening::Shrink { which, percent } => {
                if let Some((uid, mut unit)) = self.choose(*which, runs) {
                    let cut = |(name, amount): (&Arc<str>, Amount)| {
                        let units = amount.nanos() / 1_000_000_000 * i128::from(*percent) / 100;
                        (Arc::clone(name), Amount::units(i64::try_from(units).unwrap()))
                    };
                    unit.phase = UnitPhase::Released { usage: unit.requests.iter().map(cut).collect() };
                    self.set_unit(&uid, Some(unit));
                }
            }
            Happening::Leave { which } => {
                if let Some((uid, _)) = self.choose(*which, waits) {
                    self.set_unit(&uid, None);
                }
            }
            Happening::Prefer { which, priority } => {
                if let Some((uid, unit)) = self.choose(*which, waits) {
                    self.set_unit(&uid, Some(UnitFacts { priority: *priority, ..unit }));
                }
            }
            Happening::Forget { which } => {
                if let Some((uid, unit)) = self.choose(*which, |_| true) {
                    self.set_unit(&uid, Some(UnitFacts { phase: UnitPhase::NEW, ..unit }));
                }
            }
            Happening::Queue { which, facts } => {
                self.namespace.set_queue(QUEUES[*which], *facts);
                self.facts.queues.remove(QUEUES[*which]);
                self.facts.queues.extend(facts.map(|facts| (Arc::from(QUEUES[*which]), facts)));
            }
            Happening::Quota { which, facts } => {
                let name = ["team", "other"][*which];
                self.namespace.set_quota(name, facts.clone());
                self.facts.quotas.remove(name);
                self.facts.quotas.extend(facts.clone().map(|facts| (name.to_owned(), facts)));
            }
            Happening::Use { own } => {
                self.namespace.set_own_usage(own.clone());
                self.facts.own = own.clone();
            }
            Happening::Pass { seconds } => self.now += seconds,
        }
    }

    /// Decides, in three ways that must agree.
    fn round(&mut self) -> Expected {
        let mut again = self.facts.namespace();
        let decisions = self.namespace.round(at(self.now));
        assert_eq!(again.round(at(self.now)), decisions, "given all at once, it decides something else");
        let before = self.facts.clone();
        let expected = self.facts.round(at(self.now));
        assert_eq!(Expected::of(&decisions), expected, "{before:#?}");
        for (uid, unit) in &self.facts.units {
            assert_eq!(self.namespace.unit(uid), Some(unit));
        }
        assert_eq!(self.namespace.next_wake(), again.next_wake());
        assert_within_limits(&before, &expected, &self.facts);
        expected
    }
}

/// The released units fit beside all that was held before, in every limit that they ask of.
fn assert_within_limits(before: &Facts, expected: &Expected, after: &Facts) {
    let available = after.available();
    for uid in &expected.released {
        for (resource, _) in before.units[uid].requests.iter() {
            let left = available.get(&**resource).copied().unwrap_or_default();
            assert!(left >= Amount::ZERO, "{uid} is one {resource} too many");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn rounds_decide_by_the_rule_after_any_events(happenings in prop::collection::vec(
        prop::collection::vec(happening(), 1..5), 1..20))
    {
        let mut both = Both::new();
        for group in happenings {
            group.iter().for_each(|what| both.happen(what));
            both.round();
            prop_assert_eq!(both.round(), Expected::default(), "a round leaves nothing undecided");
        }
    }

    #[test]
    fn after_any_events_each_unit_that_fits_alone_goes_in_the_end(happenings in
        prop::collection::vec(prop::collection::vec(happening(), 1..8), 1..12))
    {
        let mut both = Both::new();
        for group in happenings {
            group.iter().for_each(|what| both.happen(what));
            both.round();
        }
        for (which, name) in QUEUES.into_iter().enumerate() {
            if !both.facts.queues.contains_key(name) {
                let facts = QueueFacts { policy: QueuePolicy::Fifo, priority: 0 };
                both.happen(&Happening::Queue { which, facts: Some(facts) });
            }
        }
        let hard = KEYS.map(|key| (key.to_owned(), Amount::units(20)));
        let facts = QuotaFacts { hard: hard.into(), ..Default::default() };
        both.happen(&Happening::Quota { which: 0, facts: Some(facts) });
        both.happen(&Happening::Quota { which: 1, facts: None });
        // No more units come; each round, one of those that run ends.
        for _ in 0..2 * both.facts.units.len() {
            both.happen(&Happening::Pass { seconds: 60 });
            both.round();
            both.happen(&Happening::End { which: 0 });
        }
        prop_assert_eq!(both.facts.units.keys().collect::<Vec<_>>(), Vec::<&Arc<str>>::new());
    }
}
