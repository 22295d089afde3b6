//! What is held for a time: acts that may not be planned again yet, and creates whose outcome is open.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::outbox::{Label, Lookup};

/// What ends when its time has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hold {
    /// A create without a reply may still land: of a Pod by name, or of the ConfigMap.
    Create(Option<String>),
    /// A delete that did not work is not repeated yet.
    Delete(String),
    /// A forced delete that did not work is not repeated yet.
    ForcedDelete(String),
    /// An object found alive is not asked for again yet.
    Confirm(String),
    /// The deletion of the Framework is not repeated yet.
    Retire,
    /// The GET of a name's holder is repeated.
    Lookup(Lookup),
    /// The return of a label is repeated.
    Label(Label),
}

/// Holds in the order of their ends.
#[derive(Debug, Default)]
pub struct Holds {
    ends: BTreeMap<(Duration, u64), Hold>,
    made: u64,
}

impl Holds {
    /// Holds until `end`.
    pub fn add(&mut self, end: Duration, hold: Hold) {
        self.made += 1;
        self.ends.insert((end, self.made), hold);
    }

    /// Takes one whose end has come.
    pub fn take(&mut self, now: Duration) -> Option<Hold> {
        let entry = self.ends.first_entry().filter(|entry| entry.key().0 <= now)?;
        Some(entry.remove())
    }

    /// When the first one ends.
    pub fn next(&self) -> Option<Duration> {
        self.ends.first_key_value().map(|((end, _), _)| *end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_end_in_order_of_time_and_each_once() {
        let mut holds = Holds::default();
        let second = Duration::from_secs(1);
        holds.add(second * 2, Hold::Retire);
        holds.add(second, Hold::Delete("a".into()));
        holds.add(second, Hold::Delete("b".into()));
        assert_eq!(holds.next(), Some(second));
        assert_eq!(holds.take(second / 2), None);
        assert_eq!(holds.take(second), Some(Hold::Delete("a".into())));
        assert_eq!(holds.take(second), Some(Hold::Delete("b".into())));
        assert_eq!(holds.take(second), None);
        assert_eq!(holds.take(second * 2), Some(Hold::Retire));
        assert_eq!(holds.next(), None);
    }
}
