//! The kinds that are watched, and the event that each becomes.

use std::sync::Arc;

use framework_engine::event as engine;
use framework_engine::object::{ConfigMapObject, PodObject};
use framework_message::{Change, Selection};
use framework_queueing::{
    AttemptObject, ChildJobObject, ClassObject, JobObject, JobSetObject, PodUse, QueueEvent, QueueObject,
    QuotaObject, UnitObject,
};

use super::mislabelled::Mislabelled;
use crate::compression::Compressor;
use crate::event::Event;
use crate::wire::{FrameworkText, Wire};

/// A kind that is watched.
pub trait Kind: Wire {
    /// The event that a LIST of a share begins; `None`: the kind is not divided into slots.
    fn selected(_: Selection) -> Option<Event> {
        None
    }

    /// Notes whether the change shows a wrong slot label. Only Frameworks have labels that others set.
    fn note(_: &Change<Self>, _: &Mislabelled) {}

    /// The event of a change. The compressor opens a compressed status.
    fn event(change: Change<Self>, compressor: &Compressor) -> Event;
}

impl Kind for FrameworkText {
    fn selected(share: Selection) -> Option<Event> {
        Some(Event::Engine(engine::Event::Selected(engine::Kind::Frameworks, share)))
    }

    fn note(change: &Change<Self>, mislabelled: &Mislabelled) {
        mislabelled.note(change);
    }

    fn event(change: Change<Self>, compressor: &Compressor) -> Event {
        Event::Engine(engine::Event::Framework(match change {
            Change::Restarted => Change::Restarted,
            Change::Listed(text) => Change::Listed(compressor.read(text)),
            Change::Synced => Change::Synced,
            Change::Applied(text) => Change::Applied(compressor.read(text)),
            Change::Deleted(text) => Change::Deleted(compressor.read(text)),
        }))
    }
}

impl Kind for ConfigMapObject {
    fn selected(share: Selection) -> Option<Event> {
        Some(Event::Engine(engine::Event::Selected(engine::Kind::ConfigMaps, share)))
    }

    fn event(change: Change<Self>, _: &Compressor) -> Event {
        Event::Engine(engine::Event::ConfigMap(change))
    }
}

impl Kind for PodObject {
    fn selected(share: Selection) -> Option<Event> {
        Some(Event::Engine(engine::Event::Selected(engine::Kind::Pods, share)))
    }

    fn event(change: Change<Self>, _: &Compressor) -> Event {
        Event::Engine(engine::Event::Pod(change))
    }
}

impl Kind for JobObject {
    fn event(change: Change<Self>, _: &Compressor) -> Event {
        Event::Queue(QueueEvent::Job(change))
    }
}

impl Kind for JobSetObject {
    fn event(change: Change<Self>, _: &Compressor) -> Event {
        Event::Queue(QueueEvent::JobSet(change))
    }
}

impl Kind for AttemptObject {
    fn event(change: Change<Self>, _: &Compressor) -> Event {
        Event::Queue(QueueEvent::Attempt(change))
    }
}

impl Kind for ChildJobObject {
    fn event(change: Change<Self>, _: &Compressor) -> Event {
        Event::Queue(QueueEvent::ChildJob(change))
    }
}

impl Kind for PodUse {
    fn event(change: Change<Self>, _: &Compressor) -> Event {
        Event::Queue(QueueEvent::Pod(change))
    }
}

impl Kind for UnitObject {
    fn selected(share: Selection) -> Option<Event> {
        Some(Event::ListsUnits(share))
    }

    fn event(change: Change<Self>, _: &Compressor) -> Event {
        Event::Queue(QueueEvent::Unit(change.map(Arc::new)))
    }
}

impl Kind for QueueObject {
    fn event(change: Change<Self>, _: &Compressor) -> Event {
        Event::Queue(QueueEvent::Queue(change))
    }
}

impl Kind for QuotaObject {
    fn event(change: Change<Self>, _: &Compressor) -> Event {
        Event::Queue(QueueEvent::Quota(change))
    }
}

impl Kind for ClassObject {
    fn event(change: Change<Self>, _: &Compressor) -> Event {
        Event::Queue(QueueEvent::Class(change))
    }
}
