//! The share of a replica: it joins the member and the engine, and narrows and widens the watches.

use std::future::Future;

use framework_engine::engine::EngineSettings;
use framework_engine::event::{self as engine, Kind};
use framework_membership::{Command, Notice};
use framework_message::{Change, Ownership, Selection, Slot, Slots};
use futures::FutureExt;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::error;

use super::labels::{self, Labels};
use super::parts::Parts;
use crate::event::Event;

/// The kinds in the order of their LISTs: in another one, objects would seem to have vanished.
const ORDER: [Kind; 3] = [Kind::Frameworks, Kind::ConfigMaps, Kind::Pods];

/// The part of the request budget that labels of Frameworks may take.
const LABELS: f64 = 0.25;

/// Notices or commands that may wait: far more than there are between two turns of either side.
const MESSAGES: usize = 4096;

/// The share of this replica.
pub struct Shares {
    notices: Receiver<Notice>,
    commands: Sender<Command>,
    selections: [watch::Sender<Selection>; 3],
    /// What the LIST of each kind that began last selects.
    listing: [Selection; 3],
    /// What the watches are to select.
    wanted: Selection,
    accompanied: watch::Sender<bool>,
    exited: bool,
}

/// What the watches of the kinds select, as it changes.
pub type Selected = [watch::Receiver<Selection>; 3];

/// Starts the membership, if the program is a member. Otherwise it owns every slot.
pub fn start(
    tasks: &mut JoinSet<&'static str>,
    parts: &mut Parts,
) -> (Option<Shares>, Ownership, Option<Selected>) {
    let Some(member) = parts.member.take() else { return (None, Ownership::default(), None) };
    let ownership = Ownership::none();
    let (notices, notified) = channel(MESSAGES);
    let (commanding, commands) = channel(MESSAGES);
    let (clock, mut rng) = (parts.clock, parts.seeds.generator());
    let membership = framework_membership::run::run(framework_membership::Parts {
        client: member.client,
        policy: member.policy,
        host: member.host,
        pod: member.pod,
        clock: Box::new(move || clock.now()),
        random: Box::new(move || rng.u64(..)),
        ownership: ownership.clone(),
        commands,
        notices,
    });
    tasks.spawn(async move {
        if membership.await {
            // After its end, which follows a stop, the controller ends by itself.
            std::future::pending::<()>().await;
        }
        "the membership"
    });
    let (accompanied, is_accompanied) = watch::channel(false);
    let (complete, mut is_complete) = watch::channel(false);
    tasks.spawn(
        labels::run(Labels {
            client: parts.client.clone(),
            ownership: ownership.clone(),
            clock: parts.clock,
            accompanied: is_accompanied,
            complete,
            per_second: parts.settings.qps * LABELS,
        })
        .map(|()| "the task that labels Frameworks"),
    );
    let commanding_labelled = commanding.clone();
    tasks.spawn(async move {
        while is_complete.changed().await.is_ok() {
            let labelled = *is_complete.borrow_and_update();
            if commanding_labelled.send(Command::Labelled(labelled)).await.is_err() {
                break;
            }
        }
        // After the membership has ended, the controller ends by itself.
        std::future::pending().await
    });
    let wanted = Selection { grant: 0, slots: Slots::NONE };
    let selections = [wanted; 3].map(|wanted| watch::channel(wanted).0);
    let selected = selections.each_ref().map(watch::Sender::subscribe);
    let shares = Shares {
        notices: notified,
        commands: commanding,
        selections,
        listing: [wanted; 3],
        wanted,
        accompanied,
        exited: false,
    };
    (Some(shares), ownership, Some(selected))
}

impl Shares {
    /// Waits for a notice; it stays to be taken.
    pub fn notified(&mut self) -> impl Future<Output = Option<Notice>> {
        self.notices.recv()
    }

    /// Takes in a notice, and those that are there after it. Returns the events that the engine is to see.
    pub fn take_in(&mut self, first: Notice) -> Vec<engine::Event> {
        let before = self.wanted;
        let mut events = Vec::new();
        let mut next = Some(first);
        while let Some(notice) = next {
            events.extend(self.event(notice));
            next = self.notices.try_recv().ok();
        }
        if self.wanted != before {
            // The other kinds follow, each after the LIST of the one before.
            self.selections[0].send_replace(self.wanted);
        }
        events
    }

    fn event(&mut self, notice: Notice) -> Option<engine::Event> {
        Some(match notice {
            Notice::Granted(slots) => {
                self.wanted.grant += 1;
                self.wanted.slots = self.wanted.slots.or(slots);
                engine::Event::Granted { slots, grant: self.wanted.grant }
            }
            Notice::Lost(slots) => {
                self.wanted.slots = self.wanted.slots.without(slots);
                engine::Event::Lost(slots)
            }
            Notice::Hold(slots, until) => engine::Event::Hold { slots, until },
            Notice::Begin(slots) => engine::Event::Begin(slots),
            Notice::Drain(slots) => engine::Event::Drain(slots),
            Notice::Resume(slots) => engine::Event::Resume(slots),
            Notice::Regained => engine::Event::Tick,
            Notice::Accompanied(accompanied) => {
                self.accompanied.send_replace(accompanied);
                return None;
            }
            Notice::Exit => {
                self.exited = true;
                return None;
            }
        })
    }

    /// Follows the LISTs: when one is complete, the next kind is selected.
    pub fn follow(&mut self, event: &Event) {
        let Event::Engine(event) = event else { return };
        let complete = match event {
            engine::Event::Selected(kind, selection) => {
                self.listing[place(*kind)] = *selection;
                return;
            }
            engine::Event::Framework(Change::Synced) => Kind::Frameworks,
            engine::Event::ConfigMap(Change::Synced) => Kind::ConfigMaps,
            engine::Event::Pod(Change::Synced) => Kind::Pods,
            _ => return,
        };
        let place = place(complete);
        if let Some(next) = self.selections.get(place + 1) {
            let selection = self.listing[place];
            next.send_if_modified(|now| std::mem::replace(now, selection) != selection);
        }
    }

    /// The slots that were granted.
    pub fn slots(&self) -> Slots {
        self.wanted.slots
    }

    /// The objects of these slots were listed.
    pub fn listed(&self, slots: Slots) {
        self.command(Command::Listed(slots));
    }

    /// Nothing is on its way for these slots.
    pub fn drained(&self, slots: Slots) {
        self.command(Command::Drained(slots));
    }

    /// Everything is to be handed over.
    pub fn stop(&self) {
        self.command(Command::Stop);
    }

    fn command(&self, command: Command) {
        // The member is gone only after everything was handed over.
        if let Err(TrySendError::Full(command)) = self.commands.try_send(command) {
            error!(?command, "the member takes no commands");
        }
    }

    /// Whether everything was handed over.
    pub fn has_exited(&self) -> bool {
        self.exited
    }

    /// The share of the request budget that goes with the slots: all replicas together load the API server no
    /// more than one does.
    pub fn budget(&self, settings: &EngineSettings) -> (f64, u32, usize) {
        let held = self.wanted.slots.iter().count();
        let share = held as f64 / Slot::COUNT as f64;
        let part = |whole: f64| (whole * share).ceil().max(1.0);
        (
            (settings.qps * share).max(1.0),
            part(f64::from(settings.burst)) as u32,
            part(settings.max_in_flight as f64) as usize,
        )
    }
}

fn place(kind: Kind) -> usize {
    ORDER.iter().position(|one| *one == kind).unwrap_or_default()
}
