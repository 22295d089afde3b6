//! Slim decoding: of the objects that the API server sends, only the fields that are used are read.
//!
//! One object that cannot be decoded never breaks the LIST or the watch that it comes in. A Framework gives
//! the reason in [`content`](framework_engine::object::FrameworkObject::content); an object that is not ours,
//! by the name of its controller, is left out.

mod config_map;
mod declared;
mod few;
mod framework;
mod job_lifetime;
mod json;
mod meta;
mod owner_link;
mod pod;
mod pod_use;
mod priority_class;
mod queue;
mod queue_unit;
mod resource;
mod resource_quota;
mod time;
mod typed;
mod unlabelled;

pub use declared::{DeclaredKind, DeclaredText};
pub use framework::FrameworkText;
pub(crate) use framework::acknowledged;
pub(crate) use job_lifetime::child;
pub(crate) use meta::describe_holder;
pub use owner_link::AttemptObject;
pub use resource::{Division, Read, Resource, Unreadable, Watched, Wire, brief, decode, page};
pub use unlabelled::UnlabelledFramework;

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod poison;
