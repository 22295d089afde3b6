//! QueueUnits: decides which jobs may begin.
//!
//! ```text
//! Frameworks of the engine ──┐
//!            watch of units ─┴▶ FrameworkUnits ─▶ QueueRequest, QueueEffect ─▶ engine   by Framework's slot
//!
//!            watch of units ─┬▶ QueueController ─▶ QueueRequest, QueueEffect            by namespace's slot
//! queues, quotas, classes ───┤
//!                Pods, jobs ─┘
//! ```
//!
//! The two sides may be two replicas and share nothing but the stored units. [`FrameworkUnits`] creates and
//! deletes the units of Frameworks, removes their finalizers, and says when a Framework may begin. It also
//! returns the shares of the units that users made for Frameworks.
//! [`QueueController`] writes the status of all units and of Queues, and does the rest for the jobs of all
//! kinds that have a row. The order and the arithmetic are [`framework_queue`]'s. Both are
//! synchronous and deterministic: they do no I/O, read no clock and draw no random numbers.

mod accepted;
mod active_slots;
mod cache;
mod consumer;
mod controller;
mod counts;
mod effect;
mod frameworks;
mod in_flight;
mod job;
mod job_lifetime;
mod lifetimes;
mod namespaces;
mod object;
mod others;
mod outgoing;
mod owners;
mod position;
mod queue_status;
mod recovery;
mod refused;
mod request;
mod settings;
mod stale;
mod store;
mod turns;
mod unit;
mod units_by_job;
mod usage;

pub use active_slots::ActiveSlots;
pub use consumer::{Consumer, ConsumerKey, Growth, JobKind, NamedKind};
pub use controller::QueueController;
pub use counts::{Gauges, QueueCounts};
pub use effect::{LifetimeMeasure, QueueEffect, UnitWait};
pub use frameworks::FrameworkUnits;
pub use job_lifetime::{ChildEnd, ChildObject, ConditionPlace, DeadlineCondition, JobLifetime};
pub use lifetimes::{JobLifetimes, LifetimeGauges};
pub use object::{
    ClassObject, DeclaredObject, Finalizers, JobNotes, JobObject, Object, Overtaken, OwnerLink, Page, PodUse,
    QueueEvent, QueueObject, QuotaObject, Reply, TemplateMetadata, UnitNotes, UnitObject, UnitStatus,
};
pub use position::QueuePosition;
pub use request::{PodLabels, QueueRequest, Resumption, UNGUARDED, UnitCreation};
pub use settings::Settings;
