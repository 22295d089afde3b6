//! The controller of QueueUnits: decides which jobs may begin.
//!
//! ```text
//! watches of units, queues, quotas, classes, Pods, Jobs ─▶ QueueEvent ─▶ QueueController ─▶ Request
//!                              Frameworks, from the engine ────────────────┘  └──▶ Outcome ─▶ engine
//! ```
//!
//! The order and the arithmetic are [`framework_queue`]'s. [`QueueController`] makes the units of Frameworks
//! and Jobs, writes the status of units and Queues, and removes finalizers. It is synchronous and
//! deterministic: it does no I/O, reads no clock and draws no random numbers.

mod cache;
mod consumer;
mod controller;
mod counts;
mod dues;
mod job;
mod namespaces;
mod object;
mod others;
mod outcome;
mod outgoing;
mod position;
mod queue_status;
mod recovery;
mod request;
mod settings;
mod stale;
mod store;
mod unit;
mod usage;

pub use consumer::{Consumer, ConsumerKey, Growth, JobKind};
pub use controller::QueueController;
pub use counts::{Gauges, QueueCounts};
pub use object::{
    ClassObject, JobObject, JobSetObject, Object, Overtaken, Page, PodUse, QueueEvent, QueueObject,
    QuotaObject, Reply, TemplateMetadata, UnitObject, UnitStatus,
};
pub use outcome::{Outcome, Wait};
pub use position::QueuePosition;
pub use request::{Request, UNGUARDED};
pub use settings::Settings;
