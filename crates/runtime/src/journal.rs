//! Where lines of the history go, as the loop sees it: it hands them over and is told when they are written.
//!
//! The program's is [`Stderr`](crate::stderr::Stderr); simulations keep the lines instead.

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
    /// Takes lines that are told at a time: all, or none if there is no room.
    fn tell(&self, lines: Vec<Line>, at: Timestamp) -> Result<Receipt, Full>;

    /// How many lines wait, of the log and of the history.
    fn waiting(&self) -> usize {
        0
    }

    /// How many lines of the log, which the history is no part of, were dropped so far.
    fn dropped(&self) -> u64 {
        0
    }
}

/// There is no room: what was to be told is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("standard error takes no more lines for now")]
pub struct Full;

/// Tells when lines that were taken are written.
#[derive(Debug)]
pub enum Receipt {
    /// They are.
    Written,
    /// They will be; this says when.
    Pending(oneshot::Receiver<()>),
}

impl Receipt {
    /// Waits a while. Says whether the lines are written by then.
    pub async fn is_written(self) -> bool {
        match self {
            Receipt::Written => true,
            Receipt::Pending(written) => matches!(timeout(PATIENCE, written).await, Ok(Ok(()))),
        }
    }
}
