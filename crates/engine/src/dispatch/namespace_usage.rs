//! How much more than its share a namespace has used recently.
//!
//! Each request of a namespace adds one to its usage. Each request of any namespace takes from all usages
//! the share that each would have if one more namespace had requests waiting. So a namespace that takes all
//! it can get rises, even if it is alone, and one that takes less than its share stays at 0.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::rotation::TURN;

/// One request, in the unit of usages.
const REQUEST: u64 = 1 << 16;
/// From this usage on, a namespace is heavy, until its usage is 0 again.
const HEAVY: u64 = TURN as u64 * REQUEST;
/// No usage is greater: a heavy namespace is light again soon after it stopped.
const MOST: u64 = 2 * HEAVY;
/// Requests between two searches for usages that have become 0. A namespace is alone if no other one was
/// among so many requests.
const TIDY: u64 = 1024;

#[derive(Clone, Copy, Debug, Default)]
struct Level {
    amount: u64,
    /// [`NamespaceUsage::drained`] when it had this amount.
    at: u64,
    is_heavy: bool,
}

/// The usage of each namespace.
#[derive(Debug, Default)]
pub(super) struct NamespaceUsage {
    levels: BTreeMap<Arc<str>, Level>,
    /// The amount that was taken from every usage until now.
    drained: u64,
    requests: u64,
    /// The namespace that sent last.
    last: Option<Arc<str>>,
    /// [`NamespaceUsage::requests`] when a namespace sent that is not the last one.
    other_at: Option<u64>,
}

impl NamespaceUsage {
    /// Whether a namespace has used clearly more than its share.
    pub fn is_heavy(&self, namespace: &Arc<str>) -> bool {
        self.levels.get(namespace).is_some_and(|level| level.is_heavy && self.now(*level) > 0)
    }

    /// Whether no other namespace has sent a request recently.
    pub fn is_alone(&self, namespace: &Arc<str>) -> bool {
        self.last.as_ref().is_none_or(|last| last == namespace)
            && self.other_at.is_none_or(|at| self.requests - at > TIDY)
    }

    /// A namespace sends a request, while `active` of them, this one included, have requests.
    pub fn charge(&mut self, namespace: &Arc<str>, active: usize) {
        self.drained += REQUEST / (active as u64 + 1);
        let drained = self.drained;
        let was_heavy = self.is_heavy(namespace);
        let before = self.levels.get(namespace).map_or(0, |level| self.now(*level));
        let amount = (before + REQUEST).min(MOST);
        let is_heavy = was_heavy || amount >= HEAVY;
        self.levels.insert(Arc::clone(namespace), Level { amount, at: drained, is_heavy });
        if self.last.as_ref() != Some(namespace) {
            self.other_at = self.last.is_some().then_some(self.requests);
            self.last = Some(Arc::clone(namespace));
        }
        self.requests += 1;
        if self.requests.is_multiple_of(TIDY) {
            self.levels.retain(|_, level| level.amount > drained - level.at);
        }
    }

    fn now(&self, level: Level) -> u64 {
        level.amount.saturating_sub(self.drained - level.at)
    }

    /// How many namespaces are remembered.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.levels.len()
    }
}
