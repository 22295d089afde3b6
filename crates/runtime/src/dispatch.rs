//! Whose turn it is to send: three classes in order, and in each the Frameworks in rotation.
//!
//! Holds keys only: what a Framework has to send is in its ledger. A key is in a class once, however much it
//! has to send, so that a Framework of 10,000 Tasks and a thousand of one Task share evenly. A turn is
//! [`TURN`] requests long: Pods that are created together run and end together, and what became of them
//! fits into one status write. One Pod of each in turn would make every Framework of a burst last as long as
//! the burst, and be written again and again meanwhile.

use std::collections::{BTreeSet, VecDeque};

use framework_core::Action;

use crate::event::Key;

/// What goes before what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Status writes and reads: everything else waits for them.
    Record,
    /// Deletes: they free what creates want.
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

/// The rotation of keys in each class.
#[derive(Debug, Default)]
pub struct Dispatch {
    classes: [Rotation; 3],
}

#[derive(Debug, Default)]
struct Rotation {
    order: VecDeque<Key>,
    members: BTreeSet<Key>,
    /// Who was taken last, and how often in a row.
    turn: Option<(Key, u32)>,
}

impl Dispatch {
    /// Puts a key at the end of its class, or at its head while its turn lasts, unless it is in there.
    pub fn offer(&mut self, class: Class, key: &Key) {
        let rotation = &mut self.classes[class as usize];
        if !rotation.members.insert(key.clone()) {
            return;
        }
        match &rotation.turn {
            Some((last, taken)) if last == key && *taken < TURN => rotation.order.push_front(key.clone()),
            _ => rotation.order.push_back(key.clone()),
        }
    }

    /// Takes the key whose turn it is, of the first class that has one.
    pub fn take(&mut self) -> Option<(Class, Key)> {
        Class::ALL.into_iter().find_map(|class| {
            let rotation = &mut self.classes[class as usize];
            let key = rotation.order.pop_front()?;
            rotation.members.remove(&key);
            let taken = match &rotation.turn {
                Some((last, taken)) if *last == key && *taken < TURN => taken + 1,
                _ => 1,
            };
            rotation.turn = Some((key.clone(), taken));
            Some((class, key))
        })
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.classes.iter().all(|rotation| rotation.order.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Key {
        Key::new("ns", name)
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
    fn one_with_much_to_send_takes_turns_with_the_others() {
        let mut dispatch = Dispatch::default();
        let mut left = [("big", 100), ("a", 1), ("b", 1)];
        for (name, _) in left {
            for _ in 0..3 {
                dispatch.offer(Class::Create, &key(name));
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
        let turn = TURN as usize;
        assert_eq!(order.len(), 102);
        assert!(order[..turn].iter().all(|name| *name == "big"), "{order:?}");
        assert_eq!(order[turn..turn + 3], ["a", "b", "big"]);
    }
}
