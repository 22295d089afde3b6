//! The LISTs of the kinds that are divided into slots, as the events of their watches show them.

use framework_engine::event::{self as engine, Kind};
use framework_message::{Change, SlotSelection};
use framework_queueing::QueueEvent;

use crate::event::Event;

/// The kinds of the engine in the order of their LISTs: in another one, objects would seem to have vanished.
const ORDER: [Kind; 3] = [Kind::Frameworks, Kind::ConfigMaps, Kind::Pods];

/// The place of the ConfigMaps in queues, the first kind of queueing: Pods in queues count for no job before.
pub const ATTEMPTS_IN_QUEUES: usize = ORDER.len();
/// The place of the Pods in queues.
const PODS_IN_QUEUES: usize = ATTEMPTS_IN_QUEUES + 1;

/// How many kinds there are: those of the engine, and those of queueing.
pub const KINDS: usize = PODS_IN_QUEUES + 1;

/// A step of the LIST of the kind at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListStep {
    /// It begins, and shows this selection.
    Begins(usize, SlotSelection),
    /// It is complete.
    Completes(usize),
}

/// The step that an event is; `None`: it is none of these kinds.
pub fn step(event: &Event) -> Option<ListStep> {
    Some(match event {
        Event::Engine(engine::Event::Selected(kind, selection)) => ListStep::Begins(place(*kind), *selection),
        Event::Queue(QueueEvent::AttemptsSelected(selection)) => {
            ListStep::Begins(ATTEMPTS_IN_QUEUES, *selection)
        }
        Event::Queue(QueueEvent::PodsSelected(selection)) => ListStep::Begins(PODS_IN_QUEUES, *selection),
        Event::Engine(engine::Event::Framework(Change::Synced)) => {
            ListStep::Completes(place(Kind::Frameworks))
        }
        Event::Engine(engine::Event::ConfigMap(Change::Synced)) => {
            ListStep::Completes(place(Kind::ConfigMaps))
        }
        Event::Engine(engine::Event::Pod(Change::Synced)) => ListStep::Completes(place(Kind::Pods)),
        Event::Queue(QueueEvent::Attempt(Change::Synced)) => ListStep::Completes(ATTEMPTS_IN_QUEUES),
        Event::Queue(QueueEvent::Pod(Change::Synced)) => ListStep::Completes(PODS_IN_QUEUES),
        _ => return None,
    })
}

fn place(kind: Kind) -> usize {
    ORDER.iter().position(|one| *one == kind).unwrap_or_default()
}
