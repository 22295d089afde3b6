//! The position of a waiting unit.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Namespace;
use super::queues::QueueId;
use crate::order::{DominantShare, Overdue, QueueRank, Rank, UnitRank};
use crate::requests::Tally;

/// The position of a waiting unit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// The number of units that stand before it in its own queue, in the queue's order.
    pub place: usize,
    /// The number of units of all queues that would be served before it, if each fitted in its turn. Units
    /// that exceed a quota, or whose queue is missing, are not counted: no unit waits for them.
    pub before: usize,
    /// The last of them.
    pub directly_before: Option<Arc<str>>,
}

impl Namespace {
    /// The position of a waiting unit; `None` if its queue is missing. It simulates serving all units
    /// before it, so it is meant for single queries, not for every unit in every round.
    ///
    /// Facts set since the last round count from the next one on.
    pub fn position(&self, uid: &str) -> Option<Position> {
        let (uid, unit) = self.units.get_key_value(uid)?;
        let (queue, own) = self.rank(uid)?;
        let others = self.index.units_of(queue);
        let ranks = others.iter().filter_map(|other| self.rank(other));
        let place = ranks.filter(|(_, rank)| *rank < own).count();
        let exceeds = !self.shapes.can_fit(unit.shape);
        let mut service = Service::new(self, exceeds.then_some(uid));
        let mut position = Position { place, ..Position::default() };
        while let Some(served) = service.serve() {
            if served == *uid {
                return Some(position);
            }
            position.before = position.before.saturating_add(1);
            position.directly_before = Some(served);
        }
        None
    }
}

/// Serves all units in their order, as if all fitted.
struct Service<'a> {
    namespace: &'a Namespace,
    lines: BTreeMap<QueueId, Line>,
    /// All overdue units, and the first unit of each line.
    by_rank: BTreeSet<Rank>,
}

/// The units of a queue that are not overdue.
#[derive(Default)]
struct Line {
    /// The first one last.
    waiting: Vec<UnitRank>,
    usage: Tally,
    rank: Option<Rank>,
}

impl<'a> Service<'a> {
    /// Serves all units that could ever fit, and one more.
    fn new(namespace: &'a Namespace, besides: Option<&Arc<str>>) -> Self {
        let mut service = Self { namespace, lines: BTreeMap::new(), by_rank: BTreeSet::new() };
        for (id, queue) in namespace.queues.iter() {
            service.lines.insert(id, Line { usage: queue.usage.clone(), ..Line::default() });
        }
        for member in namespace.index.members() {
            let uid = &member.rank.uid;
            if !namespace.shapes.can_fit(member.shape) && besides != Some(uid) {
                continue;
            }
            let overdue = service.overdue(uid);
            if let Some(overdue) = overdue {
                service.by_rank.insert(Rank::Overdue(overdue));
            } else if let Some(line) = service.lines.get_mut(&member.queue) {
                line.waiting.push(member.rank.clone());
            }
        }
        for line in service.lines.values_mut() {
            line.waiting.sort_unstable_by(|one, other| other.cmp(one));
        }
        for (queue, _) in namespace.queues.iter() {
            service.line_up(queue);
        }
        service
    }

    fn overdue(&self, uid: &Arc<str>) -> Option<Overdue> {
        let overdue = self.namespace.units.get(uid)?.overdue(uid)?;
        self.namespace.overtaken.overdue().contains(&overdue).then_some(overdue)
    }

    /// Updates the rank of a queue.
    fn line_up(&mut self, id: QueueId) {
        let (Some(queue), Some(line)) = (self.namespace.queues.get(id), self.lines.get_mut(&id)) else {
            return;
        };
        if let Some(rank) = line.rank.take() {
            self.by_rank.remove(&rank);
        }
        let Some((facts, first)) = queue.facts.zip(line.waiting.last()) else { return };
        let share = DominantShare(self.namespace.limits.dominant(&line.usage));
        let rank = QueueRank::new(facts, share, first.enqueued, &queue.name);
        line.rank = Some(Rank::InLine(rank, first.clone()));
        self.by_rank.extend(line.rank.clone());
    }

    /// The UID of the next unit.
    fn serve(&mut self) -> Option<Arc<str>> {
        let rank = self.by_rank.pop_first()?;
        let uid = match &rank {
            Rank::Overdue(overdue) => Arc::clone(&overdue.uid),
            Rank::InLine(_, rank) => Arc::clone(&rank.uid),
        };
        let unit = self.namespace.units.get(&uid)?;
        let (id, requests) = (unit.queue, &unit.facts.requests);
        if let Some(line) = self.lines.get_mut(&id) {
            line.usage.add(requests);
            if matches!(rank, Rank::InLine(..)) {
                line.waiting.pop();
            }
        }
        self.line_up(id);
        Some(uid)
    }
}
