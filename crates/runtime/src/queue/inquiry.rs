//! Questions for where a unit stands, which change whenever any unit is released: answered on request, and
//! never written into the unit.

use serde::Serialize;
use tokio::sync::{mpsc, oneshot};

use crate::event::Key;

/// Questions that may wait.
const WAITING: usize = 64;

/// A question on its way.
#[derive(Debug)]
pub struct Inquiry {
    /// Which unit.
    pub unit: Key,
    /// Where the answer goes; `None`: there is no such unit.
    pub answer: oneshot::Sender<Option<Whereabouts>>,
}

/// Where a unit stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Whereabouts {
    /// In which queue.
    pub queue: String,
    /// `status.phase`.
    pub phase: Option<framework_api::queue::Phase>,
    /// Why it waits.
    pub reason: Option<String>,
    /// The same for people.
    pub message: String,
    /// How many units of its queue stand before it. Not given of a unit that does not wait for its turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<usize>,
    /// How many units of all queues of the namespace would be released before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<usize>,
    /// The name of the last of those.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub directly_before: Option<String>,
}

/// Who asks.
#[derive(Clone, Debug)]
pub struct Asker(mpsc::Sender<Inquiry>);

impl Asker {
    /// One who asks, and where the questions come in.
    pub fn new() -> (Self, mpsc::Receiver<Inquiry>) {
        let (sender, receiver) = mpsc::channel(WAITING);
        (Asker(sender), receiver)
    }

    /// Asks; an error: nobody answers, because there are no queues or too many questions.
    pub async fn ask(&self, unit: Key) -> Result<Option<Whereabouts>, NoAnswer> {
        let (answer, answered) = oneshot::channel();
        self.0.try_send(Inquiry { unit, answer }).map_err(|_| NoAnswer)?;
        answered.await.map_err(|_| NoAnswer)
    }
}

/// Nobody answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("queues are not served here, or too many questions wait")]
pub struct NoAnswer;
