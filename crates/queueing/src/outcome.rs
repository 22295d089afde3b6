//! The decisions of the controller of QueueUnits that are not requests.

use std::sync::Arc;
use std::time::Duration;

use framework_api::queue::Reason;
use framework_core::observed::Admission;
use framework_message::Key;

/// A decision that the caller carries out.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// A Framework may begin, or has to wait.
    Admit {
        /// Its name.
        key: Key,
        /// Its UID.
        uid: Arc<str>,
        /// Whether it may begin, or why it waits.
        admission: Admission,
    },
    /// These growths of a Framework may begin.
    AdmitGrowths {
        /// Its name.
        key: Key,
        /// Its UID.
        uid: Arc<str>,
        /// The generations of the released growths, sorted.
        growths: Vec<i64>,
    },
    /// The API server stored a new reason of a unit.
    StatusStored {
        /// Its name.
        unit: Key,
        /// Its UID.
        uid: Arc<str>,
        /// The new reason.
        reason: Reason,
        /// The text of an Event; `None` if there is no Event for this reason.
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
