//! A round: it decides which units are released now.
//!
//! First come the overdue units, in their order. Each reduces the amounts that are available to the units
//! behind it: a unit that fits is released, and the requests of any other are set aside. Then come the other
//! units, in their order: a unit that fits is released. Last come growths, which may use the amounts that are
//! set aside.
//!
//! The available amounts only shrink in a round, so a shape that did not fit once is not checked again. When
//! no shape is left that may fit, the round is over, even if units still wait.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;

use super::index::Entry;
use super::queues::QueueId;
use super::{Namespace, Unit};
use crate::decision::{Decision, UnitUpdate};
use crate::facts::UnitPhase;
use crate::limits::Available;
use crate::order::{DominantShare, Overdue, QueueRank, UnitRank};
use crate::shape::ShapeId;

/// The state of a round.
#[derive(Debug, Default)]
struct Round {
    /// Amounts that no released unit uses.
    available: Available,
    /// Amounts that are neither used nor set aside.
    left: Available,
    /// The shapes that fit at its beginning.
    candidates: BTreeSet<ShapeId>,
    /// Those of them that may still fit.
    open: BTreeSet<ShapeId>,
    passed: Passed,
    decisions: Vec<Decision>,
}

/// The units that the released ones have passed.
#[derive(Debug, Default)]
struct Passed {
    /// When the youngest released unit came, and its queue.
    youngest: Option<(Timestamp, QueueId)>,
    /// When the youngest released unit of another queue came.
    second: Option<Timestamp>,
    /// The greatest released rank of each queue.
    last_released: BTreeMap<QueueId, UnitRank>,
}

impl Passed {
    fn note(&mut self, queue: QueueId, rank: UnitRank) {
        let came = rank.enqueued;
        match self.youngest {
            Some((youngest, same)) if same == queue => self.youngest = Some((youngest.max(came), queue)),
            Some((youngest, _)) if came > youngest => {
                (self.youngest, self.second) = (Some((came, queue)), Some(youngest));
            }
            Some(_) => self.second = self.second.max(Some(came)),
            None => self.youngest = Some((came, queue)),
        }
        let last_released = self.last_released.entry(queue).or_insert_with(|| rank.clone());
        if *last_released < rank {
            *last_released = rank;
        }
    }

    /// When the youngest unit that was released from any other queue came.
    fn youngest_elsewhere(&self, queue: QueueId) -> Option<Timestamp> {
        self.youngest.filter(|(_, of)| *of != queue).map(|(came, _)| came).or(self.second)
    }
}

impl Namespace {
    /// Decides: first the releases, in their order, and then the changes of waiting units. One unit may have
    /// several decisions.
    pub fn round(&mut self, at: Timestamp) -> Vec<Decision> {
        self.now = self.now.max(at);
        self.recount();
        self.find_overdue();
        self.refresh_stale();
        let mut round = self.open();
        self.serve_overdue(&mut round);
        self.serve_others(&mut round);
        self.serve_growths(&mut round);
        self.close(&mut round);
        let mut decisions = std::mem::take(&mut round.decisions);
        self.report_reasons(&mut decisions);
        self.mark_overtaken(&round.passed, &mut decisions);
        self.report_reserved(&mut decisions);
        decisions
    }

    /// Counts the changes of limits.
    pub(super) fn recount(&mut self) {
        let Some(recount) = self.limits.recount() else { return };
        if recount.shares {
            self.stale.extend(self.queues.iter().map(|(id, _)| id));
        }
        for (resource, low, high) in recount.capacity {
            for shape in self.shapes.between(&resource, low, high) {
                self.judge(shape);
            }
        }
    }

    fn judge(&mut self, shape: ShapeId) {
        if !self.shapes.judge(shape, self.limits.capacity()) {
            return;
        }
        let can_fit = self.shapes.can_fit(shape);
        for head in self.index.heads(shape).collect::<Vec<_>>() {
            self.unreported.extend(self.index.class(head).map(|rank| Arc::clone(&rank.uid)));
            self.index.judge(head, can_fit);
            self.stale.insert(head.queue);
        }
    }

    fn find_overdue(&mut self) {
        while let Some(uid) = self.overtaken.next_overdue(self.now) {
            let phase = self.units.get(&uid).map(|unit| &unit.facts.phase);
            if matches!(phase, Some(UnitPhase::Waiting { reserved: false, .. })) {
                self.overtaken.await_reservation(uid);
            }
        }
    }

    fn refresh_stale(&mut self) {
        for queue in std::mem::take(&mut self.stale) {
            self.refresh_queue(queue);
        }
    }

    /// Updates the rank of a queue.
    fn refresh_queue(&mut self, id: QueueId) {
        self.stale.remove(&id);
        let Some(queue) = self.queues.get(id) else { return };
        let first = queue.facts.zip(self.index.first_contender(id));
        let entry = first.map_or_else(Entry::default, |(facts, first)| {
            let enqueued = first.rank.enqueued;
            let share = DominantShare(self.limits.dominant(&queue.usage));
            let overtaken = self.units.get(&first.rank.uid).and_then(Unit::overtaken);
            Entry {
                rank: (self.index.first_awake(id))
                    .map(|_| QueueRank::new(facts, share, enqueued, &queue.name)),
                not_overtaken: overtaken.is_none().then_some(enqueued),
            }
        });
        self.index.enter(id, entry);
    }

    /// Checks the shapes that may fit, and parks those that do not: nothing becomes available during a
    /// round.
    fn open(&mut self) -> Round {
        let available = self.limits.free().without(&self.usage);
        let looked_at = self.shapes.take_candidates(&available).into_iter().filter(|shape| {
            self.fit_checks = self.fit_checks.saturating_add(1);
            let parked = self.shapes.park(*shape, &available);
            if parked == Some(true) {
                self.unreported.extend(self.index.firsts(*shape));
            }
            parked.is_none()
        });
        let candidates: BTreeSet<_> = looked_at.collect();
        Round { left: available.clone(), available, open: candidates.clone(), candidates, ..Round::default() }
    }

    fn fits(&mut self, shape: ShapeId, available: &Available) -> bool {
        self.fit_checks = self.fit_checks.saturating_add(1);
        self.shapes.get(shape).is_some_and(|shape| available.fits(&shape.requests))
    }

    fn serve_overdue(&mut self, round: &mut Round) {
        if round.open.is_empty() {
            return;
        }
        for Overdue { uid, .. } in self.overtaken.overdue().clone() {
            let Some(unit) = self.units.get(&uid) else { continue };
            let (shape, requests) = (unit.shape, unit.facts.requests.clone());
            if !self.shapes.can_fit(shape) {
                continue;
            }
            if round.open.contains(&shape) {
                if self.fits(shape, &round.left) {
                    self.release(&uid, round);
                } else if round.open.remove(&shape) && round.open.is_empty() {
                    return;
                }
            }
            round.left.take(&requests);
        }
    }

    fn serve_others(&mut self, round: &mut Round) {
        for shape in round.open.clone() {
            if !self.fits(shape, &round.left) {
                round.open.remove(&shape);
                continue;
            }
            for queue in self.index.wake(shape) {
                self.refresh_queue(queue);
            }
        }
        while let Some(queue) = self.index.next_queue().filter(|_| !round.open.is_empty()) {
            let Some(first) = self.index.first_awake(queue).cloned() else {
                self.refresh_queue(queue);
                continue;
            };
            if !round.open.contains(&first.shape) {
                self.index.put_to_sleep(&first);
                self.refresh_queue(queue);
                continue;
            }
            if !self.fits(first.shape, &round.left) {
                round.open.remove(&first.shape);
                continue;
            }
            let requests =
                self.shapes.get(first.shape).map(|shape| shape.requests.clone()).unwrap_or_default();
            self.release(&first.rank.uid, round);
            round.left.take(&requests);
        }
    }

    /// A running job keeps its quota until its growth is released. If the growth waited for an overdue unit,
    /// and that unit for the quota of the job, neither would ever be released.
    fn serve_growths(&mut self, round: &mut Round) {
        if self.overtaken.overdue().is_empty() || round.candidates.is_empty() {
            return;
        }
        for (_, uid) in self.growing.clone() {
            let Some(shape) = self.units.get(&uid).map(|unit| unit.shape) else { continue };
            if round.candidates.contains(&shape) && self.fits(shape, &round.available) {
                self.release(&uid, round);
            }
        }
    }

    /// Releases a unit: from now on it counts as released.
    fn release(&mut self, uid: &Arc<str>, round: &mut Round) {
        let Some((queue, rank)) = self.rank(uid) else { return };
        self.dequeue(uid);
        let Some(unit) = self.units.get_mut(uid) else { return };
        let requests = unit.facts.requests.clone();
        unit.facts.phase = UnitPhase::Released { usage: requests.clone() };
        self.add_usage(queue, &requests);
        self.refresh_queue(queue);
        round.available.take(&requests);
        round.passed.note(queue, rank);
        round.decisions.push(Decision { uid: Arc::clone(uid), update: UnitUpdate::Release });
    }

    /// The queue and the rank of a waiting unit whose queue exists.
    pub(super) fn rank(&self, uid: &Arc<str>) -> Option<(QueueId, UnitRank)> {
        let unit = self.units.get(uid).filter(|unit| unit.waits())?;
        let facts = self.queues.get(unit.queue)?.facts?;
        Some((unit.queue, UnitRank::new(facts.policy, uid, &unit.facts)))
    }

    /// Parks the shapes that fitted at the beginning, with the reason why their units still wait.
    fn close(&mut self, round: &mut Round) {
        for shape in std::mem::take(&mut round.candidates) {
            let parked = self.shapes.park(shape, &round.available);
            if parked.unwrap_or_else(|| self.shapes.keep_out(shape)) {
                self.unreported.extend(self.index.firsts(shape));
            }
        }
        self.refresh_stale();
    }

    /// Marks the units at the head of their queues that were passed.
    fn mark_overtaken(&mut self, passed: &Passed, decisions: &mut Vec<Decision>) {
        let Some((youngest, _)) = passed.youngest else { return };
        let queues = self.index.not_overtaken_before(youngest);
        let within = passed.last_released.keys().copied();
        let mut overtaken = BTreeSet::new();
        for queue in queues.into_iter().chain(within) {
            let Some(first) = self.index.first_contender(queue) else { continue };
            let rank = &first.rank;
            let from_behind =
                passed.last_released.get(&queue).is_some_and(|last_released| rank < last_released);
            let by_younger = passed.youngest_elsewhere(queue).is_some_and(|came| rank.enqueued < came);
            if from_behind || by_younger {
                overtaken.insert((Arc::clone(&rank.uid), queue));
            }
        }
        for (uid, queue) in overtaken {
            if self.overtake(&uid) {
                decisions.push(Decision { uid, update: UnitUpdate::Overtaken { since: self.now } });
                self.refresh_queue(queue);
            }
        }
    }

    /// Marks a unit as overtaken now, if it was not before.
    fn overtake(&mut self, uid: &Arc<str>) -> bool {
        let Some(unit) = self.units.get_mut(uid) else { return false };
        let UnitPhase::Waiting { overtaken: overtaken @ None, .. } = &mut unit.facts.phase else {
            return false;
        };
        *overtaken = Some(self.now);
        if let Some(overdue) = unit.overdue(uid) {
            self.overtaken.insert(overdue);
        }
        true
    }

    /// Decides for which units capacity is reserved from now on.
    fn report_reserved(&mut self, decisions: &mut Vec<Decision>) {
        for uid in self.overtaken.unreserved() {
            let Some(unit) = self.units.get_mut(&uid) else { continue };
            if !self.shapes.can_fit(unit.shape) {
                continue;
            }
            if let UnitPhase::Waiting { reserved, .. } = &mut unit.facts.phase {
                *reserved = true;
                decisions.push(Decision { uid: Arc::clone(&uid), update: UnitUpdate::Reserved });
            }
            self.overtaken.mark_reserved(&uid);
        }
    }
}
