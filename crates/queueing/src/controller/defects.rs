//! Rules that a test may switch off; no shipped program can.

use framework_core::Defect;

use super::QueueController;

impl QueueController {
    /// The same with these rules switched off.
    pub fn without(mut self, rules: framework_core::Defects) -> Self {
        self.defects = rules;
        self
    }

    /// Whether this rule is switched off.
    pub(super) fn lacks(&self, rule: Defect) -> bool {
        self.defects.has(rule)
    }
}
