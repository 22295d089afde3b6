//! The order in which Frameworks send: records first, then deletes and creates, the Frameworks in rotation.
//!
//! The order holds keys only: the requests of a Framework are in its state. A key is in a class once, even if
//! it has much to send. A turn is [`TURN`] requests long: Pods that are created together run and end
//! together, and one status write records them. If Frameworks took turns Pod by Pod, each Framework of a
//! burst would last as long as the burst. Its status would be written again and again meanwhile.
//!
//! Frameworks in their first turn share evenly with all others. A Framework of a few Tasks does not wait for
//! the turns, creates or deletes, of one of 10,000. A stream of small ones takes no more than half of the
//! budget from the large one.
//!
//! A first turn does not wait for the budget, either ([`Dispatch::part`]). The rest of a burst is kept for
//! records and first turns, and for one other request for each request of a first turn.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use framework_core::Action;

use crate::budget::Part;
use framework_message::Key;

/// A class of requests, in the order in which classes are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Status writes and reads: everything else waits for them.
    Record,
    /// Deletes: they free the resources that creates need.
    Delete,
    /// Creates.
    Create,
}

impl Class {
    /// All classes, the first to be served first.
    pub const ALL: [Class; 3] = [Class::Record, Class::Delete, Class::Create];

    /// The class of an act.
    pub fn of(action: &Action) -> Self {
        match action {
            Action::ConfirmConfigMap { .. } | Action::ConfirmPod { .. } => Class::Record,
            Action::DeleteConfigMap { .. } | Action::DeletePod { .. } | Action::DeleteFramework => {
                Class::Delete
            }
            Action::CreateConfigMap { .. } | Action::CreatePod { .. } => Class::Create,
        }
    }
}

/// How many requests a Framework may send in a turn.
pub const TURN: u32 = 32;
/// After this many creates and deletes of all Frameworks together, the requests that a Framework has sent are
/// forgotten: its next turn is a first one.
const MEMORY: u64 = 1024;

/// The rotation of keys in each class.
#[derive(Debug, Default)]
pub struct Dispatch {
    records: Rotation,
    /// Deletes and creates of Frameworks in their first turn.
    first: [Rotation; 2],
    /// Deletes and creates of all others.
    later: [Rotation; 2],
    spent: BTreeMap<(Class, Key), Spent>,
    /// Creates and deletes that were sent.
    served: u64,
    /// A Framework that is not in its first turn goes next.
    later_is_next: bool,
}

/// The requests of a class that a Framework has sent recently.
#[derive(Clone, Copy, Debug, Default)]
struct Spent {
    requests: u32,
    /// [`Dispatch::served`] at the last of them.
    at: u64,
}

#[derive(Debug, Default)]
struct Rotation {
    order: VecDeque<Key>,
    members: BTreeSet<Key>,
    /// The key that was taken last, and how often in a row.
    turn: Option<(Key, u32)>,
}

impl Rotation {
    /// Puts a key at the end, or at the head while its turn lasts, unless it is in there.
    fn offer(&mut self, key: &Key) {
        if !self.members.insert(key.clone()) {
            return;
        }
        match &self.turn {
            Some((last, taken)) if last == key && *taken < TURN => self.order.push_front(key.clone()),
            _ => self.order.push_back(key.clone()),
        }
    }

    /// Takes the key whose turn it is.
    fn take(&mut self) -> Option<Key> {
        let key = self.order.pop_front()?;
        self.members.remove(&key);
        let taken = match &self.turn {
            Some((last, taken)) if *last == key && *taken < TURN => taken + 1,
            _ => 1,
        };
        self.turn = Some((key.clone(), taken));
        Some(key)
    }
}

impl Dispatch {
    /// Puts a key into its class, unless it is in there.
    pub fn offer(&mut self, class: Class, key: &Key) {
        let Some(index) = index_of(class) else { return self.records.offer(key) };
        let spent = self.spent.get(&(class, key.clone())).copied().unwrap_or_default();
        let is_first = spent.requests < TURN || self.served - spent.at > MEMORY;
        let (here, there) =
            if is_first { (&mut self.first, &self.later) } else { (&mut self.later, &self.first) };
        if !there[index].members.contains(key) {
            here[index].offer(key);
        }
    }

    /// Takes the key whose turn it is, and the class.
    pub fn take(&mut self) -> Option<(Class, Key)> {
        if let Some(key) = self.records.take() {
            return Some((Class::Record, key));
        }
        let [first, later] = [&self.first, &self.later].map(|group| !is_empty(group));
        let is_later = later && (!first || self.later_is_next);
        self.later_is_next = first && !is_later;
        let group = if is_later { &mut self.later } else { &mut self.first };
        let (class, key) = [Class::Delete, Class::Create]
            .into_iter()
            .find_map(|class| Some((class, group[index_of(class)?].take()?)))?;
        self.spend(class, &key);
        Some((class, key))
    }

    /// The part of the budget that pays for the next request.
    pub fn part(&self) -> Part {
        let is_urgent = !self.records.order.is_empty() || !is_empty(&self.first) || self.later_is_next;
        if is_urgent { Part::Whole } else { Part::Upper }
    }

    /// Whether no key waits.
    pub fn is_empty(&self) -> bool {
        self.records.order.is_empty() && is_empty(&self.first) && is_empty(&self.later)
    }

    fn spend(&mut self, class: Class, key: &Key) {
        self.served += 1;
        let at = self.served;
        if at.is_multiple_of(MEMORY) {
            self.spent.retain(|_, spent| at - spent.at <= MEMORY);
        }
        let spent = self.spent.entry((class, key.clone())).or_default();
        if at - spent.at > MEMORY {
            spent.requests = 0;
        }
        *spent = Spent { requests: spent.requests.saturating_add(1), at };
    }
}

/// The index of a class in a pair of rotations; records are in none.
fn index_of(class: Class) -> Option<usize> {
    match class {
        Class::Record => None,
        Class::Delete => Some(0),
        Class::Create => Some(1),
    }
}

fn is_empty(group: &[Rotation; 2]) -> bool {
    group.iter().all(|rotation| rotation.order.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Key {
        Key::new("ns", name)
    }

    /// The names in the order in which they are served, for names with this many requests each.
    fn order(dispatch: &mut Dispatch, class: Class, left: &[(&'static str, usize)]) -> Vec<&'static str> {
        let mut left = left.to_vec();
        for (name, _) in &left {
            for _ in 0..3 {
                dispatch.offer(class, &key(name));
            }
        }
        let mut order = Vec::new();
        while let Some((class, key)) = dispatch.take() {
            let (name, left) = left.iter_mut().find(|(name, _)| **name == *key.name).unwrap();
            order.push(*name);
            *left -= 1;
            if *left > 0 {
                dispatch.offer(class, &key);
            }
        }
        order
    }

    #[test]
    fn records_go_before_deletes_and_deletes_before_creates() {
        let mut dispatch = Dispatch::default();
        dispatch.offer(Class::Create, &key("a"));
        dispatch.offer(Class::Delete, &key("b"));
        dispatch.offer(Class::Record, &key("c"));
        let order: Vec<_> = std::iter::from_fn(|| dispatch.take()).map(|(class, _)| class).collect();
        assert_eq!(order, Class::ALL);
    }

    #[test]
    fn a_turn_is_not_shared_and_the_next_ones_come_in_rotation() {
        let mut dispatch = Dispatch::default();
        let order = order(&mut dispatch, Class::Create, &[("big", 100), ("large", 70), ("a", 1)]);
        let turn = TURN as usize;
        assert_eq!(order.len(), 171);
        assert!(order[..turn].iter().all(|name| *name == "big"), "{order:?}");
        let rest: Vec<_> = order[turn..].chunk_by(|one, next| one == next).map(<[_]>::len).collect();
        // In its first turn, "large" shares with the remaining turns of "big".
        assert!(rest.iter().all(|taken| *taken <= turn), "{rest:?}");
        let done = |name| order.iter().rposition(|one| *one == name).unwrap();
        assert!(done("a") < done("large") && done("large") < order.len(), "{order:?}");
    }

    #[test]
    fn who_has_little_to_send_waits_for_no_turn_of_who_has_much() {
        for class in [Class::Delete, Class::Create] {
            let mut dispatch = Dispatch::default();
            dispatch.offer(Class::Delete, &key("big"));
            for _ in 0..TURN + 1 {
                let (class, key) = dispatch.take().unwrap();
                dispatch.offer(class, &key);
            }
            // "big" is in its second turn. Each of the small ones is served immediately, or after one
            // request.
            for number in 0..100 {
                let small = key(&format!("small{number}"));
                dispatch.offer(class, &small);
                let served: Vec<Key> = (0..2)
                    .map(|_| {
                        let (class, taken) = dispatch.take().unwrap();
                        if taken != small {
                            dispatch.offer(class, &taken);
                        }
                        taken
                    })
                    .collect();
                assert!(served.contains(&small), "{class:?} {number}: {served:?}");
                assert!(served.contains(&key("big")), "{class:?} {number}: {served:?}");
            }
        }
    }

    #[test]
    fn the_kept_budget_is_shared_by_first_turns_and_the_others() {
        let mut dispatch = Dispatch::default();
        let serve = |dispatch: &mut Dispatch| {
            let part = dispatch.part();
            let (class, taken) = dispatch.take().unwrap();
            if taken == key("big") {
                dispatch.offer(class, &taken);
            }
            (part, taken)
        };
        dispatch.offer(Class::Create, &key("big"));
        for request in 0..3 * TURN {
            // The first request after the first turn was earned by the last request of that turn.
            let part = if request <= TURN { Part::Whole } else { Part::Upper };
            assert_eq!(serve(&mut dispatch), (part, key("big")), "{request}");
        }
        dispatch.offer(Class::Create, &key("small"));
        assert_eq!(serve(&mut dispatch), (Part::Whole, key("small")));
        assert_eq!(serve(&mut dispatch), (Part::Whole, key("big")), "it is its turn");
        assert_eq!(serve(&mut dispatch), (Part::Upper, key("big")));
        dispatch.offer(Class::Record, &key("big"));
        assert_eq!(serve(&mut dispatch), (Part::Whole, key("big")), "a record");
    }

    #[test]
    fn what_was_sent_long_ago_is_forgotten_and_takes_no_memory() {
        let mut dispatch = Dispatch::default();
        for number in 0..5 * MEMORY {
            dispatch.offer(Class::Create, &key(&number.to_string()));
            dispatch.take().unwrap();
        }
        assert!(dispatch.spent.len() as u64 <= 2 * MEMORY, "{}", dispatch.spent.len());
    }
}
