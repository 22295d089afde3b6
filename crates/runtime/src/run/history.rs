//! The history on its way to the journal, and the requests that wait for it.

use std::collections::BTreeMap;
use std::sync::Arc;

use tracing::warn;

use framework_core::snapshot::Trigger;
use framework_engine::history::Line;
use framework_message::{Now, Ticket};

use crate::journal::{Full, Journal, Receipt};
use crate::metrics::Metrics;

/// Hands lines to the journal, and keeps the receipts that a request of this turn waits for.
pub struct History {
    journal: Arc<dyn Journal>,
    metrics: Arc<Metrics>,
    receipts: BTreeMap<Ticket, Result<Receipt, Full>>,
}

impl History {
    pub fn new(journal: Arc<dyn Journal>, metrics: Arc<Metrics>) -> Self {
        History { journal, metrics, receipts: BTreeMap::new() }
    }

    /// Hands over lines of the history. Lines that a request waits for are never lost, because the request is
    /// not sent without them; other lines that find no room are counted and logged.
    pub fn append(&mut self, now: Now, lines: Vec<Line>, before: Option<Ticket>) {
        let triggers: Vec<Trigger> = lines.iter().map(Line::trigger).collect();
        let receipt = self.journal.append(lines, now.wall);
        if receipt.is_ok() {
            triggers.iter().for_each(|trigger| self.metrics.snapshot_queued(trigger.name()));
        } else if before.is_none() {
            triggers.iter().for_each(|trigger| self.metrics.snapshot_dropped(trigger.name()));
            warn!(snapshots = triggers.len(), "history was dropped: the buffer for standard error is full");
        }
        if let Some(ticket) = before {
            self.receipts.insert(ticket, receipt);
        }
    }

    /// The receipt of the lines that go before a request.
    pub fn receipt(&mut self, ticket: Ticket) -> Option<Result<Receipt, Full>> {
        self.receipts.remove(&ticket)
    }

    /// Sets the metrics of the journal. Returns whether they change by time alone, because a line waits.
    pub fn measure(&self) -> bool {
        self.metrics.queue("log", self.journal.waiting());
        self.metrics.log_lines_dropped(self.journal.dropped());
        let oldest = self.journal.oldest();
        self.metrics.log_waits(oldest);
        oldest.is_some()
    }
}
