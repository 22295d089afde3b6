//! The kinds that are watched, and the event that each becomes.

use std::sync::Arc;

use framework_engine::event as engine;
use framework_engine::object::{ConfigMapObject, PodObject};
use framework_message::{Change, SlotSelection, Slots};
use framework_queueing::{ClassObject, PodUse, QueueEvent, QueueObject, QuotaObject, UnitObject};
use tracing::warn;

use super::mislabelled::Mislabelled;
use super::sink::Sink;
use crate::compression::aside;
use crate::event::Event;
use crate::send::LARGE;
use crate::wire::{AttemptObject, DeclaredText, FrameworkText, Wire, brief};

/// A kind that is watched.
pub trait Kind: Wire {
    /// The event that a LIST of a selection begins; `None`: the kind is not divided into slots.
    fn selected(_: SlotSelection) -> Option<Event> {
        None
    }

    /// The event that says whether the watch is open; `None`: nobody asks.
    fn watched(_is_open: bool) -> Option<Event> {
        None
    }

    /// Notes whether the change shows a wrong slot label. Only Frameworks have labels that others set.
    fn note(_: &Change<Self>, _: &Mislabelled) {}

    /// A LIST begins; it does not show the objects whose labels name these slots.
    fn begins(_kept: Slots, _: &Mislabelled) {}

    /// The event of a change; `None`: there is nothing to say. The sink knows how to read the object.
    fn event(change: Change<Self>, sink: &Sink) -> Option<Event>;
}

impl Kind for FrameworkText {
    fn selected(selection: SlotSelection) -> Option<Event> {
        Some(Event::Engine(engine::Event::Selected(engine::Kind::Frameworks, selection)))
    }

    fn note(change: &Change<Self>, mislabelled: &Mislabelled) {
        mislabelled.note(change);
    }

    fn begins(kept: Slots, mislabelled: &Mislabelled) {
        mislabelled.keep(kept);
    }

    fn event(change: Change<Self>, sink: &Sink) -> Option<Event> {
        Some(Event::Engine(engine::Event::Framework(change.map(|text| sink.compressor.read(text)))))
    }
}

impl Kind for ConfigMapObject {
    fn selected(selection: SlotSelection) -> Option<Event> {
        Some(Event::Engine(engine::Event::Selected(engine::Kind::ConfigMaps, selection)))
    }

    fn event(change: Change<Self>, _: &Sink) -> Option<Event> {
        Some(Event::Engine(engine::Event::ConfigMap(change)))
    }
}

impl Kind for PodObject {
    fn selected(selection: SlotSelection) -> Option<Event> {
        Some(Event::Engine(engine::Event::Selected(engine::Kind::Pods, selection)))
    }

    fn event(change: Change<Self>, _: &Sink) -> Option<Event> {
        Some(Event::Engine(engine::Event::Pod(change)))
    }
}

impl Kind for AttemptObject {
    fn selected(selection: SlotSelection) -> Option<Event> {
        Some(Event::Queue(QueueEvent::AttemptsSelected(selection)))
    }

    fn event(change: Change<Self>, _: &Sink) -> Option<Event> {
        Some(Event::Queue(QueueEvent::Attempt(change.map(|AttemptObject(link)| link))))
    }
}

impl Kind for PodUse {
    fn selected(selection: SlotSelection) -> Option<Event> {
        Some(Event::Queue(QueueEvent::PodsSelected(selection)))
    }

    fn watched(is_open: bool) -> Option<Event> {
        Some(Event::Queue(QueueEvent::PodsAreWatched(is_open)))
    }

    fn event(change: Change<Self>, _: &Sink) -> Option<Event> {
        Some(Event::Queue(QueueEvent::Pod(change)))
    }
}

impl Kind for UnitObject {
    fn selected(selection: SlotSelection) -> Option<Event> {
        Some(Event::ListsUnits(selection))
    }

    fn event(change: Change<Self>, _: &Sink) -> Option<Event> {
        Some(Event::Queue(QueueEvent::Unit(change.map(Arc::new))))
    }
}

impl Kind for QueueObject {
    fn event(change: Change<Self>, _: &Sink) -> Option<Event> {
        Some(Event::Queue(QueueEvent::Queue(change)))
    }
}

impl Kind for QuotaObject {
    fn watched(is_open: bool) -> Option<Event> {
        Some(Event::Queue(QueueEvent::QuotasAreWatched(is_open)))
    }

    fn event(change: Change<Self>, _: &Sink) -> Option<Event> {
        Some(Event::Queue(QueueEvent::Quota(change)))
    }
}

impl Kind for ClassObject {
    fn event(change: Change<Self>, _: &Sink) -> Option<Event> {
        Some(Event::Queue(QueueEvent::Class(change)))
    }
}

impl Kind for DeclaredText {
    fn event(change: Change<Self>, sink: &Sink) -> Option<Event> {
        let kind = sink.declared.as_ref()?;
        let read = |text: DeclaredText| {
            let by_row = || text.by(&kind.row);
            let object = if text.bytes() < LARGE { by_row() } else { aside(by_row) };
            object.unwrap_or_else(|error| {
                let (resource, object) = (kind.resource.plural, &text.key);
                sink.metrics.object_left_out(resource);
                let cause = brief(&error);
                warn!(resource, %object, %cause, "a job cannot be decoded: its request is unknown");
                text.unreadable(&kind.row, &error)
            })
        };
        let change = match change {
            Change::Restarted => Change::Restarted,
            Change::Synced => Change::Synced,
            Change::Listed(text) => Change::Listed(read(text)),
            Change::Applied(text) => Change::Applied(read(text)),
            // The last version of an object need not be sound.
            Change::Deleted(text) => Change::Deleted(text.named(&kind.row)),
        };
        Some(Event::Queue(QueueEvent::Declared(kind.kind.clone(), Box::new(change))))
    }
}
