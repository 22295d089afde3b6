//! Takes the lines of the history from the loop, and confirms when they are written.
//!
//! The journal of the program is [`Stderr`](crate::stderr::Stderr); simulations keep the lines instead.

use std::fmt::Debug;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::oneshot;

use framework_engine::history::Line;

/// Takes lines of the history. Never blocks.
pub trait Journal: Debug + Send + Sync {
    /// Takes lines of the same time about one Framework: all, or none if there is no room.
    fn append(&self, lines: Vec<Line>, at: Timestamp) -> Result<Receipt, Full>;

    /// How many lines wait, of the log and of the history.
    fn waiting(&self) -> usize {
        0
    }

    /// How many lines of the log were dropped so far; the history is not part of the log.
    fn dropped(&self) -> u64 {
        0
    }

    /// How long the oldest line of the log has waited, or the writer has been at a line of the history;
    /// `None`: neither is there.
    fn oldest(&self) -> Option<Duration> {
        None
    }
}

/// There is no room: the lines were not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the buffer for standard error is full")]
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
    /// Waits until the lines are written, at the pace of their reader. Lines that were taken are never taken
    /// again, so there is no time-out. Returns false only if the writer is gone.
    pub async fn is_written(self) -> bool {
        match self {
            Receipt::Written => true,
            Receipt::Pending(written) => written.await.is_ok(),
        }
    }
}
