//! The lines that the history has about the version of a Framework that is to be replaced.

use std::collections::BTreeSet;

use framework_core::snapshot::{Snapshot, Trigger};

use crate::history::Line;

/// The lines of one version. A write that is repeated replaces the same version as the first try: its lines
/// would be the same.
#[derive(Debug, Default)]
pub struct LoggedLines {
    version: u128,
    /// By TaskRole and index; without a TaskRole, of the Framework.
    lines: BTreeSet<(Trigger, String, i32)>,
}

impl LoggedLines {
    /// The lines of this version that were not logged yet; counts them as logged.
    pub fn unlogged(&mut self, version: u128, mut lines: Vec<Line>) -> Vec<Line> {
        if self.version != version {
            self.clear();
            self.version = version;
        }
        lines.retain(|line| self.lines.insert(identity(line)));
        lines
    }

    /// Forgets the lines: they were not taken. Lines that were written stay, also if their request came too
    /// late for its right. Written again each time, they would make each try as late as the first one.
    pub fn clear(&mut self) {
        self.lines.clear();
    }
}

fn identity(line: &Line) -> (Trigger, String, i32) {
    match line {
        Line::Task {
            snapshot:
                Snapshot::TaskRetry { task_role, task_index, .. }
                | Snapshot::TaskDeletion { task_role, task_index, .. },
            ..
        } => (line.trigger(), task_role.clone(), *task_index),
        _ => (line.trigger(), String::new(), 0),
    }
}
