//! Steps the member: gives it the time and what happens, and does its effects in their order.

use std::collections::BTreeMap;
use std::time::Duration;

use framework_message::{Now, Ownership, Slot, Slots};
use framework_shard::event::{Effect, Event, Outcome};
use framework_shard::lease::LeaseRecord;
use framework_shard::map::SlotMap;
use framework_shard::member::{LEADER_LEASE, Member};
use framework_shard::{Incarnation, Policy, Seen};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ListParams;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};
use tracing::{error, info, warn};

use crate::lease::{self, lease_name};
use crate::map::MAP;
use crate::store::{Store, map_of};
use crate::watch::{Shown, watch};

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
    /// Draws the random part of an incarnation.
    pub random: Box<dyn FnMut() -> u64 + Send>,
    /// The slots that this replica owns: the member alone changes them.
    pub ownership: Ownership,
    /// Commands of the controller.
    pub commands: Receiver<Command>,
    /// Notices to the controller.
    pub notices: Sender<Notice>,
}

/// The controller says this to the member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// The objects of these slots were listed, as [`Notice::Granted`] asked.
    Listed(Slots),
    /// No request for these slots is on its way any more, as [`Notice::Drain`] asked.
    Drained(Slots),
    /// Whether every Framework has the label of its slot. Nothing is moved before.
    Labelled(bool),
    /// The program is to end; [`Notice::Exit`] follows.
    Stop,
}

/// The member says this to the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// These slots were granted: their objects are to be listed, by consistent reads that begin now.
    Granted(Slots),
    /// Creates of an earlier owner of these slots may land until this moment of [`Now::boot`]. It comes
    /// before the grant.
    Hold(Slots, Duration),
    /// These slots are owned, and acted for from now on.
    Begin(Slots),
    /// The right to act is proved again after it had ended.
    Regained,
    /// Nothing new is to be begun for these slots, and nothing of them lost.
    Drain(Slots),
    /// The drain of these slots is called off.
    Resume(Slots),
    /// These slots are not owned any more.
    Lost(Slots),
    /// Whether there are other replicas.
    Accompanied(bool),
    /// Everything was handed over: the program can end.
    Exit,
}

/// Objects that a watch has shown and the member has not seen; a watch with more waits.
const SHOWN: usize = 256;

/// The end of a request, with the life that sent it.
type Answered = (u64, Option<Event>);

struct Driver {
    parts: Parts,
    store: Store,
    member: Member,
    me: Incarnation,
    life: u64,
    /// The slots that are acted for.
    begun: Slots,
    until: Duration,
    requests: JoinSet<Answered>,
    leases: BTreeMap<String, Seen<LeaseRecord>>,
    map: Option<Seen<SlotMap>>,
    /// Whether every Framework has its label.
    labelled: bool,
    accompanied: bool,
    over: bool,
    /// The controller does not take notices.
    deaf: bool,
}

/// Runs until the member has handed everything over, or the controller is gone. Returns whether that was so:
/// a controller that takes no notices any more is not fit to own slots.
pub async fn run(parts: Parts) -> bool {
    let store = Store::new(&parts.client, parts.policy.timeout);
    let (leases, mut leases_shown) = channel::<Shown<Lease>>(SHOWN);
    let (maps, mut map_shown) = channel::<Shown<ConfigMap>>(SHOWN);
    let mut watches = JoinSet::new();
    let of_members = ListParams::default().labels(lease::LABEL);
    watches.spawn(watch(store.leases.clone(), of_members, LEADER_LEASE, leases));
    let the_map = ListParams::default().fields(&format!("metadata.name={MAP}"));
    watches.spawn(watch(store.maps.clone(), the_map, MAP, maps));
    let mut driver = Driver::new(parts, store);
    // Before all Leases were seen once, a member knows too little to join.
    while let Some(shown) = leases_shown.recv().await {
        if matches!(shown, Shown::Listed) {
            break;
        }
        driver.lease_shown(shown);
    }
    driver.step(Event::Labelled(false));
    let mut ticks = interval(driver.parts.policy.interval / 8);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while !driver.over {
        tokio::select! {
            biased;
            _ = ticks.tick() => driver.step(Event::Tick),
            Some(answered) = driver.requests.join_next() => match answered {
                Ok((life, Some(event))) => driver.answered(life, event),
                Ok((_, None)) => {}
                Err(error) => warn!(%error, "a request of the member failed"),
            },
            command = driver.parts.commands.recv() => match command {
                Some(Command::Listed(slots)) => driver.step(Event::Listed(slots)),
                Some(Command::Drained(slots)) => driver.step(Event::Drained(slots)),
                Some(Command::Labelled(labelled)) => {
                    driver.labelled = labelled;
                    driver.step(Event::Labelled(labelled));
                }
                Some(Command::Stop) => driver.step(Event::Stop),
                None => return true,
            },
            Some(shown) = leases_shown.recv() => driver.lease_shown(shown),
            Some(shown) = map_shown.recv() => driver.map_shown(shown),
        }
    }
    !driver.deaf
}

impl Driver {
    fn new(mut parts: Parts, store: Store) -> Self {
        let me = incarnation(&mut parts);
        let member = Member::new(parts.policy, me.clone(), &parts.pod, Slot::all()).first_of_program();
        info!(incarnation = %me, "joining the replicas");
        Driver {
            parts,
            store,
            member,
            me,
            life: 0,
            begun: Slots::NONE,
            until: Duration::ZERO,
            requests: JoinSet::new(),
            leases: BTreeMap::new(),
            map: None,
            labelled: false,
            accompanied: false,
            over: false,
            deaf: false,
        }
    }

    fn lease_shown(&mut self, shown: Shown<Lease>) {
        let (name, seen) = match shown {
            Shown::Present(lease) => {
                let Some(seen) = lease::read(&lease) else { return };
                (lease.metadata.name.unwrap_or_default(), seen)
            }
            Shown::Absent(name, version) => (name, Seen { version, value: None }),
            Shown::Listed => return,
        };
        self.lease_seen(name, seen);
    }

    fn lease_seen(&mut self, name: String, seen: Seen<LeaseRecord>) {
        self.leases.insert(name.clone(), seen.clone());
        self.count();
        self.step(Event::LeaseSeen { name, seen });
    }

    /// Whether another replica is there, by its Lease.
    fn count(&mut self) {
        let is_other = |name: &String| name != LEADER_LEASE && name != self.me.lease();
        let mut held = self.leases.iter().filter(|(name, _)| is_other(name)).map(|(_, seen)| &seen.value);
        let accompanied = held.any(|lease| lease.as_ref().is_some_and(|lease| lease.holder.is_some()));
        if accompanied != self.accompanied {
            self.accompanied = accompanied;
            self.notify(Notice::Accompanied(accompanied));
        }
    }

    fn map_shown(&mut self, shown: Shown<ConfigMap>) {
        let seen = match shown {
            Shown::Present(map) => map_of(&map),
            Shown::Absent(_, version) => Some(Seen { version, value: None }),
            Shown::Listed => None,
        };
        if let Some(seen) = seen {
            self.map = Some(seen.clone());
            self.step(Event::MapSeen(seen));
        }
    }

    /// A request of one life has ended. Tickets are of one life, and what a read shows is for every life.
    fn answered(&mut self, life: u64, event: Event) {
        match event {
            Event::LeaseSeen { name, seen } => self.lease_seen(name, seen),
            event if life == self.life => self.step(event),
            _ => {}
        }
    }

    fn step(&mut self, event: Event) {
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
    }

    /// Another life begins. It has to be shown what is known.
    fn rejoin(&mut self) -> Vec<Event> {
        warn!(incarnation = %self.me, "this replica lost its Lease, and joins again");
        self.life += 1;
        self.me = incarnation(&mut self.parts);
        self.member = Member::new(self.parts.policy, self.me.clone(), &self.parts.pod, Slot::all());
        let leases = self.leases.iter();
        let leases = leases.map(|(name, seen)| Event::LeaseSeen { name: name.clone(), seen: seen.clone() });
        let labelled = Event::Labelled(self.labelled);
        leases.chain(self.map.clone().map(Event::MapSeen)).chain([labelled]).collect()
    }

    fn perform(&mut self, now: Now, effect: Effect) {
        match effect {
            Effect::WriteLease { .. }
            | Effect::ReadLease(_)
            | Effect::DeleteLease { .. }
            | Effect::PutMap { .. }
            | Effect::ReadMap => {
                let (store, life) = (self.store.clone(), self.life);
                self.requests.spawn(async move { (life, exchange(store, now, effect).await) });
            }
            Effect::List(slots) => self.notify(Notice::Granted(slots)),
            Effect::Own { slots, until } => self.own(now, slots, until),
            Effect::Hold { slots, until } if !slots.is_empty() => self.notify(Notice::Hold(slots, until)),
            Effect::Hold { .. } => {}
            Effect::Drain(slots) => self.notify(Notice::Drain(slots)),
            Effect::Resume(slots) => self.notify(Notice::Resume(slots)),
            Effect::Disown(slots) => {
                // At once, and not when the controller comes to it.
                slots.iter().for_each(|slot| self.parts.ownership.disown(slot));
                self.begun = self.begun.without(slots);
                self.notify(Notice::Lost(slots));
            }
            Effect::Exit => {
                info!(incarnation = %self.me, "everything is handed over");
                self.over = true;
                self.notify(Notice::Exit);
            }
            Effect::Rejoin => {}
        }
    }

    fn own(&mut self, now: Now, slots: Slots, until: Duration) {
        slots.iter().for_each(|slot| self.parts.ownership.own(slot, Some(until)));
        let begins = slots.without(self.begun);
        self.begun = self.begun.or(slots);
        if !begins.is_empty() {
            self.notify(Notice::Begin(begins));
        }
        if now.boot >= self.until {
            self.notify(Notice::Regained);
        }
        self.until = until;
    }

    fn notify(&mut self, notice: Notice) {
        // A closed channel means that the program is ending.
        if let Err(TrySendError::Full(_)) = self.parts.notices.try_send(notice) {
            error!("the controller takes no notices: this replica gives up its slots");
            Slot::all().for_each(|slot| self.parts.ownership.disown(slot));
            (self.deaf, self.over) = (true, true);
        }
    }
}

fn incarnation(parts: &mut Parts) -> Incarnation {
    let random = format!("{:08x}", (parts.random)() as u32);
    Incarnation::new(&lease_name(&parts.host), &random)
}

/// Does a read or a write. `None`: nothing is to be reported.
async fn exchange(store: Store, now: Now, effect: Effect) -> Option<Event> {
    match effect {
        Effect::WriteLease { name, base, record, ticket } => {
            let outcome = store.write_lease(&name, base, &record, now.wall).await;
            Some(Event::LeaseWritten { ticket, outcome })
        }
        Effect::ReadLease(name) => {
            let seen = store.read_lease(&name).await?;
            Some(Event::LeaseSeen { name, seen })
        }
        Effect::DeleteLease { name, base } => {
            store.delete_lease(&name, base).await;
            None
        }
        Effect::PutMap { base, map, ticket } => {
            let outcome = store.put_map(base, &map).await;
            if let Outcome::Done(_) = outcome {
                info!("the map of slots was changed");
            }
            Some(Event::MapPut { ticket, outcome })
        }
        Effect::ReadMap => Some(Event::MapRead(store.read_map().await)),
        _ => None,
    }
}
