//! Steps the member: gives it the time and the events, and does its effects in their order.

use std::time::Duration;

use framework_message::{Now, Ownership, Slot, Slots};
use framework_shard::event::{Effect, Event};
use framework_shard::lease::LeaseRecord;
use framework_shard::map::SlotMap;
use framework_shard::member::{LEADER_LEASE, Member};
use framework_shard::{Incarnation, Policy, Seen};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};
use tracing::{error, info, warn};

use crate::exchange::{Ended, checked, exchange};
use crate::grants::Grants;
use crate::lease::{self, lease_name};
use crate::leases::Leases;
use crate::map::MAP;
use crate::message::{Command, Notice, ViewQuery};
use crate::report::Reported;
use crate::slim::Slim;
use crate::store::Store;
use crate::watch::{Selection, Shown, watch};

/// The parts of a member.
pub struct Parts {
    /// Leads to the API server, by a connection that nothing else uses. Its default namespace has the Leases
    /// and the map.
    pub client: kube::Client,
    /// The settings.
    pub policy: Policy,
    /// The name of this replica's host, in a cluster the Pod's: it names the Lease.
    pub host: String,
    /// The UID of the Pod, if it is known: a container that was restarted in it takes its slots at once.
    /// Otherwise anything that no other program uses.
    pub pod: String,
    /// Shows the time.
    pub clock: Box<dyn Fn() -> Now + Send>,
    /// The name of this run of the program, which no other run has. It is in the User-Agent, too, so that an
    /// audit log shows which incarnation sent a request.
    pub run: String,
    /// The slots that this replica owns: the member alone changes them.
    pub ownership: Ownership,
    /// Commands of the controller.
    pub commands: Receiver<Command>,
    /// Notices to the controller.
    pub notices: Sender<Notice>,
    /// Queries for the member's view.
    pub queries: Receiver<ViewQuery>,
}

/// Objects that a watch has shown and the member has not seen; a watch with more waits.
const SHOWN: usize = 256;

/// The end of a request, with the life that sent it.
type Answered = (u64, Vec<Ended>);

/// Why a member has ended.
#[derive(PartialEq)]
enum End {
    /// Everything is handed over, or no other life would do better.
    Over,
    /// The controller takes no notices.
    Deaf,
}

struct Driver {
    parts: Parts,
    store: Store,
    member: Member,
    me: Incarnation,
    life: u64,
    grants: Grants,
    until: Duration,
    requests: JoinSet<Answered>,
    leases: Leases,
    map: Option<Seen<SlotMap>>,
    /// Whether every Framework has its label.
    labelled: bool,
    accompanied: bool,
    reported: Reported,
    end: Option<End>,
    /// The member was stepped since the last tick was set.
    stepped: bool,
}

/// Runs until the member has handed everything over, or the controller is gone. Returns whether that was so:
/// a controller that takes no notices any more is not fit to own slots.
pub async fn run(parts: Parts) -> bool {
    let store = Store::new(&parts.client, parts.policy.timeout);
    let (leases, mut leases_shown) = channel::<Shown<Slim<Lease>>>(SHOWN);
    let (maps, mut map_shown) = channel::<Shown<Slim<ConfigMap>>>(SHOWN);
    let mut watches = JoinSet::new();
    let of_members = Selection { fields: None, is_ours: lease::is_ours, awaited: LEADER_LEASE };
    watches.spawn(watch(store.clone(), store.leases.clone(), of_members, leases));
    let fields = Some(format!("metadata.name={MAP}"));
    let the_map = Selection { fields, is_ours: |name| name == MAP, awaited: MAP };
    watches.spawn(watch(store.clone(), store.maps.clone(), the_map, maps));
    let mut driver = Driver::new(parts, store);
    // Before all Leases were seen once, a member knows too little to join.
    loop {
        tokio::select! {
            biased;
            shown = leases_shown.recv() => match shown {
                Some(Shown::Listed) | None => break,
                Some(shown) => driver.lease_shown(shown),
            },
            command = driver.parts.commands.recv() => match command {
                Some(Command::Stop) => driver.step(Event::Stop),
                Some(Command::Labelled(labelled)) => driver.labelled = labelled,
                // It has no slots yet.
                Some(Command::Listed { .. } | Command::Drained { .. }) => {}
                None => return true,
            },
        }
        if driver.end.is_some() {
            return driver.end == Some(End::Over);
        }
    }
    driver.step(Event::Labelled(driver.labelled));
    let mut ticks = interval(driver.parts.policy.interval / 8);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while driver.end.is_none() {
        tokio::select! {
            biased;
            _ = ticks.tick() => driver.step(Event::Tick),
            Some(answered) = driver.requests.join_next() => match answered {
                Ok((life, ended)) => driver.ended(life, ended),
                Err(error) => warn!(%error, "a request of the member failed"),
            },
            command = driver.parts.commands.recv() => match command {
                Some(Command::Listed { slots, grant }) => {
                    let slots = driver.grants.until(grant, slots);
                    driver.step(Event::Listed(slots));
                }
                Some(Command::Drained { slots, since }) => driver.step(Event::Drained { slots, since }),
                Some(Command::Labelled(labelled)) => {
                    driver.labelled = labelled;
                    driver.step(Event::Labelled(labelled));
                }
                Some(Command::Stop) => driver.step(Event::Stop),
                None => return true,
            },
            Some(shown) = leases_shown.recv() => driver.lease_shown(shown),
            Some(shown) = map_shown.recv() => driver.map_shown(shown),
            Some(query) = driver.parts.queries.recv() => {
                // The client may have given up waiting for the answer.
                let _ = query.send(driver.member.view((driver.parts.clock)()));
            }
        }
        if std::mem::take(&mut driver.stepped) {
            // Any step does the work of a tick.
            ticks.reset();
        }
    }
    driver.end == Some(End::Over)
}

impl Driver {
    fn new(parts: Parts, store: Store) -> Self {
        let me = incarnation(&parts, 0);
        let member = Member::new(parts.policy, me.clone(), &parts.pod, Slot::all()).first_of_program();
        let reported = Reported::new(parts.client.default_namespace(), &parts.policy);
        info!(incarnation = %me, "joining the replicas");
        Driver {
            parts,
            store,
            member,
            me,
            life: 0,
            grants: Grants::default(),
            until: Duration::ZERO,
            requests: JoinSet::new(),
            leases: Leases::default(),
            map: None,
            labelled: false,
            accompanied: false,
            reported,
            end: None,
            stepped: false,
        }
    }

    fn lease_shown(&mut self, shown: Shown<Slim<Lease>>) {
        let (name, seen) = match shown {
            Shown::Present(Slim(lease)) => {
                self.store.note(&lease.metadata, false);
                let Some(seen) = lease::read(&lease) else { return };
                let name = lease.metadata.name.unwrap_or_default();
                if name == LEADER_LEASE {
                    self.reported.leader_seen(lease.metadata.uid);
                }
                (name, seen)
            }
            Shown::Absent(name, version) => {
                if name == LEADER_LEASE {
                    self.reported.leader_seen(None);
                }
                (name, Seen { version, value: None })
            }
            Shown::Listed => return,
        };
        self.lease_seen(name, seen);
    }

    fn lease_seen(&mut self, name: String, seen: Seen<LeaseRecord>) {
        self.leases.see(&name, &seen);
        let accompanied = self.leases.show_others(self.me.lease());
        if accompanied != self.accompanied {
            self.accompanied = accompanied;
            self.notify(Notice::Accompanied(accompanied));
        }
        self.step(Event::LeaseSeen { name, seen });
    }

    /// Forgets what the member has forgotten. It may write the map and these two Leases at any time.
    fn forget(&mut self) {
        let (member, own) = (&self.member, self.me.lease());
        let is_kept = |name: &str| [MAP, LEADER_LEASE, own].contains(&name) || member.knows_lease(name);
        self.leases.retain(is_kept);
        self.store.retain(is_kept);
    }

    fn map_shown(&mut self, shown: Shown<Slim<ConfigMap>>) {
        let seen = match shown {
            Shown::Present(Slim(map)) => self.store.map_of(&map),
            Shown::Absent(_, version) => Some(Seen { version, value: None }),
            Shown::Listed => None,
        };
        if let Some(seen) = seen {
            self.map = Some(seen.clone());
            self.step(Event::MapSeen(seen));
        }
    }

    fn ended(&mut self, life: u64, ended: Vec<Ended>) {
        for ended in ended {
            match ended {
                Ended::Event(event) => self.answered(life, event),
                Ended::LeaseWritten(role, ticket, outcome) => {
                    self.notify(Notice::LeaseWritten(role, outcome));
                    self.answered(life, Event::LeaseWritten { ticket, outcome });
                }
                Ended::Moved(change) => {
                    let notice = self.reported.moved(change);
                    self.notify(notice);
                }
                Ended::MayHaveMoved(change) => self.reported.may_have_moved(change),
                Ended::WentBack { known, found } => {
                    // Watches that began at later versions show nothing: no other life would do better.
                    Slot::all().for_each(|slot| self.parts.ownership.disown(slot));
                    self.notify(Notice::StoreWentBack { seen: known, found });
                    self.end.get_or_insert(End::Over);
                }
            }
        }
    }

    /// A request of one life has ended. Tickets are of one life, and the result of a read is for every life.
    fn answered(&mut self, life: u64, event: Event) {
        let is_map_read = matches!(event, Event::MapRead(_));
        match event {
            Event::LeaseSeen { name, seen } => self.lease_seen(name, seen),
            event if life == self.life => self.step(event),
            _ => {}
        }
        if is_map_read {
            self.forget();
        }
    }

    fn step(&mut self, event: Event) {
        self.stepped = true;
        let mut again = vec![event];
        while let Some(event) = again.pop() {
            let now = (self.parts.clock)();
            for effect in self.member.step(now, event) {
                if matches!(effect, Effect::Rejoin) {
                    again = self.rejoin();
                    break;
                }
                self.perform(now, effect);
            }
        }
        let at = (self.parts.clock)().boot;
        for notice in self.reported.after_step(&self.member, self.me.lease(), at) {
            self.notify(notice);
        }
    }

    /// Another life begins. Returns the events that show it the known objects.
    fn rejoin(&mut self) -> Vec<Event> {
        warn!(incarnation = %self.me, "the Lease is lost, or may have been held: this replica rejoins");
        self.life += 1;
        self.me = incarnation(&self.parts, self.life);
        self.member = self.member.next_life(self.me.clone(), &self.parts.pod);
        let labelled = Event::Labelled(self.labelled);
        self.leases.events().chain(self.map.clone().map(Event::MapSeen)).chain([labelled]).collect()
    }

    fn perform(&mut self, now: Now, effect: Effect) {
        match effect {
            Effect::WriteLease { .. }
            | Effect::ReadLease(_)
            | Effect::DeleteLease { .. }
            | Effect::PutMap { .. }
            | Effect::ReadMap => {
                let (store, life) = (self.store.clone(), self.life);
                let before = match &effect {
                    // The member has just made it from the map that it knows.
                    Effect::PutMap { .. } => self.member.known_map().and_then(|seen| seen.value.clone()),
                    _ => None,
                };
                let own = self.me.lease().to_owned();
                let known = match &effect {
                    Effect::ReadLease(name) => self.leases.version(name),
                    Effect::ReadMap => self.map.as_ref().map(|seen| seen.version),
                    _ => None,
                };
                self.requests.spawn(async move {
                    let ended = exchange(store, now, effect, &own, before).await;
                    (life, checked(ended, known))
                });
            }
            Effect::List(slots) => {
                for (slot, epoch) in slots.iter().filter_map(|slot| Some((slot, self.member.epoch(slot)?))) {
                    self.parts.ownership.grant(slot, epoch);
                }
                info!(slots = slots.iter().count(), "slots were granted; listing them");
                let grant = self.grants.grant(slots);
                self.notify(Notice::Granted { slots, grant });
            }
            Effect::Own { slots, until } => self.own(now, slots, until),
            Effect::Hold { slots, until } if !slots.is_empty() => {
                let seconds = until.saturating_sub(now.boot).as_secs();
                info!(slots = slots.iter().count(), seconds, "holding: creates of an earlier owner may land");
                self.notify(Notice::Hold(slots, until));
            }
            Effect::Hold { .. } => {}
            Effect::Drain { slots, since } => {
                info!(slots = slots.iter().count(), "handing slots over");
                self.notify(Notice::Drain { slots, since });
            }
            Effect::Resume(slots) => self.notify(Notice::Resume(slots)),
            Effect::Disown(slots) => {
                // At once, and not when the controller comes to it.
                slots.iter().for_each(|slot| self.parts.ownership.disown(slot));
                let ended = self.grants.end(slots);
                if !ended.is_empty() {
                    info!(slots = ended.iter().count(), "slots are no longer owned");
                }
                self.notify(Notice::Lost(slots));
            }
            Effect::Exit => {
                info!(incarnation = %self.me, "all slots are handed over");
                self.end.get_or_insert(End::Over);
                self.notify(Notice::Exit);
            }
            Effect::Rejoin => {}
        }
    }

    fn own(&mut self, now: Now, slots: Slots, until: Duration) {
        slots.iter().for_each(|slot| self.parts.ownership.own(slot, Some(until)));
        let begins = self.grants.begin(slots);
        if !begins.is_empty() {
            info!(slots = begins.iter().count(), "slots are owned: acting for them");
            self.notify(Notice::Begin(begins));
        }
        // The controller may have found it at its end since this step began.
        if now.boot + self.parts.policy.interval >= self.until {
            self.notify(Notice::Regained);
        }
        self.until = until;
    }

    fn notify(&mut self, notice: Notice) {
        // A closed channel means that the program is ending.
        if let Err(TrySendError::Full(_)) = self.parts.notices.try_send(notice) {
            error!("the channel to the controller is full: this replica gives up its slots");
            Slot::all().for_each(|slot| self.parts.ownership.disown(slot));
            self.end = Some(End::Deaf);
        }
    }
}

/// The incarnation of a life of this run: `RUN` at first, then `RUN-1` and so on.
fn incarnation(parts: &Parts, life: u64) -> Incarnation {
    let lease = lease_name(&parts.host);
    match life {
        0 => Incarnation::new(&lease, &parts.run),
        _ => Incarnation::new(&lease, &format!("{}-{life}", parts.run)),
    }
}
