//! Takes the lines of the history from the loop, and confirms when they are written.
//!
//! The journal of the program is [`Stderr`](crate::stderr::Stderr); simulations keep the lines instead.

use std::fmt::Debug;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::oneshot;
use tokio::time::timeout;

use framework_engine::history::Line;

/// How long a request may wait for the lines that go before it. It is tried again after that, lines and all.
const PATIENCE: Duration = Duration::from_secs(5);

/// Takes lines of the history. Never blocks.
pub trait Journal: Debug + Send + Sync {
    /// Takes lines of the same time: all, or none if there is no room.
    fn append(&self, lines: Vec<Line>, at: Timestamp) -> Result<Receipt, Full>;

    /// How many lines wait, of the log and of the history.
    fn waiting(&self) -> usize {
        0
    }

    /// How many lines of the log were dropped so far; the history is not part of the log.
    fn dropped(&self) -> u64 {
        0
    }
}

/// There is no room: the lines were not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("standard error takes no more lines for now")]
pub struct Full;

/// Confirms that lines are written.
#[derive(Debug)]
pub enum Receipt {
    /// They are written.
    Written,
    /// They will be written; this says when.
    Pending(oneshot::Receiver<()>),
}

impl Receipt {
    /// Waits for a few seconds; returns whether the lines are written by then.
    pub async fn is_written(self) -> bool {
        match self {
            Receipt::Written => true,
            Receipt::Pending(written) => matches!(timeout(PATIENCE, written).await, Ok(Ok(()))),
        }
    }
}
