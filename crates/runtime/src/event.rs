//! Everything that a watch reports, for whichever part takes it in.

/// What a watch reports.
#[derive(Debug)]
pub enum Event {
    /// To the engine.
    Engine(framework_engine::event::Event),
    /// To the controller of QueueUnits.
    Queue(framework_queueing::QueueEvent),
}
