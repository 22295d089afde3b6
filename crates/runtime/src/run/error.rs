//! Errors that end a controller.

use tokio::task::JoinError;

/// The reason why a controller ended before it was stopped.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A part ended that runs as long as the program.
    #[error("{0} ended unexpectedly")]
    PartEnded(&'static str),
    /// The cache is not valid any more: only a start lists everything again.
    #[error(
        "the API server shows version {found} of an object after version {seen}: its store was restored to \
         an older state, and the controller starts afresh"
    )]
    StoreWentBack {
        /// The version that was seen.
        seen: u128,
        /// The version that a read showed after that.
        found: u128,
    },
    /// A task panicked.
    #[error("a task failed: {0}")]
    TaskFailed(#[source] JoinError),
}
