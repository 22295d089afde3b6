//! The membership of this replica: it joins the member and the engine, and narrows and widens the watches.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use framework_core::plan::Report;
use framework_core::{Defect, EventReason};
use framework_engine::event as engine;
use framework_membership::{Command, Elected, LeaderLease, LeaseRole, Moved, Notice, Outcome};
use framework_message::{Change, Now, Ownership, Slot, SlotSelection, Slots};
use framework_queueing::QueueEvent;
use futures::FutureExt;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::{error, info};

use super::granted::Granted;
use super::labels::{self, Labeller};
use super::listing::{self, ATTEMPTS_IN_QUEUES, KINDS, ListStep};
use super::parts::Parts;
use super::units::UnitListing;
use crate::event::Event;
use crate::health::Health;
use crate::metrics::Metrics;
use crate::recorder::{Recorder, Subject};
use crate::watch::Mislabelled;

/// The part of the request budget that labels of Frameworks may take.
const LABELS: f64 = 0.25;

/// Notices or commands that may wait: far more than there are between two turns of either side.
const MESSAGES: usize = 4096;

/// The membership of this replica, as the loop sees it.
pub struct Membership {
    notices: Receiver<Notice>,
    commands: Sender<Command>,
    selections: [watch::Sender<SlotSelection>; KINDS],
    units: Option<UnitListing>,
    /// The engine has listed these slots, but the objects of queueing may be older than the grant.
    listed: Slots,
    /// The selection of the LIST of each kind that began last.
    listing: [SlotSelection; KINDS],
    /// The grants, and the slots that the watches are to show.
    granted: Granted,
    accompanied: watch::Sender<bool>,
    /// When the drain of a slot began, on the monotonic clock.
    draining: BTreeMap<Slot, Duration>,
    /// The name of the last drain that the loop has begun.
    drain_since: Duration,
    /// Whether the request budget does not go with the slots.
    has_whole_budget: bool,
    metrics: Arc<Metrics>,
    health: Arc<Health>,
    recorder: Recorder,
    end: Option<MembershipEnd>,
}

/// How the membership ended.
#[derive(Clone, Copy)]
enum MembershipEnd {
    /// Everything was handed over.
    Exited,
    /// The store was restored: the version that was known, and an older one that a later read showed.
    WentBack(u128, u128),
}

/// The selection of each kind's watch, as it changes: by its place, and then that of QueueUnits.
pub type Selected = [watch::Receiver<SlotSelection>; KINDS + 1];

fn subscribe(selections: &[watch::Sender<SlotSelection>; KINDS], units: &UnitListing) -> Selected {
    let [frameworks, config_maps, pods, attempts, used] = selections.each_ref().map(watch::Sender::subscribe);
    [frameworks, config_maps, pods, attempts, used, units.selection.subscribe()]
}

/// Tells the member whether all Frameworks have their labels.
async fn tell_labelled(mut is_complete: watch::Receiver<bool>, commanding: Sender<Command>) -> &'static str {
    while is_complete.changed().await.is_ok() {
        let labelled = *is_complete.borrow_and_update();
        if commanding.send(Command::Labelled(labelled)).await.is_err() {
            break;
        }
    }
    // After the membership has ended, the controller ends by itself.
    std::future::pending().await
}

/// Starts the membership, if the program is a member. Otherwise it owns every slot.
pub fn start(
    tasks: &mut JoinSet<&'static str>,
    parts: &mut Parts,
    recorder: &Recorder,
    mislabelled: &Arc<Mislabelled>,
) -> (Option<Membership>, Ownership, Option<Selected>) {
    let Some(member) = parts.member.take() else { return (None, Ownership::default(), None) };
    let ownership = Ownership::none();
    let (notices, notified) = channel(MESSAGES);
    let (commanding, commands) = channel(MESSAGES);
    let clock = parts.clock;
    let member_runs = framework_membership::run::run(framework_membership::Parts {
        client: member.client,
        policy: member.policy,
        host: member.host,
        pod: member.pod,
        clock: Box::new(move || clock.now()),
        run: member.run,
        ownership: ownership.clone(),
        commands,
        notices,
        queries: std::mem::replace(&mut parts.queries.shards, channel(1).1),
    });
    tasks.spawn(async move {
        if member_runs.await {
            // After its end, which follows a stop, the controller ends by itself.
            std::future::pending::<()>().await;
        }
        "the membership"
    });
    let (accompanied, is_accompanied) = watch::channel(false);
    let (complete, is_complete) = watch::channel(false);
    tasks.spawn(
        labels::run(Labeller {
            client: parts.client.clone(),
            namespace: parts.namespace.clone(),
            ownership: ownership.clone(),
            clock: parts.clock,
            metrics: Arc::clone(&parts.metrics),
            mislabelled: Arc::clone(mislabelled),
            accompanied: is_accompanied,
            complete,
            per_second: parts.settings.qps * LABELS,
            has_whole_budget: member.has_whole_budget,
            last: None,
            last_names: BTreeMap::new(),
            in_flight: BTreeSet::new(),
            refused: BTreeMap::new(),
        })
        .map(|()| "the task that labels Frameworks"),
    );
    tasks.spawn(tell_labelled(is_complete, commanding.clone()));
    let wanted = SlotSelection::whole(0, Slots::NONE);
    let selections = [wanted; KINDS].map(|wanted| watch::channel(wanted).0);
    let relist = !parts.policy.defects.has(Defect::ReleaseUnlisted);
    let units = UnitListing { selection: watch::channel(wanted).0, listing: 0, listed: 0, relist };
    let selected = subscribe(&selections, &units);
    let membership = Membership {
        notices: notified,
        commands: commanding,
        selections,
        units: parts.policy.queueing.then_some(units),
        listed: Slots::NONE,
        listing: [wanted; KINDS],
        granted: Granted::default(),
        accompanied,
        draining: BTreeMap::new(),
        drain_since: Duration::ZERO,
        has_whole_budget: member.has_whole_budget,
        metrics: Arc::clone(&parts.metrics),
        health: Arc::clone(&parts.health),
        recorder: recorder.clone(),
        end: None,
    };
    membership.health.await_slots();
    (Some(membership), ownership, Some(selected))
}

impl Membership {
    /// Waits for a notice; it stays to be taken.
    pub fn notified(&mut self) -> impl Future<Output = Option<Notice>> {
        self.notices.recv()
    }

    /// Takes in a notice, and those that are there after it. Returns the events that the engine is to see.
    pub fn take_in(&mut self, now: Now, first: Notice) -> Vec<engine::Event> {
        let (before, acted) = (self.granted.wanted(), self.granted.begun());
        let mut events = Vec::new();
        let mut next = Some(first);
        while let Some(notice) = next {
            events.extend(self.event(now, notice));
            next = self.notices.try_recv().ok();
        }
        let (wanted, acting) = (self.granted.wanted(), self.granted.begun());
        let changed = acting.without(acted).or(acted.without(acting));
        self.metrics.slots(acting.iter().count(), changed.iter().count());
        if (wanted.grant, wanted.slots) != (before.grant, before.slots) {
            // The other kinds follow, each after the LIST of the one before. Of no slots there is no LIST.
            let first = if wanted.slots.is_empty() { ATTEMPTS_IN_QUEUES } else { 1 };
            for kind in self.selections.iter().take(first) {
                kind.send_replace(wanted);
            }
            self.selections[ATTEMPTS_IN_QUEUES].send_replace(self.granted.wanted_in_queues());
        }
        self.units.iter().for_each(|units| units.list(wanted.grant));
        events
    }

    fn event(&mut self, now: Now, notice: Notice) -> Option<engine::Event> {
        Some(match notice {
            Notice::Granted { slots, grant } => {
                self.granted.grant(slots, grant);
                engine::Event::Granted { slots, grant }
            }
            Notice::Lost(slots) => {
                self.granted.lose(slots);
                self.listed = self.listed.without(slots);
                for begun in slots.iter().filter_map(|slot| self.draining.remove(&slot)) {
                    self.metrics.handed_over(now.steady.saturating_sub(begun));
                }
                engine::Event::Lost(slots)
            }
            Notice::Hold(slots, until) => engine::Event::Hold { slots, until },
            Notice::Begin(slots) => {
                self.granted.begin(slots);
                engine::Event::Begin(slots)
            }
            Notice::Drain { slots, since } => {
                self.drain_since = since;
                self.draining.extend(slots.iter().map(|slot| (slot, now.steady)));
                engine::Event::Drain(slots)
            }
            Notice::Resume(slots) => {
                self.draining.retain(|slot, _| !slots.contains(*slot));
                engine::Event::Resume(slots)
            }
            // It wakes the loop.
            Notice::Regained => return None,
            Notice::Accompanied(accompanied) => {
                self.accompanied.send_replace(accompanied);
                return None;
            }
            Notice::Leads(leads) => {
                info!("{}", if leads { "this replica leads now" } else { "this replica leads no more" });
                self.metrics.leads(leads);
                return None;
            }
            Notice::LeaseWritten(role, outcome) => {
                self.count(role, outcome);
                return None;
            }
            Notice::ShareTaken { has_slots } => {
                self.health.set_slots_taken(has_slots);
                return None;
            }
            Notice::Figures(figures) => {
                self.metrics.member(&figures);
                return None;
            }
            Notice::Moved(moved) => {
                self.report(&moved);
                return None;
            }
            Notice::Elected(Elected { leader, lease }) => {
                let report = Report::normal(EventReason::LeaderElection, format!("{leader} became leader"));
                self.recorder.record(subject(&lease), report);
                return None;
            }
            Notice::StoreWentBack { seen, found } => {
                self.end.get_or_insert(MembershipEnd::WentBack(seen.0.into(), found.0.into()));
                return None;
            }
            Notice::Exit => {
                self.end.get_or_insert(MembershipEnd::Exited);
                return None;
            }
        })
    }

    /// Counts a write of a Lease.
    fn count(&self, role: LeaseRole, outcome: Outcome) {
        let lease = match role {
            LeaseRole::Own => "own",
            LeaseRole::Leader => "leader",
            LeaseRole::Other => "other",
        };
        let outcome = match outcome {
            Outcome::Done(_) => "done",
            Outcome::Refused => "refused",
            Outcome::Unknown => "unknown",
        };
        self.metrics.lease_written(lease, outcome);
    }

    /// Reports the moves of this replica in the map, by a line and by an Event of the leader's Lease.
    fn report(&self, moved: &Moved) {
        let subject = subject(&moved.lease);
        for one in &moved.moves {
            self.metrics.slots_moved(one.slots);
            let note = one.to_string();
            info!(note, "slots moved");
            let report = match one.unsettled {
                true => Report::warning(EventReason::SlotsMoved, note),
                false => Report::normal(EventReason::SlotsMoved, note),
            };
            self.recorder.record(subject.clone(), report);
        }
    }

    /// Follows the LISTs: when one is complete, the next kind is selected.
    pub fn follow(&mut self, event: &Event) {
        match event {
            Event::ListsUnits(selection) => {
                self.units.iter_mut().for_each(|units| units.listing = selection.grant);
            }
            Event::Queue(QueueEvent::Unit(Change::Synced)) => {
                if let Some(units) = &mut self.units {
                    units.listed = units.listing;
                    units.list(self.granted.number());
                }
                self.report_listed();
            }
            event => match listing::step(event) {
                Some(ListStep::Begins(place, selection)) => self.listing[place] = selection,
                Some(ListStep::Completes(place)) => self.complete(place),
                None => {}
            },
        }
    }

    /// A LIST of the kind at this place is complete.
    fn complete(&mut self, place: usize) {
        let next = self.granted.listed(place, self.listing[place]);
        let is_wanted = place >= ATTEMPTS_IN_QUEUES || !self.granted.slots().is_empty();
        if let Some(selection) = next.filter(|_| is_wanted) {
            self.selections[place + 1].send_if_modified(|now| {
                let before = std::mem::replace(now, selection);
                (before.grant, before.slots) != (selection.grant, selection.slots)
            });
        }
        if place >= ATTEMPTS_IN_QUEUES {
            self.report_listed();
        }
    }

    /// The Frameworks, ConfigMaps and Pods of these slots were listed.
    pub fn listed(&mut self, slots: Slots) {
        self.listed = self.listed.or(slots);
        self.report_listed();
    }

    /// The member learns of the slots that are listed once all units were listed since their grant, and so
    /// were the ConfigMaps and Pods in queues of their namespaces.
    fn report_listed(&mut self) {
        let (grant, unlisted) = match &self.units {
            Some(units) => (units.listed_since(), self.granted.unlisted_in_queues()),
            None => (u64::MAX, Slots::NONE),
        };
        let listed = self.listed.and(self.granted.until(grant)).without(unlisted);
        if !listed.is_empty() {
            self.listed = self.listed.without(listed);
            self.command(Command::Listed { slots: listed, grant: self.granted.number() });
        }
    }

    /// Nothing is on its way for these slots.
    pub fn drained(&self, slots: Slots) {
        self.command(Command::Drained { slots, since: self.drain_since });
    }

    /// Everything is to be handed over.
    pub fn stop(&self) {
        self.command(Command::Stop);
    }

    fn command(&self, command: Command) {
        // The member is gone only after everything was handed over, or the store was restored.
        if let Err(TrySendError::Full(command)) = self.commands.try_send(command) {
            error!(?command, "the queue of commands to the membership task is full");
        }
    }

    /// The version that the member knew, and an older one that a later read showed: the store was restored.
    pub fn went_back(&self) -> Option<(u128, u128)> {
        match self.end {
            Some(MembershipEnd::WentBack(seen, found)) => Some((seen, found)),
            _ => None,
        }
    }

    /// Whether everything was handed over.
    pub fn has_exited(&self) -> bool {
        matches!(self.end, Some(MembershipEnd::Exited))
    }

    /// The part of the request budget that this replica may use: that of its slots, unless each replica has
    /// the whole.
    pub fn of_budget(&self) -> f64 {
        let held = if self.has_whole_budget { Slot::COUNT } else { self.granted.slots().iter().count() };
        held as f64 / Slot::COUNT as f64
    }
}

fn subject(lease: &LeaderLease) -> Subject {
    Subject::lease(&lease.namespace, lease.name, &lease.uid)
}

#[cfg(test)]
mod tests {
    use framework_engine::event::Kind;
    use http::{Request, Response};
    use kube::client::Body;
    use tower::BoxError;

    use super::*;
    use crate::clock::Clock;
    use crate::health::Synced;

    /// A membership without units, and the receiver of their commands.
    fn membership() -> (Membership, Receiver<Command>) {
        let (metrics, clock) = (Metrics::new(), Clock::system());
        let service = tower::service_fn(|_: Request<Body>| async {
            Err::<Response<Body>, BoxError>("there is no API server".into())
        });
        let client = kube::Client::new(service, "default");
        let wanted = SlotSelection::whole(0, Slots::NONE);
        let (commands, commanded) = channel(1);
        let membership = Membership {
            notices: channel(1).1,
            commands,
            selections: [wanted; KINDS].map(|wanted| watch::channel(wanted).0),
            units: None,
            listed: Slots::NONE,
            listing: [wanted; KINDS],
            granted: Granted::default(),
            accompanied: watch::channel(false).0,
            draining: BTreeMap::new(),
            drain_since: Duration::ZERO,
            has_whole_budget: false,
            recorder: Recorder::new(client, clock, "member", Arc::clone(&metrics)).0,
            metrics,
            health: Arc::new(Health::new(clock)),
            end: None,
        };
        (membership, commanded)
    }

    /// Lists the ConfigMaps and then the Pods in queues, as they are selected.
    fn list_in_queues(membership: &mut Membership) {
        let [attempts, pods] = [ATTEMPTS_IN_QUEUES, ATTEMPTS_IN_QUEUES + 1];
        let selection = *membership.selections[attempts].borrow();
        membership.follow(&Event::Queue(QueueEvent::AttemptsSelected(selection)));
        membership.follow(&Event::Queue(QueueEvent::Attempt(Change::Synced)));
        let selection = *membership.selections[pods].borrow();
        membership.follow(&Event::Queue(QueueEvent::PodsSelected(selection)));
        membership.follow(&Event::Queue(QueueEvent::Pod(Change::Synced)));
    }

    #[tokio::test]
    async fn the_end_of_a_drain_names_the_drain_that_began_last() {
        let (mut membership, mut commanded) = membership();
        let clock = Clock::system();
        for since in [1, 2].map(Duration::from_secs) {
            let events = membership.take_in(clock.now(), Notice::Drain { slots: Slots::ALL, since });
            assert!(matches!(events[..], [engine::Event::Drain(Slots::ALL)]));
            membership.drained(Slots::ALL);
            assert_eq!(commanded.try_recv(), Ok(Command::Drained { slots: Slots::ALL, since }));
        }
    }

    #[tokio::test]
    async fn the_end_of_the_wait_for_the_share_reaches_the_probes() {
        let (mut membership, _commanded) = membership();
        membership.health.await_slots();
        for kind in [Synced::Frameworks, Synced::ConfigMaps, Synced::Pods] {
            membership.health.set_synced(kind);
        }
        assert_eq!(membership.health.not_ready().unwrap(), "waiting for its slots");
        let events = membership.take_in(Clock::system().now(), Notice::ShareTaken { has_slots: true });
        assert!(events.is_empty());
        assert_eq!(membership.health.not_ready(), None);
    }

    #[tokio::test]
    async fn a_replica_without_slots_watches_no_frameworks_and_nothing_of_them() {
        let (mut membership, _commanded) = membership();
        let (now, slots): (_, Slots) = (Clock::system().now(), [Slot(1)].into_iter().collect());
        membership.take_in(now, Notice::Granted { slots, grant: 1 });
        let selection = *membership.selections[0].borrow();
        membership.follow(&Event::Engine(engine::Event::Selected(Kind::Frameworks, selection)));
        membership.follow(&Event::Engine(engine::Event::Framework(Change::Synced)));
        membership.follow(&Event::Engine(engine::Event::Selected(Kind::ConfigMaps, selection)));
        membership.follow(&Event::Engine(engine::Event::ConfigMap(Change::Synced)));
        let watched =
            |membership: &Membership| [0, 1, 2].map(|kind| membership.selections[kind].borrow().slots);
        assert_eq!(watched(&membership), [slots; 3]);
        membership.take_in(now, Notice::Lost(slots));
        assert_eq!(watched(&membership), [Slots::NONE; 3]);
        // A LIST that was complete just before.
        membership.follow(&Event::Engine(engine::Event::Framework(Change::Synced)));
        assert_eq!(watched(&membership), [Slots::NONE; 3]);
        membership.take_in(now, Notice::Granted { slots, grant: 2 });
        assert_eq!(watched(&membership), [slots, Slots::NONE, Slots::NONE]);
    }

    #[tokio::test]
    async fn the_request_budget_goes_with_the_slots_unless_it_is_per_replica() {
        let (mut membership, _commanded) = membership();
        let quarter: Slots = Slot::all().take(Slot::COUNT / 4).collect();
        membership.take_in(Clock::system().now(), Notice::Granted { slots: quarter, grant: 1 });
        let budgets = [false, true].map(|is_whole| {
            membership.has_whole_budget = is_whole;
            membership.of_budget()
        });
        assert_eq!(budgets, [0.25, 1.0]);
    }

    #[tokio::test]
    async fn a_slot_is_listed_once_the_pods_in_queues_of_its_namespaces_are() {
        let (mut membership, mut commanded) = membership();
        let (selection, asked) = watch::channel(SlotSelection::whole(0, Slots::NONE));
        membership.units = Some(UnitListing { selection, listing: 0, listed: 0, relist: true });
        let slots: Slots = [Slot(1)].into_iter().collect();
        // Those that name no slot are listed before the first grant.
        list_in_queues(&mut membership);
        membership.take_in(Clock::system().now(), Notice::Granted { slots, grant: 1 });
        let units = *asked.borrow();
        membership.follow(&Event::ListsUnits(units));
        membership.follow(&Event::Queue(QueueEvent::Unit(Change::Synced)));
        membership.listed(slots);
        commanded.try_recv().expect_err("the Pods are older than the grant");
        list_in_queues(&mut membership);
        assert_eq!(commanded.try_recv(), Ok(Command::Listed { slots, grant: 1 }));
    }

    #[tokio::test]
    async fn a_list_of_units_is_completed_though_other_slots_are_granted() {
        let (mut membership, mut commanded) = membership();
        let (selection, asked) = watch::channel(SlotSelection::whole(0, Slots::NONE));
        membership.units = Some(UnitListing { selection, listing: 0, listed: 0, relist: true });
        let now = Clock::system().now();
        let synced = Event::Queue(QueueEvent::Unit(Change::Synced));
        let [one, two] = [Slot(1), Slot(2)].map(|slot| [slot].into_iter().collect::<Slots>());
        let granted = |slots, grant| Notice::Granted { slots, grant };
        membership.take_in(now, granted([Slot(0)].into_iter().collect(), 1));
        membership.take_in(now, granted(one, 2));
        let first = *asked.borrow();
        assert_eq!(first.grant, 2, "the first LIST has not begun");
        membership.follow(&Event::ListsUnits(first));
        membership.take_in(now, granted(two, 3));
        list_in_queues(&mut membership);
        membership.listed(one.or(two));
        assert_eq!(asked.borrow().grant, 2);
        commanded.try_recv().expect_err("units are not listed yet");
        membership.follow(&synced);
        let listed = |slots| Ok(Command::Listed { slots, grant: 3 });
        assert_eq!((commanded.try_recv(), asked.borrow().grant), (listed(one), 3));
        let second = *asked.borrow();
        membership.follow(&Event::ListsUnits(second));
        membership.follow(&synced);
        assert_eq!(commanded.try_recv(), listed(two));
    }
}
