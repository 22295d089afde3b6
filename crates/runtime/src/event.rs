//! The changes that watches report, each for the part that takes it in.

use framework_engine::event as engine;
use framework_message::{Change, SlotSelection};
use framework_queueing::QueueEvent;

use crate::health::Synced;

/// A change that a watch reports.
#[derive(Debug)]
pub enum Event {
    /// To the engine.
    Engine(engine::Event),
    /// To the controller of QueueUnits.
    Queue(QueueEvent),
    /// A LIST of the QueueUnits begins, after this grant of slots.
    ListsUnits(SlotSelection),
    /// A LIST is of an older version than one that its watch had shown: the store was restored.
    StoreWentBack {
        /// The version that was shown.
        seen: u128,
        /// The version of the LIST.
        found: u128,
    },
}

impl Event {
    /// The kind of which a LIST is complete.
    pub fn synced(&self) -> Option<Synced> {
        match self {
            Event::Engine(engine::Event::Framework(Change::Synced)) => Some(Synced::Frameworks),
            Event::Engine(engine::Event::ConfigMap(Change::Synced)) => Some(Synced::ConfigMaps),
            Event::Engine(engine::Event::Pod(Change::Synced)) => Some(Synced::Pods),
            Event::Queue(event) => synced_queues(event),
            _ => None,
        }
    }
}

fn synced_queues(event: &QueueEvent) -> Option<Synced> {
    match event {
        QueueEvent::Attempt(Change::Synced) => Some(Synced::ConfigMapsInQueues),
        QueueEvent::Declared(kind, change) if kind.is_job() && matches!(**change, Change::Synced) => {
            Some(Synced::Jobs)
        }
        QueueEvent::Pod(Change::Synced) => Some(Synced::PodsInQueues),
        QueueEvent::Unit(Change::Synced) => Some(Synced::QueueUnits),
        QueueEvent::Queue(Change::Synced) => Some(Synced::Queues),
        QueueEvent::Quota(Change::Synced) => Some(Synced::ResourceQuotas),
        QueueEvent::Class(Change::Synced) => Some(Synced::PriorityClasses),
        _ => None,
    }
}
