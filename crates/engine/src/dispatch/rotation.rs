//! Members in rotation, a turn of several requests each.

use std::collections::{BTreeSet, VecDeque};

/// How many requests a member may send in a turn.
pub const TURN: u32 = 32;

/// Members in rotation; a member is in there once.
#[derive(Debug)]
pub(super) struct Rotation<T> {
    order: VecDeque<T>,
    members: BTreeSet<T>,
    /// The member that was taken last, and how often in a row.
    turn: Option<(T, u32)>,
}

impl<T> Default for Rotation<T> {
    fn default() -> Self {
        Rotation { order: VecDeque::new(), members: BTreeSet::new(), turn: None }
    }
}

impl<T: Clone + Ord> Rotation<T> {
    /// Puts a member at the end, or at the head while its turn lasts, unless it is in there.
    pub fn offer(&mut self, member: &T) {
        if !self.members.insert(member.clone()) {
            return;
        }
        match &self.turn {
            Some((last, taken)) if last == member && *taken < TURN => self.order.push_front(member.clone()),
            _ => self.order.push_back(member.clone()),
        }
    }

    /// Takes the member whose turn it is.
    pub fn take(&mut self) -> Option<T> {
        let member = self.order.pop_front()?;
        self.members.remove(&member);
        let taken = match &self.turn {
            Some((last, taken)) if *last == member && *taken < TURN => taken + 1,
            _ => 1,
        };
        self.turn = Some((member.clone(), taken));
        Some(member)
    }

    /// Ends the turn of the member at the head: all others go before it.
    pub fn pass(&mut self) {
        self.turn = None;
        if let Some(member) = self.order.pop_front() {
            self.order.push_back(member);
        }
    }

    /// The member whose turn it is.
    pub fn head(&self) -> Option<&T> {
        self.order.front()
    }

    pub fn contains(&self, member: &T) -> bool {
        self.members.contains(member)
    }

    pub fn len(&self) -> usize {
        self.order.len()
    }

    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }
}
