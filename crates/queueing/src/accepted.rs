//! Changes of a unit that the API server accepted, and that the watch is yet to show.

use std::time::Duration;

use framework_message::Key;
use framework_message::backoff::Failures;
use tracing::warn;

/// The last accepted change of a unit, and the version from which it was made.
///
/// The watch shows a later version soon, and nothing is sent before. If a webhook has undone the change, it
/// is tried again, ever more rarely. The version stays then, or is another one if the webhook has also
/// changed something else.
#[derive(Debug)]
pub struct AcceptedChange<Change> {
    last: Option<(Change, u128)>,
    /// How often it was accepted.
    times: Failures,
    until: Duration,
}

impl<Change> Default for AcceptedChange<Change> {
    fn default() -> Self {
        AcceptedChange { last: None, times: Failures::default(), until: Duration::ZERO }
    }
}

impl<Change: PartialEq> AcceptedChange<Change> {
    /// A change of this version was accepted, `now` on the monotonic clock. The watch has the time `lag` to
    /// show it.
    pub fn accept(
        &mut self,
        unit: &Key,
        change: Change,
        version: u128,
        now: Duration,
        lag: Duration,
        jitter: u64,
    ) {
        if self.repeats(&change, version) {
            warn!(%unit, "a change of a QueueUnit was accepted again, and the watch shows nothing of it");
        } else {
            self.times = Failures::default();
        }
        self.last = Some((change, version));
        self.until = now + lag.max(self.times.delay(true, jitter));
    }

    /// The moment before which this change is not made from this version.
    pub fn until(&self, change: &Change, version: u128) -> Duration {
        if self.repeats(change, version) { self.until } else { Duration::ZERO }
    }

    /// Whether the watch shows nothing of the last change: its version is still known, or it is wanted again.
    fn repeats(&self, change: &Change, version: u128) -> bool {
        self.last.as_ref().is_some_and(|(last, of)| *of == version || last == change)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_that_was_undone_is_tried_ever_more_rarely() {
        let second = Duration::from_secs;
        // A webhook that undoes it may change something else each time.
        for stamps in [0, 1] {
            let (mut accepted, unit) = (AcceptedChange::default(), Key::new("ns", "unit"));
            let mut pause = |change, version| {
                accepted.accept(&unit, change, version, second(100), second(28), 0);
                assert_eq!(accepted.until(&"other", version + 1), Duration::ZERO, "it was stored");
                assert_eq!(accepted.until(&"other", version), accepted.until(&change, version + 1));
                accepted.until(&change, version) - second(100)
            };
            assert_eq!(pause("bind", 7), second(28));
            let pauses = [1, 2, 3, 4, 5, 6, 7].map(|times| pause("bind", 7 + stamps * times));
            assert!((second(45)..=second(60)).contains(&pauses[6]), "{pauses:?}");
            assert_eq!(pause("return", 100), second(28), "the first one was stored");
        }
    }
}
