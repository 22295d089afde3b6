//! Queries for the division of the slots, as this replica sees it.

use framework_membership::{View, ViewQuery};
use tokio::sync::{mpsc, oneshot};

/// Queries that may wait.
const WAITING: usize = 8;

/// The end that sends queries.
#[derive(Clone, Debug)]
pub struct ShardsClient(mpsc::Sender<ViewQuery>);

impl ShardsClient {
    /// A client, and the receiver of its queries.
    pub fn new() -> (Self, mpsc::Receiver<ViewQuery>) {
        let (sender, receiver) = mpsc::channel(WAITING);
        (ShardsClient(sender), receiver)
    }

    /// Sends a query and waits for its answer. It fails if this replica is no member, or too many queries
    /// wait.
    pub async fn ask(&self) -> Result<View, NoShards> {
        let (answer, answered) = oneshot::channel();
        self.0.try_send(answer).map_err(|_| NoShards)?;
        answered.await.map_err(|_| NoShards)
    }
}

/// The query has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this replica shares no slots with others, or too many queries wait")]
pub struct NoShards;
