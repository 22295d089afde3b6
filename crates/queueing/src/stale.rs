//! The objects that changed since the last turn, and the times when a turn is due without a change.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use framework_message::Key;
use jiff::Timestamp;

use crate::consumer::ConsumerKey;

/// The objects that the next turn evaluates again.
#[derive(Debug, Default)]
pub struct Stale {
    /// Units whose facts may have changed.
    pub units: BTreeSet<Key>,
    /// Jobs that have changed, or whose units have.
    pub jobs: BTreeSet<ConsumerKey>,
    /// Namespaces that need a round.
    pub namespaces: BTreeSet<Arc<str>>,
    /// Queues whose status may differ from the counts.
    pub queues: BTreeSet<Key>,
    /// When a round is due although nothing changes.
    pub round_at: Option<Timestamp>,
    /// When a smaller usage of a quota by others may count.
    pub others_at: Option<Duration>,
}

impl Stale {
    /// Whether a smaller usage by others may count now. Returns true once.
    pub fn take_others_due(&mut self, now: Duration) -> bool {
        self.others_at.take_if(|at| *at <= now).is_some()
    }

    /// Whether a round is due although nothing has changed.
    pub fn is_round_due(&self, time: Timestamp) -> bool {
        self.round_at.is_some_and(|at| at <= time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_due_from_then_on_and_that_of_others_once() {
        let second = |second| Timestamp::from_second(second).unwrap();
        let round_at = Some(second(10));
        let mut stale = Stale { round_at, others_at: Some(Duration::from_secs(10)), ..Stale::default() };
        assert!(!stale.is_round_due(second(9)) && stale.is_round_due(second(10)));
        assert!(stale.is_round_due(second(11)), "until the round has named another");
        let dues = [9, 10, 11].map(|second| stale.take_others_due(Duration::from_secs(second)));
        assert_eq!(dues, [false, true, false]);
    }
}
