//! The reports of the member to the controller, apart from slots: leadership, figures, moves of slots, and
//! the end of the wait for its share.

use std::time::Duration;

use framework_shard::Policy;
use framework_shard::member::view::{Figures, ShareProgress};
use framework_shard::member::{LEADER_LEASE, Member};
use framework_shard::moves::Move;

use crate::message::{Elected, LeaderLease, Moved, Notice};
use crate::unconfirmed::{Change, Unconfirmed};

/// The last reports, and what later ones need.
pub struct Reported {
    election: Election,
    figures: Figures,
    /// The namespace of the Leases.
    namespace: String,
    /// The UID of the leader's Lease; empty: not seen yet.
    lease_uid: String,
    unconfirmed: Unconfirmed,
    wait: ShareWait,
}

/// Whether this replica is the leader.
#[derive(Default)]
struct Election {
    leads: bool,
    /// Whether its election is yet to be reported.
    is_unreported: bool,
}

impl Election {
    /// Takes in whether this replica leads, and whether the leader's Lease was seen, which a report names.
    /// Returns whether the first has changed, and whether the election is to be reported now.
    fn step(&mut self, leads: bool, lease_seen: bool) -> (bool, bool) {
        let has_changed = leads != std::mem::replace(&mut self.leads, leads);
        if has_changed {
            self.is_unreported = leads;
        }
        let is_due = self.is_unreported && lease_seen;
        self.is_unreported &= !is_due;
        (has_changed, is_due)
    }
}

/// The wait of a replica for its share of the slots, which ends once and for all. A replica whose share
/// changes later goes on acting for the rest of it, so that this says nothing about its health.
struct ShareWait {
    /// How long it takes at least, unless this replica gets all slots.
    first_plan: Duration,
    /// How long it may take.
    patience: Duration,
    /// Since when this replica has been a member without a lapse.
    since: Option<Duration>,
    is_over: bool,
}

impl ShareWait {
    /// Takes in how far the member has come, if that matters still. Returns the notice of the end.
    fn step(&mut self, share: impl FnOnce() -> Option<ShareProgress>, at: Duration) -> Option<Notice> {
        if self.is_over {
            return None;
        }
        let Some(share) = share() else {
            self.since = None;
            return None;
        };
        if !share.is_labelled && share.acting + share.listing == 0 {
            // No slot moves before Frameworks have labels, and that takes longer the more there are.
            self.since = None;
            return None;
        }
        let waited = at.saturating_sub(*self.since.get_or_insert(at));
        let is_planned = share.acting == share.all || share.is_labelled && waited >= self.first_plan;
        // Slots that are being listed may still be lost, and their kinds would never be listed.
        let is_patient = share.listing > 0 || waited < self.patience;
        self.is_over = share.is_whole() && is_planned || !is_patient;
        self.is_over.then_some(Notice::ShareTaken { has_slots: share.acting > 0 })
    }
}

impl Reported {
    /// Nothing was reported yet.
    pub fn new(namespace: &str, policy: &Policy) -> Self {
        let (first_plan, patience) = (policy.first_plan(), policy.share_patience());
        Reported {
            wait: ShareWait { first_plan, patience, since: None, is_over: false },
            election: Election::default(),
            figures: Figures::default(),
            namespace: namespace.to_owned(),
            lease_uid: String::new(),
            unconfirmed: Unconfirmed::default(),
        }
    }

    /// The leader's Lease was seen, with this UID; `None`: it is absent.
    pub fn leader_seen(&mut self, uid: Option<String>) {
        self.lease_uid = uid.unwrap_or_default();
    }

    /// The notices that are due after a step of the member, whose Lease has this name.
    pub fn after_step(&mut self, member: &Member, name: &str, at: Duration) -> Vec<Notice> {
        let mut notices = Vec::new();
        let leads = member.leads(at);
        let (has_changed, is_elected) = self.election.step(leads, !self.lease_uid.is_empty());
        if has_changed {
            notices.push(Notice::Leads(leads));
        }
        if is_elected {
            notices.push(Notice::Elected(Elected { leader: name.to_owned(), lease: self.lease() }));
        }
        let figures = member.figures();
        if figures != self.figures {
            self.figures = figures.clone();
            notices.push(Notice::Figures(figures));
        }
        if let Some(moves) = member.known_map().and_then(|seen| self.unconfirmed.shown_by(seen)) {
            notices.push(self.notice(moves));
        }
        notices.extend(self.wait.step(|| member.share(at), at));
        notices
    }

    /// The notice of a change of owners that was applied.
    pub fn moved(&mut self, change: Change) -> Notice {
        self.unconfirmed.applied(&change);
        self.notice(change.moves)
    }

    /// A change of owners may have been applied: the map will show it.
    pub fn may_have_moved(&mut self, change: Change) {
        self.unconfirmed.add(change);
    }

    fn notice(&self, moves: Vec<Move>) -> Notice {
        Notice::Moved(Moved { moves, lease: self.lease() })
    }

    fn lease(&self) -> LeaderLease {
        let (namespace, uid) = (self.namespace.clone(), self.lease_uid.clone());
        LeaderLease { name: LEADER_LEASE, namespace, uid }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// When a wait of 7 to 96 s ends, and whether with slots. Each row is a second, and the slots of 256 that
    /// are acted for, are listed and are proposed then.
    fn end(rows: &[(u64, Option<[usize; 3]>)]) -> Option<(u64, bool)> {
        end_of(rows, |_| true)
    }

    fn end_of(rows: &[(u64, Option<[usize; 3]>)], labelled: fn(u64) -> bool) -> Option<(u64, bool)> {
        let [first_plan, patience] = [7, 96].map(Duration::from_secs);
        let mut wait = ShareWait { first_plan, patience, since: None, is_over: false };
        let mut ends = rows.iter().filter_map(|(second, share)| {
            let (all, is_labelled) = (256, labelled(*second));
            let share = share.map(|[acting, listing, proposed]| ShareProgress {
                acting,
                listing,
                proposed,
                all,
                is_labelled,
            });
            match wait.step(|| share, Duration::from_secs(*second)) {
                Some(Notice::ShareTaken { has_slots }) => Some((*second, has_slots)),
                _ => None,
            }
        });
        let first = ends.next();
        assert_eq!(ends.next(), None, "there is one notice");
        first
    }

    #[test]
    fn an_election_is_reported_once_when_the_lease_is_seen() {
        let mut election = Election::default();
        let rows = [(false, true), (true, false), (true, true), (true, true), (false, true), (true, true)];
        let reports = rows.map(|(leads, lease_seen)| election.step(leads, lease_seen));
        let [before, first] = [(false, false), (true, false)];
        assert_eq!(reports, [before, first, (false, true), before, (true, false), (true, true)]);
        let lost = [(false, false), (true, false), (false, true)];
        assert_eq!(lost.map(|(leads, seen)| election.step(leads, seen).1), [false; 3], "it leads no more");
    }

    #[test]
    fn a_wait_ends_with_the_last_part_of_the_share() {
        let parts = [
            (1, None),
            (2, Some([0, 0, 0])),
            (7, Some([0, 0, 128])),
            (8, Some([0, 100, 28])),
            (9, Some([100, 0, 28])),
            (12, Some([100, 28, 0])),
            (13, Some([128, 0, 0])),
            (14, Some([128, 0, 9])),
            (15, None),
            (500, Some([137, 0, 0])),
        ];
        assert_eq!(end(&parts), Some((13, true)));
        assert_eq!(end(&[(0, Some([256, 0, 0]))]), Some((0, true)), "a replica alone");
        let left =
            [(1, Some([0, 0, 0])), (2, Some([9, 0, 0])), (8, Some([9, 0, 119])), (9, Some([128, 0, 0]))];
        assert_eq!(end(&left), Some((9, true)), "the first part was of one that left");
    }

    #[test]
    fn a_wait_without_slots_does_not_begin_before_frameworks_have_labels() {
        let none = Some([0, 0, 0]);
        let rows = [(0, none), (500, none), (501, none), (596, none), (597, none)];
        assert_eq!(end_of(&rows, |second| second > 500), Some((597, false)));
        assert_eq!(end_of(&[(0, Some([256, 0, 0]))], |_| false), Some((0, true)), "one alone sets no labels");
        let left = [(1, none), (2, Some([9, 0, 0])), (12, Some([9, 0, 0])), (40, Some([128, 0, 0]))];
        assert_eq!(
            end_of(&left, |second| second > 30),
            Some((40, true)),
            "the first part is of one that left"
        );
    }

    #[test]
    fn a_wait_ends_without_the_share_at_a_bound_unless_the_right_lapses() {
        let none = Some([0, 0, 0]);
        assert_eq!(end(&[(4, none), (99, none), (100, none)]), Some((100, false)), "too many replicas");
        assert_eq!(end(&[(4, none), (50, None), (51, none), (146, none)]), None);
        assert_eq!(end(&[(4, none), (50, None), (51, none), (147, none)]), Some((147, false)));
        assert_eq!(end(&[(4, None), (1000, None)]), None, "another replica holds the Lease");
        let stuck = Some([0, 0, 128]);
        assert_eq!(end(&[(0, stuck), (96, stuck)]), Some((96, false)), "an owner hands nothing over");
        let part = Some([100, 0, 28]);
        assert_eq!(end(&[(0, part), (96, part)]), Some((96, true)));
        assert_eq!(
            end(&[(0, stuck), (96, Some([0, 100, 28])), (97, stuck)]),
            Some((97, false)),
            "lost again"
        );
    }
}
