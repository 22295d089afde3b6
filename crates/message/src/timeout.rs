//! Bounds on the life of a request.

use std::time::Duration;

/// Sent to the API server as `?timeout=`: after this it gives a request up.
pub const SERVER_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest wait for a reply; after it the connection is closed.
pub const REPLY_TIMEOUT: Duration = Duration::from_secs(12);
/// The longest life of a request: it leaves before its reply is given up, travels, and is worked on.
pub const REQUEST_LIFETIME: Duration = Duration::from_secs(12 + 5 + 10 + 1);
