//! The creates and deletes that Frameworks have sent recently: they say which ones are in their first turn.

use std::collections::BTreeMap;

use framework_message::Key;

use super::class::Class;
use super::rotation::TURN;

/// After this many creates and deletes of all Frameworks together, the requests that a Framework has sent are
/// forgotten: its next turn is a first one.
pub(super) const MEMORY: u64 = 1024;

/// The requests of a class that a Framework has sent recently.
#[derive(Clone, Copy, Debug, Default)]
struct Spent {
    requests: u32,
    /// [`Recent::served`] at the last of them.
    at: u64,
}

/// The recent requests of all Frameworks.
#[derive(Debug, Default)]
pub(super) struct Recent {
    spent: BTreeMap<(Class, Key), Spent>,
    /// Creates and deletes that were sent.
    served: u64,
}

impl Recent {
    /// Whether a Framework has sent less than one turn of this class.
    pub fn is_in_first_turn(&self, class: Class, key: &Key) -> bool {
        let spent = self.spent.get(&(class, key.clone())).copied().unwrap_or_default();
        spent.requests < TURN || self.served - spent.at > MEMORY
    }

    /// A Framework sends a request.
    pub fn spend(&mut self, class: Class, key: &Key) {
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

    /// How many Frameworks and classes are remembered.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.spent.len()
    }
}
