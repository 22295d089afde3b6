//! An index of waiting units: all of them by queue and shape, and the first unit of each shape in each
//! queue.
//!
//! A round looks at those heads only. It puts a head to sleep whose shape does not fit, and wakes it when
//! its shape may fit again. So later rounds do not visit it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;

use super::queues::QueueId;
use crate::order::{QueueRank, UnitRank};
use crate::shape::ShapeId;

/// A waiting unit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Member {
    pub queue: QueueId,
    pub shape: ShapeId,
    pub rank: UnitRank,
}

/// The first of the units of a queue that have one shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Head {
    pub shape: ShapeId,
    pub queue: QueueId,
}

/// A head that could ever be released, in the order of its queue.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Contender {
    pub queue: QueueId,
    pub rank: UnitRank,
    pub shape: ShapeId,
}

/// The position of a queue among queues.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Entry {
    /// Set while one of its heads is awake.
    pub rank: Option<QueueRank>,
    /// When its first contender came, if no unit has overtaken that one yet.
    pub not_overtaken: Option<Timestamp>,
}

#[derive(Debug, Default)]
pub(super) struct Index {
    members: BTreeSet<Member>,
    /// Every head, and whether it is a contender.
    heads: BTreeMap<Head, bool>,
    /// The contenders that do not sleep.
    awake: BTreeSet<Contender>,
    /// Those that do, in the order of their queues and by shape.
    sleeping: BTreeSet<Contender>,
    asleep: BTreeSet<Head>,
    entries: BTreeMap<QueueId, Entry>,
    by_rank: BTreeMap<QueueRank, QueueId>,
    not_overtaken: BTreeSet<(Timestamp, QueueId)>,
}

impl Index {
    pub fn waiting(&self) -> usize {
        self.members.len()
    }

    /// Adds a unit. Returns the UID of the unit that becomes a contender.
    pub fn insert(&mut self, member: Member, can_fit: bool) -> Option<Arc<str>> {
        let head = Head { queue: member.queue, shape: member.shape };
        let before = self.first(head);
        self.members.insert(member);
        self.replace(head, before, can_fit)
    }

    /// Removes a unit. Returns the UID of the unit that becomes a contender.
    pub fn remove(&mut self, member: &Member, can_fit: bool) -> Option<Arc<str>> {
        let head = Head { queue: member.queue, shape: member.shape };
        let before = self.first(head);
        self.members.remove(member);
        self.replace(head, before, can_fit)
    }

    /// Notes whether the units of a class could ever fit.
    pub fn judge(&mut self, head: Head, can_fit: bool) {
        let first = self.first(head);
        self.replace(head, first, can_fit);
    }

    fn first(&self, head: Head) -> Option<UnitRank> {
        self.class(head).next().cloned()
    }

    /// Forgets a queue that has no members.
    pub fn forget(&mut self, queue: QueueId) {
        self.enter(queue, Entry::default());
        self.entries.remove(&queue);
    }

    /// The UIDs of all units that wait in a queue.
    pub fn units_of(&self, queue: QueueId) -> Vec<Arc<str>> {
        let from = Member { queue, shape: ShapeId::NONE, rank: UnitRank::first() };
        let own = self.members.range(from..).take_while(|member| member.queue == queue);
        own.map(|member| Arc::clone(&member.rank.uid)).collect()
    }

    /// All units that wait in queues that exist.
    pub fn members(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(|member| member.shape != ShapeId::NONE)
    }

    /// The units that wait in one queue with one shape, in their order.
    pub fn class(&self, head: Head) -> impl Iterator<Item = &UnitRank> {
        let Head { queue, shape } = head;
        let from = Member { queue, shape, rank: UnitRank::first() };
        let own = self.members.range(from..);
        own.take_while(move |member| (member.queue, member.shape) == (queue, shape))
            .map(|member| &member.rank)
    }

    /// The heads with a shape.
    pub fn heads(&self, shape: ShapeId) -> impl Iterator<Item = Head> {
        let from = Head { shape, queue: QueueId(0) };
        self.heads.range(from..).map(|(head, _)| *head).take_while(move |head| head.shape == shape)
    }

    /// The UIDs of the first units with a shape, one of each queue.
    pub fn firsts(&self, shape: ShapeId) -> impl Iterator<Item = Arc<str>> {
        self.heads(shape).filter_map(|head| self.class(head).next()).map(|rank| Arc::clone(&rank.uid))
    }

    /// Whether this position is that of a contender.
    pub fn contends(&self, head: Head, rank: &UnitRank) -> bool {
        self.heads.get(&head) == Some(&true) && self.class(head).next() == Some(rank)
    }

    /// Replaces the former first unit of a class with the current one.
    fn replace(&mut self, head: Head, before: Option<UnitRank>, can_fit: bool) -> Option<Arc<str>> {
        let Head { queue, shape } = head;
        if shape == ShapeId::NONE {
            return None;
        }
        let first = self.first(head);
        let contended = match first {
            Some(_) => self.heads.insert(head, can_fit),
            None => self.heads.remove(&head),
        };
        let before = before.filter(|_| contended == Some(true));
        let first = first.filter(|_| can_fit);
        if before == first {
            return None;
        }
        if let Some(rank) = before {
            let contender = Contender { queue, rank, shape };
            self.awake.remove(&contender);
            self.sleeping.remove(&contender);
        }
        let Some(rank) = first else {
            self.asleep.remove(&head);
            return None;
        };
        let uid = Arc::clone(&rank.uid);
        let sleeps = self.asleep.contains(&head);
        let line = if sleeps { &mut self.sleeping } else { &mut self.awake };
        line.insert(Contender { queue, rank, shape });
        Some(uid)
    }

    /// The first unit of a queue that could ever be released.
    pub fn first_contender(&self, queue: QueueId) -> Option<&Contender> {
        let (awake, sleeping) = (self.first_awake(queue), first_of(&self.sleeping, queue));
        awake.into_iter().chain(sleeping).min()
    }

    /// The first head of a queue that does not sleep.
    pub fn first_awake(&self, queue: QueueId) -> Option<&Contender> {
        first_of(&self.awake, queue)
    }

    /// The queue with the least rank.
    pub fn next_queue(&self) -> Option<QueueId> {
        self.by_rank.first_key_value().map(|(_, queue)| *queue)
    }

    /// Puts a head to sleep.
    pub fn put_to_sleep(&mut self, contender: &Contender) {
        if let Some(contender) = self.awake.take(contender) {
            self.asleep.insert(Head { queue: contender.queue, shape: contender.shape });
            self.sleeping.insert(contender);
        }
    }

    /// Wakes the heads with a shape. Returns their queues.
    pub fn wake(&mut self, shape: ShapeId) -> Vec<QueueId> {
        let from = Head { shape, queue: QueueId(0) };
        let sleepers: Vec<Head> =
            self.asleep.range(from..).take_while(|head| head.shape == shape).copied().collect();
        for head in &sleepers {
            self.asleep.remove(head);
            let Some(rank) = self.first(*head) else { continue };
            let Head { queue, shape } = *head;
            self.awake.extend(self.sleeping.take(&Contender { queue, rank, shape }));
        }
        sleepers.into_iter().map(|head| head.queue).collect()
    }

    /// Updates the position of a queue among the others.
    pub fn enter(&mut self, queue: QueueId, entry: Entry) {
        let before = self.entries.entry(queue).or_default();
        if *before == entry {
            return;
        }
        if let Some(rank) = &before.rank {
            self.by_rank.remove(rank);
        }
        if let Some(since) = before.not_overtaken {
            self.not_overtaken.remove(&(since, queue));
        }
        self.by_rank.extend(entry.rank.clone().map(|rank| (rank, queue)));
        self.not_overtaken.extend(entry.not_overtaken.map(|since| (since, queue)));
        *before = entry;
    }

    /// The queues whose first contender came before that moment and was not overtaken yet.
    pub fn not_overtaken_before(&self, moment: Timestamp) -> Vec<QueueId> {
        self.not_overtaken.range(..(moment, QueueId(0))).map(|(_, queue)| *queue).collect()
    }
}

fn first_of(contenders: &BTreeSet<Contender>, queue: QueueId) -> Option<&Contender> {
    let from = Contender { queue, rank: UnitRank::first(), shape: ShapeId::NONE };
    contenders.range(from..).next().filter(|first| first.queue == queue)
}
