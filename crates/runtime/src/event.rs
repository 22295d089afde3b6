//! The changes that watches report, each for the part that takes it in.

use framework_message::Selection;

/// A change that a watch reports.
#[derive(Debug)]
pub enum Event {
    /// To the engine.
    Engine(framework_engine::event::Event),
    /// To the controller of QueueUnits.
    Queue(framework_queueing::QueueEvent),
    /// A LIST of the QueueUnits begins, after this grant of slots.
    ListsUnits(Selection),
}
