//! Bounds on the life of a request.

use std::time::Duration;

/// The value of `?timeout=` in requests: after this time the API server gives a request up.
pub const SERVER_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest wait for a reply; after it the connection is closed.
pub const REPLY_TIMEOUT: Duration = Duration::from_secs(12);
/// The longest life of a request: the time until its reply is given up, its travel, and its processing.
pub const REQUEST_LIFETIME: Duration = Duration::from_secs(12 + 5 + 10 + 1);
