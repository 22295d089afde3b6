//! The data that users write and read: the `Framework` resource, its status, completion codes, and the
//! controller's config file. It also has the names and labels of the objects made for a Framework, and the
//! `QueueUnit`s and `Queue`s in which jobs wait.
//!
//! This crate holds data and its wire form only. It decides nothing, reads no clock, opens no file and
//! knows no API server. Every other crate may use it, and it uses none of them.

pub mod code;
pub mod codec;
pub mod config;
pub mod crd;
pub mod framework;
pub mod job_kind;
pub mod name;
mod null;
pub mod pod_failure;
pub mod pod_template;
pub mod queue;
mod schema;
pub mod seconds;
pub mod shared;
pub mod status;
pub mod time;
pub mod unset;

pub use framework::{
    CompletionPolicy, ExecutionType, Framework, FrameworkSpec, RetryPolicy, TaskRole, TaskSpec,
};
pub use pod_template::PodTemplate;
pub use shared::Shared;
pub use status::{FrameworkStatus, State};
pub use time::Time;
