//! How long to wait before a request is repeated.

use std::time::Duration;

use framework_message::backoff::{NOT_SENT, REFUSED};
use framework_message::{Rejection, Reply};

/// The pause after a 429 without a `Retry-After`.
pub const DEFAULT_RETRY_AFTER: Duration = Duration::from_secs(1);

/// From so many failures in a row on, the reason seems to last. For a moment after it has started, an API
/// server refuses all requests that need a role.
pub const LASTING: u32 = 4;

/// The delay that a refusal asks for.
pub fn retry_after(rejection: &Rejection) -> Duration {
    rejection.pause().unwrap_or_default()
}

/// The delay before a request is repeated that got this reply, `failures` times in a row.
pub fn delay<T>(reply: &Reply<T>, failures: u32, jitter: u64) -> Duration {
    match reply {
        Reply::NotSent(_) => NOT_SENT.delay(failures, jitter),
        Reply::Refused(rejection) => REFUSED.delay(failures, jitter).max(retry_after(rejection)),
        _ => REFUSED.delay(failures, jitter),
    }
}
