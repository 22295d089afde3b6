//! Tests of the core: tables, whole lives in a model world, and properties.

mod completion;
mod creation;
mod defects;
mod deferrable;
mod first_attempt;
mod force;
mod growth;
mod lifecycle;
mod lifetime;
mod property;
mod queue;
mod rescale;
mod retry;
mod size;
mod snapshot;
mod taken_over;
mod world;
mod worst;
