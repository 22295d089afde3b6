//! The changes that watches report, each for the part that takes it in.

use framework_engine::event as engine;
use framework_message::{Change, Selection};

use crate::health::Synced;

/// A change that a watch reports.
#[derive(Debug)]
pub enum Event {
    /// To the engine.
    Engine(engine::Event),
    /// To the controller of QueueUnits.
    Queue(framework_queueing::QueueEvent),
    /// A LIST of the QueueUnits begins, after this grant of slots.
    ListsUnits(Selection),
}

impl Event {
    /// The kind of which a LIST is complete.
    pub fn synced(&self) -> Option<Synced> {
        match self {
            Event::Engine(engine::Event::Framework(Change::Synced)) => Some(Synced::Frameworks),
            Event::Engine(engine::Event::ConfigMap(Change::Synced)) => Some(Synced::ConfigMaps),
            Event::Engine(engine::Event::Pod(Change::Synced)) => Some(Synced::Pods),
            _ => None,
        }
    }
}
