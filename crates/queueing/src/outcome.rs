//! What the controller of QueueUnits decided beside its requests.

use std::sync::Arc;
use std::time::Duration;

use framework_api::queue::Reason;
use framework_core::observed::Admission;
use framework_message::Key;

/// What the controller wants done beside requests.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// A Framework may begin, or waits for that.
    Admit {
        /// Its name.
        key: Key,
        /// Its UID.
        uid: Arc<str>,
        /// Which of the two.
        admission: Admission,
    },
    /// So far as a Framework has grown, it may begin that.
    AdmitGrowths {
        /// Its name.
        key: Key,
        /// Its UID.
        uid: Arc<str>,
        /// The generations that asked for what is released, sorted.
        growths: Vec<i64>,
    },
    /// Something was stored of a unit.
    StatusStored {
        /// Its name.
        unit: Key,
        /// Its UID.
        uid: Arc<str>,
        /// What happened.
        reason: Reason,
        /// What to say in an Event; `None`: it is worth none.
        note: Option<String>,
        /// How it waited, if it was released.
        waited: Option<Wait>,
    },
}

/// How a unit waited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// In which queue.
    pub queue: Key,
    /// With which priority.
    pub priority: i32,
    /// How long, since its job was created.
    pub time: Duration,
}
