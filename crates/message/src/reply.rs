//! Outcomes of requests.

use std::time::Duration;

/// The outcome of a request that shows objects of type `T`.
#[derive(Debug)]
pub enum Reply<T> {
    /// The object after a write, or at a read.
    Object(T),
    /// A GET shows an object of that name that is not ours: a sentence that names its owner.
    Foreign(String),
    /// The request succeeded, and its response shows no object.
    Done,
    /// The API server refused the request: it had no effect.
    Refused(Rejection),
    /// The request never left, or was certainly not processed: it had no effect.
    NotSent(String),
    /// No usable response came: the request may have had, or may yet have, its effect.
    Unknown(String),
}

impl<T> Reply<T> {
    /// Whether the request may have reached the API server.
    pub fn was_sent(&self) -> bool {
        !matches!(self, Reply::NotSent(_))
    }
}

/// An error that the API server answered with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// HTTP status.
    pub code: u16,
    /// `reason` of the Status, such as `Conflict`, `AlreadyExists`, `Forbidden`, `Invalid`.
    pub reason: String,
    /// `message` of the Status.
    pub message: String,
    /// `Retry-After`: the delay before another try.
    pub retry_after: Option<Duration>,
}
