//! Rules that a test may switch off; no shipped program can.

use std::collections::BTreeSet;

use framework_core::observed::Defect;

use super::QueueController;

impl QueueController {
    /// The same with these rules switched off.
    pub fn without(mut self, rules: &BTreeSet<Defect>) -> Self {
        self.defects.clone_from(rules);
        self
    }

    /// Whether this rule is switched off.
    pub(super) fn lacks(&self, rule: Defect) -> bool {
        self.defects.contains(&rule)
    }
}
