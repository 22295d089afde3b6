//! Queries for the position of a unit in its queue. Every release changes positions, so they are answered on
//! request and never written into the unit.

use tokio::sync::{mpsc, oneshot};

use framework_message::Key;
use framework_queueing::QueuePosition;

/// Queries that may wait.
const WAITING: usize = 64;

/// A query on its way.
#[derive(Debug)]
pub struct PositionQuery {
    /// The unit.
    pub unit: Key,
    /// Takes the answer; `None`: there is no such unit.
    pub answer: oneshot::Sender<Option<QueuePosition>>,
}

/// The end that sends queries.
#[derive(Clone, Debug)]
pub struct PositionClient(mpsc::Sender<PositionQuery>);

impl PositionClient {
    /// A client, and the receiver of its queries.
    pub fn new() -> (Self, mpsc::Receiver<PositionQuery>) {
        let (sender, receiver) = mpsc::channel(WAITING);
        (PositionClient(sender), receiver)
    }

    /// Sends a query and waits for its answer. It fails if there are no queues, another replica decides in
    /// the namespace, or too many queries wait.
    pub async fn ask(&self, unit: Key) -> Result<Option<QueuePosition>, NoAnswer> {
        let (answer, answered) = oneshot::channel();
        self.0.try_send(PositionQuery { unit, answer }).map_err(|_| NoAnswer)?;
        answered.await.map_err(|_| NoAnswer)
    }
}

/// The query has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("queues are not served here, another replica decides in that namespace, or too many queries wait")]
pub struct NoAnswer;
