//! Delayed actions: acts that may not be planned again yet, and creates whose outcome is open.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::time::Duration;

use crate::outbox::{Label, Lookup};

/// A delay that ends when its time has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DelayedAction {
    /// A create without a reply may still land: of a Pod by name, or of the ConfigMap.
    Create(Option<String>),
    /// A failed delete is not repeated yet.
    Delete(String),
    /// A failed forced delete is not repeated yet.
    ForcedDelete(String),
    /// An object found alive is not asked for again yet.
    Confirm(String),
    /// The deletion of the Framework is not repeated yet.
    Retire,
    /// A create that was refused may be tried again.
    Probe,
    /// The GET of a name's holder is repeated.
    Lookup(Lookup),
    /// The return of a label is repeated.
    Label(Label),
}

/// Delays in the order of their ends.
#[derive(Debug, Default)]
pub struct Delayed {
    ends: BTreeMap<(Duration, u64), DelayedAction>,
    made: u64,
}

impl Delayed {
    /// Adds a delay until `end`.
    pub fn add(&mut self, end: Duration, action: DelayedAction) {
        self.made += 1;
        self.ends.insert((end, self.made), action);
    }

    /// Takes one whose end has come.
    pub fn take(&mut self, now: Duration) -> Option<DelayedAction> {
        let entry = self.ends.first_entry().filter(|entry| entry.key().0 <= now)?;
        Some(entry.remove())
    }

    /// The creates whose delays end after that moment: of Pods by name, or of the ConfigMap.
    pub fn creates_after(&self, end: Duration) -> impl Iterator<Item = &Option<String>> {
        let later = self.ends.range((Bound::Excluded((end, u64::MAX)), Bound::Unbounded));
        later.filter_map(|(_, action)| match action {
            DelayedAction::Create(pod) => Some(pod),
            _ => None,
        })
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
    fn delays_end_in_order_of_time_and_each_once() {
        let mut delayed = Delayed::default();
        let second = Duration::from_secs(1);
        delayed.add(second * 2, DelayedAction::Retire);
        delayed.add(second, DelayedAction::Delete("a".into()));
        delayed.add(second, DelayedAction::Delete("b".into()));
        assert_eq!(delayed.next(), Some(second));
        assert_eq!(delayed.take(second / 2), None);
        assert_eq!(delayed.take(second), Some(DelayedAction::Delete("a".into())));
        assert_eq!(delayed.take(second), Some(DelayedAction::Delete("b".into())));
        assert_eq!(delayed.take(second), None);
        assert_eq!(delayed.take(second * 2), Some(DelayedAction::Retire));
        assert_eq!(delayed.next(), None);
    }
}
