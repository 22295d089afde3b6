//! Questions for where a unit stands, which change whenever any unit is released: answered on request, and
//! never written into the unit.

use tokio::sync::{mpsc, oneshot};

use framework_message::Key;
use framework_queueing::QueuePosition;

/// Questions that may wait.
const WAITING: usize = 64;

/// A question on its way.
#[derive(Debug)]
pub struct PositionQuery {
    /// Which unit.
    pub unit: Key,
    /// Where the answer goes; `None`: there is no such unit.
    pub answer: oneshot::Sender<Option<QueuePosition>>,
}

/// Who asks.
#[derive(Clone, Debug)]
pub struct PositionClient(mpsc::Sender<PositionQuery>);

impl PositionClient {
    /// One who asks, and where the questions come in.
    pub fn new() -> (Self, mpsc::Receiver<PositionQuery>) {
        let (sender, receiver) = mpsc::channel(WAITING);
        (PositionClient(sender), receiver)
    }

    /// Asks; an error: nobody answers, because there are no queues or too many questions.
    pub async fn ask(&self, unit: Key) -> Result<Option<QueuePosition>, NoAnswer> {
        let (answer, answered) = oneshot::channel();
        self.0.try_send(PositionQuery { unit, answer }).map_err(|_| NoAnswer)?;
        answered.await.map_err(|_| NoAnswer)
    }
}

/// Nobody answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("queues are not served here, or too many questions wait")]
pub struct NoAnswer;
