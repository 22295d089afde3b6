//! Every history of three members within bounds: two of them die, leave or join, and one request goes wrong.
//!
//! Time goes in steps of one renewal interval. In each step the adversary may make one change, or choose the
//! fate of the next write of one member. That write is lost, is applied without a reply, or lands in a later
//! step.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use framework_message::Slot;
use framework_shard::defect::{Defect, Defects};
use framework_shard::event::{Effect, Event, Outcome};
use framework_shard::{Incarnation, Policy};

use crate::replica::{Clocks, Replica};
use crate::store::Store;

const STEP: i64 = 2000;
/// Steps until the end, and until the last change and the last fault: a take-over takes seven steps.
const STEPS: i64 = 13;
const CHANGES: i64 = 4;
const FAULTS: i64 = 9;
const NAMES: [&str; 3] = ["a", "b", "c"];

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Fault {
    Lost,
    Unanswered,
    Late,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Choice {
    Nothing,
    Crash(usize),
    Stop(usize),
    Join(usize),
    Fault(usize, Fault),
    Land,
}

type Make = fn(Policy, Incarnation, &str, Clocks, &[Slot]) -> Replica;

#[derive(Clone, Debug)]
struct State {
    time: i64,
    end: i64,
    store: Store,
    nodes: [Option<Replica>; 3],
    inboxes: [Vec<Event>; 3],
    late: Option<Effect>,
    lives: u64,
    changes: u8,
    faults: u8,
    policy: Policy,
}

impl State {
    fn new(policy: Policy) -> Self {
        let inboxes = Default::default();
        let (store, nodes) = (Store::default(), Default::default());
        State { time: 0, end: 0, store, nodes, inboxes, late: None, lives: 0, changes: 2, faults: 1, policy }
    }

    fn join(&mut self, node: usize, make: Make) {
        self.lives += 1;
        // The first one leads: its clock is the fast one, so it takes the others for gone early.
        let clocks = Clocks { fast: [100, -100, 0][node], off: 0 };
        let me = Incarnation::new(NAMES[node], &self.lives.to_string());
        let slots = [0, 1, 2, 3].map(Slot);
        self.nodes[node] = Some(make(self.policy, me, NAMES[node], clocks, &slots));
        let seen = self.store.leases.keys().map(|name| (name.clone(), self.store.lease(name)));
        self.inboxes[node] = seen.map(|(name, seen)| Event::LeaseSeen { name, seen }).collect();
    }

    fn choices(&self) -> Vec<Choice> {
        let mut all = vec![Choice::Nothing];
        let live = (0..3).filter(|node| self.nodes[*node].is_some());
        let step = STEPS - (self.end - self.time) / STEP;
        if self.changes > 0 && step < CHANGES {
            all.extend(live.clone().flat_map(|node| [Choice::Crash(node), Choice::Stop(node)]));
            all.extend((0..3).filter(|node| self.nodes[*node].is_none()).map(Choice::Join));
        }
        if self.faults > 0 && step < FAULTS {
            let kinds = [Fault::Lost, Fault::Unanswered, Fault::Late];
            all.extend(live.flat_map(|node| kinds.map(|kind| Choice::Fault(node, kind))));
        }
        all.extend(self.late.iter().map(|_| Choice::Land));
        all
    }

    /// One step. The claim that broke, if one did; and whether the fault of the choice met a write.
    fn step(&mut self, choice: Choice) -> Result<bool, String> {
        self.time += STEP;
        let mut fault = None;
        match choice {
            Choice::Crash(node) => self.nodes[node] = None,
            Choice::Stop(node) => self.inboxes[node].push(Event::Stop),
            Choice::Join(node) => self.join(node, Replica::new),
            Choice::Fault(node, kind) => fault = Some((node, kind)),
            Choice::Land => {
                let late = self.late.take();
                late.map(|effect| self.apply(effect));
            }
            Choice::Nothing => {}
        }
        self.changes -= u8::from(matches!(choice, Choice::Crash(_) | Choice::Stop(_) | Choice::Join(_)));
        for node in 0..3 {
            let mut events = std::mem::take(&mut self.inboxes[node]);
            events.push(Event::Tick);
            while !events.is_empty() {
                let event = events.remove(0);
                let Some(replica) = &mut self.nodes[node] else { break };
                for effect in replica.step(self.time, event) {
                    let Some(replica) = &mut self.nodes[node] else { break };
                    replica.own(&effect);
                    // Only this gives a right to act, and time only ends rights.
                    if matches!(effect, Effect::Own { .. }) {
                        self.check()?;
                    }
                    events.extend(self.handle(node, effect, &mut fault));
                }
            }
        }
        let met = fault.is_none();
        self.faults -= u8::from(matches!(choice, Choice::Fault(..)) && met);
        Ok(met)
    }

    fn handle(&mut self, node: usize, effect: Effect, fault: &mut Option<(usize, Fault)>) -> Option<Event> {
        match &effect {
            Effect::List(slots) => return Some(Event::Listed(*slots)),
            Effect::Drain { slots, since } => {
                return Some(Event::Drained { slots: *slots, since: *since });
            }
            Effect::Exit => self.nodes[node] = None,
            Effect::Rejoin => self.join(node, Replica::again),
            Effect::ReadLease(name) => {
                return Some(Event::LeaseSeen { name: name.clone(), seen: self.store.lease(name) });
            }
            Effect::ReadMap => return Some(Event::MapRead(Some(self.store.map()))),
            Effect::WriteLease { .. } | Effect::PutMap { .. } => {
                if fault.is_none_or(|(at, _)| at != node) {
                    return self.apply(effect);
                }
                let unknown = match &effect {
                    Effect::PutMap { ticket, .. } => {
                        Event::MapPut { ticket: *ticket, outcome: Outcome::Unknown }
                    }
                    Effect::WriteLease { ticket, .. } => {
                        Event::LeaseWritten { ticket: *ticket, outcome: Outcome::Unknown }
                    }
                    _ => Event::Tick,
                };
                match fault.take() {
                    Some((_, Fault::Unanswered)) => drop(self.apply(effect)),
                    Some((_, Fault::Late)) => self.late = Some(effect),
                    _ => {}
                }
                return Some(unknown);
            }
            _ => {}
        }
        None
    }

    fn apply(&mut self, effect: Effect) -> Option<Event> {
        let outcome = |version: Option<_>| version.map_or(Outcome::Refused, Outcome::Done);
        let (shown, reply) = match effect {
            Effect::WriteLease { name, base, record, ticket } => {
                let outcome = outcome(self.store.write_lease(&name, base, record));
                let seen = self.store.lease(&name);
                (Event::LeaseSeen { name, seen }, Event::LeaseWritten { ticket, outcome })
            }
            Effect::PutMap { base, map, ticket } => {
                let outcome = outcome(self.store.put_map(base, map));
                (Event::MapSeen(self.store.map()), Event::MapPut { ticket, outcome })
            }
            _ => return None,
        };
        self.inboxes.iter_mut().for_each(|inbox| inbox.push(shown.clone()));
        Some(reply)
    }

    fn check(&self) -> Result<(), String> {
        for slot in [0, 1, 2, 3].map(Slot) {
            let acts = |node: &&Replica| node.may_act(slot, self.time);
            let acting: Vec<_> = self.nodes.iter().flatten().filter(acts).map(|node| &node.me).collect();
            if acting.len() > 1 {
                return Err(format!("{acting:?} act for slot {slot} at {}", self.time));
            }
        }
        Ok(())
    }

    fn hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.time, &self.store, &self.nodes, self.changes, self.faults).hash(&mut hasher);
        self.late.as_ref().map(|late| format!("{late:?}")).hash(&mut hasher);
        for inbox in &self.inboxes {
            inbox.len().hash(&mut hasher);
            inbox.iter().for_each(|event| hash_event(event, &mut hasher));
        }
        hasher.finish()
    }
}

/// Makes no text of the events that wait most often.
fn hash_event(event: &Event, hasher: &mut DefaultHasher) {
    match event {
        Event::LeaseSeen { name, seen } => (0, name, seen).hash(hasher),
        Event::MapSeen(seen) => (1, seen).hash(hasher),
        event => (2, format!("{event:?}")).hash(hasher),
    }
}

/// The number of states, or the history that breaks a claim.
fn explore(defects: Defects) -> Result<usize, String> {
    let secs = Duration::from_secs;
    let policy = Policy { defects, ..Policy::new(secs(10), secs(2), secs(3), secs(4)).unwrap() };
    let mut first = State::new(policy);
    first.join(0, Replica::new);
    first.join(1, Replica::new);
    for _ in 0..30 {
        first.step(Choice::Nothing)?;
    }
    let acting = |node: &Option<Replica>| {
        let slots = [0, 1, 2, 3].map(Slot);
        node.as_ref().map_or(0, |node| slots.iter().filter(|slot| node.may_act(**slot, first.time)).count())
    };
    let shares = [&first.nodes[0], &first.nodes[1]].map(acting);
    assert_eq!(shares.iter().sum::<usize>(), 4, "{shares:?}: they did not settle");
    first.end = first.time + STEPS * STEP;
    let mut seen = BTreeSet::new();
    let mut open = vec![first];
    while let Some(state) = open.pop() {
        for choice in state.choices() {
            let mut next = state.clone();
            let met = next.step(choice).map_err(|claim| format!("{claim} after {choice:?}"))?;
            if met && next.time < next.end && seen.insert(next.hash()) {
                open.push(next);
            }
        }
    }
    Ok(seen.len())
}

#[test]
fn no_history_of_three_members_within_bounds_breaks_exclusivity() {
    let states = explore(Defects::NONE).unwrap();
    println!("{states} states");
    assert!(states > 10_000, "{states} states");
}

#[test]
fn exploration_finds_a_take_over_that_comes_too_early() {
    let claim = explore(Defect::TakeOverAtOnce.into()).unwrap_err();
    assert!(claim.contains("act for slot"), "{claim}");
}
