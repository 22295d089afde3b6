//! Each rule of the controller switched off: the checks of the walks notice.

mod lifecycle;
mod queue;
mod replicas;
