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
mod desk;
mod inquiry;
mod object;
mod request;
mod store;
mod unit;
mod wire;

pub use consumer::{Consumer, ConsumerKey, JobKind};
pub use desk::{Desk, Gauges, Outcome, Settings};
pub use inquiry::{Asker, Inquiry, NoAnswer, Whereabouts};
pub use object::{ClassObject, JobObject, News, PodUse, QueueObject, QuotaObject, UnitObject};
pub use request::{Request, render};
