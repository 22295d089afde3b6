//! The changes that watches report, each for the part that takes it in.

/// A change that a watch reports.
#[derive(Debug)]
pub enum Event {
    /// To the engine.
    Engine(framework_engine::event::Event),
    /// To the controller of QueueUnits.
    Queue(framework_queueing::QueueEvent),
}
