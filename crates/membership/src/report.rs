//! What the controller hears of the member beside its slots: whether it leads, its figures, and the moves of
//! slots that it made.

use std::time::Duration;

use framework_shard::member::view::Figures;
use framework_shard::member::{LEADER_LEASE, Member};
use framework_shard::moves::Move;

use crate::message::{Moved, Notice};
use crate::unconfirmed::{Change, Unconfirmed};

/// The last reports, and what later ones need.
pub struct Reported {
    /// Whether this replica is the leader.
    leads: bool,
    figures: Figures,
    /// The namespace of the Leases.
    namespace: String,
    /// The UID of the leader's Lease; empty: not seen yet.
    lease_uid: String,
    unconfirmed: Unconfirmed,
}

impl Reported {
    /// Nothing was reported yet.
    pub fn new(namespace: &str) -> Self {
        Reported {
            leads: false,
            figures: Figures::default(),
            namespace: namespace.to_owned(),
            lease_uid: String::new(),
            unconfirmed: Unconfirmed::default(),
        }
    }

    /// The leader's Lease was seen, with this UID.
    pub fn leader_seen(&mut self, uid: Option<String>) {
        self.lease_uid = uid.unwrap_or_default();
    }

    /// The notices that are due after a step of the member.
    pub fn after_step(&mut self, member: &Member, at: Duration) -> Vec<Notice> {
        let mut notices = Vec::new();
        let leads = member.leads(at);
        if leads != std::mem::replace(&mut self.leads, leads) {
            notices.push(Notice::Leads(leads));
        }
        let figures = member.figures();
        if figures != self.figures {
            self.figures = figures.clone();
            notices.push(Notice::Figures(figures));
        }
        if let Some(moves) = member.known_map().and_then(|seen| self.unconfirmed.shown_by(seen)) {
            notices.push(self.notice(moves));
        }
        notices
    }

    /// The notice of a change of owners that was applied.
    pub fn moved(&mut self, moves: Vec<Move>) -> Notice {
        self.unconfirmed.clear();
        self.notice(moves)
    }

    /// A change of owners may have been applied: the map will show it.
    pub fn may_have_moved(&mut self, change: Change) {
        self.unconfirmed.add(change);
    }

    fn notice(&self, moves: Vec<Move>) -> Notice {
        let (namespace, uid) = (self.namespace.clone(), self.lease_uid.clone());
        Notice::Moved(Moved { moves, lease: LEADER_LEASE, namespace, uid })
    }
}
