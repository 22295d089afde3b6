//! Bounds on the life of a request.

use std::time::Duration;

/// The value of `?timeout=` in requests: after this time the API server gives a request up.
pub const SERVER_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest wait for a reply; after it the connection is closed.
pub const REPLY_TIMEOUT: Duration = Duration::from_secs(12);
/// How long a request may still land after a connection took it. It is the sum of the TCP user time-out of
/// 5 s, the time until the API server gives it up, and 1 s for what neither counts.
pub const LANDS_WITHIN: Duration = Duration::from_secs(5 + SERVER_TIMEOUT.as_secs() + 1);
/// The longest life of a request. It may wait for a connection until its reply is given up.
pub const REQUEST_LIFETIME: Duration = Duration::from_secs(REPLY_TIMEOUT.as_secs() + LANDS_WITHIN.as_secs());
