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

/// The longest pause that a response may ask for: a wrong header must not stop anything for longer.
pub const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// An error that the API server answered with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// HTTP status; 403 for the denial of a webhook with 404, 409, 410 or 5xx.
    pub code: u16,
    /// `reason` of the Status, such as `Conflict`, `AlreadyExists`, `Forbidden`, `Invalid`; `Unknown` if it
    /// has none. For a response without a Status the reason that its code stands for, or empty.
    pub reason: String,
    /// `message` of the Status.
    pub message: String,
    /// `Retry-After`: the delay before another try.
    pub retry_after: Option<Duration>,
}

impl Rejection {
    /// The pause that the response asks for, as far as it is respected.
    pub fn pause(&self) -> Option<Duration> {
        self.retry_after.map(|pause| pause.min(LONGEST_PAUSE))
    }

    /// Whether the same request would be refused again, as long as nobody changes the object or the policy.
    pub fn is_permanent(&self) -> bool {
        matches!(self.code, 400 | 403 | 422)
    }

    /// Whether the API server has too much to do. It says so before it looks at the request, and therefore
    /// without a Status. A 429 with a Status concerns the request: a webhook or a quota sent it.
    pub fn is_overload(&self) -> bool {
        self.code == 429 && self.reason.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rejection(code: u16, reason: &str, seconds: Option<u64>) -> Rejection {
        let retry_after = seconds.map(Duration::from_secs);
        Rejection { code, reason: reason.to_owned(), message: String::new(), retry_after }
    }

    #[test]
    fn no_response_asks_for_a_pause_of_more_than_a_minute() {
        let pause = |seconds| rejection(429, "", seconds).pause();
        assert_eq!(
            [None, Some(7), Some(60)].map(pause),
            [None, Some(7), Some(60)].map(|s| s.map(Duration::from_secs))
        );
        assert_eq!([Some(61), Some(u64::MAX)].map(pause), [Some(LONGEST_PAUSE); 2]);
    }

    #[test]
    fn only_a_429_without_a_status_means_overload() {
        assert!(rejection(429, "", None).is_overload());
        assert!(!rejection(429, "TooManyRequests", None).is_overload());
        assert!(!rejection(503, "", None).is_overload());
    }
}
