//! Queueing: which jobs may begin, decided from what the API server stores and written there.
//!
//! ```text
//! watches of units, queues, quotas, classes, Pods, Jobs ─▶ News ─▶ Desk ─▶ requests ─▶ API server
//!                        Frameworks, from the engine ─────────────┘  └──▶ Admission ─▶ engine
//! ```
//!
//! The order and the arithmetic are [`framework_queue`]'s; the [`Desk`] keeps the books: it makes the units
//! of Frameworks and Jobs, writes what was decided, and lets their objects go.

mod consumer;
mod counts;
mod desk;
mod inquiry;
mod job_set;
mod object;
mod others;
mod request;
mod store;
mod unit;
mod wire;

pub use consumer::{Consumer, ConsumerKey, Growth, JobKind};
pub use counts::Gauges;
pub use desk::{Desk, Outcome, Settings, Wait};
pub use inquiry::{Asker, Inquiry, NoAnswer, Whereabouts};
pub use object::{ClassObject, JobObject, JobSetObject, News, PodUse, QueueObject, QuotaObject, UnitObject};
pub use request::{Page, Request, render};
