//! The faults of single requests, and the scripted rules that choose the requests.
//!
//! A fault never breaks the store: an applied request is applied as the real server would. Requests of
//! [`crate::User`] meet no faults.

use std::time::Duration;

use crate::call::Call;
use crate::history::Verb;

/// One thing that goes wrong with one request.
#[derive(Debug, Clone, PartialEq)]
pub enum Fault {
    /// The connection breaks before the server sees the request.
    RefuseConnection,
    /// The server applies the request, then the connection breaks.
    LoseReply,
    /// The connection breaks at once, and the server applies the request that much later.
    Break(Duration),
    /// No answer ever comes. The server applies the request that much later, or never.
    Hang(Option<Duration>),
    /// The request arrives that much later.
    Delay(Duration),
    /// The server applies the request at once, the reply arrives that much later.
    DelayReply(Duration),
    /// 409: the object has been modified.
    Conflict,
    /// 429 with that many seconds in `Retry-After`.
    TooManyRequests(u32),
    /// 500.
    InternalError,
    /// 503.
    Unavailable,
    /// 504: the server gave up waiting; whether it had applied the request by then is the flag.
    Timeout {
        /// Whether the request was applied.
        applied: bool,
    },
    /// 410: as a response to a list, as an ERROR event to a watch.
    Gone,
    /// 403 that says "exceeded quota".
    Quota,
    /// 403 by an admission plugin.
    Forbidden,
    /// 422: the object is invalid.
    Invalid,
}

/// A scripted fault: the requests it is for, how many of them to let pass, and how many to hit.
#[derive(Debug, Clone)]
pub struct Rule {
    who: Option<String>,
    verb: Option<Verb>,
    plural: Option<String>,
    name: Option<String>,
    skip: u32,
    times: u32,
    fault: Fault,
}

impl Rule {
    /// Hits the next request of any kind, once.
    #[must_use]
    pub fn new(fault: Fault) -> Self {
        Self { who: None, verb: None, plural: None, name: None, skip: 0, times: 1, fault }
    }

    /// Only requests of that client.
    #[must_use]
    pub fn who(self, who: &str) -> Self {
        Self { who: Some(who.to_owned()), ..self }
    }

    /// Only requests of that verb.
    #[must_use]
    pub fn verb(self, verb: Verb) -> Self {
        Self { verb: Some(verb), ..self }
    }

    /// Only requests about objects of that plural.
    #[must_use]
    pub fn plural(self, plural: &str) -> Self {
        Self { plural: Some(plural.to_owned()), ..self }
    }

    /// Only requests about the object of that name.
    #[must_use]
    pub fn name(self, name: &str) -> Self {
        Self { name: Some(name.to_owned()), ..self }
    }

    /// Lets that many matching requests pass first: `nth(3)` hits the third.
    #[must_use]
    pub fn nth(self, nth: u32) -> Self {
        Self { skip: nth.saturating_sub(1), ..self }
    }

    /// Hits that many matching requests; `u32::MAX` is all of them.
    #[must_use]
    pub fn times(self, times: u32) -> Self {
        Self { times, ..self }
    }

    /// The fault of a request that this rule hits. Counts the request if it matches.
    pub(crate) fn hit(&mut self, call: &Call, plural: &str, name: &str) -> Option<Fault> {
        if self.times == 0 || !self.matches(call, plural, name) {
            return None;
        }
        if self.skip > 0 {
            self.skip -= 1;
            return None;
        }
        if self.times < u32::MAX {
            self.times -= 1;
        }
        Some(self.fault.clone())
    }

    fn matches(&self, call: &Call, plural: &str, name: &str) -> bool {
        let fits =
            |wanted: &Option<String>, given: &str| wanted.as_ref().is_none_or(|wanted| wanted == given);
        fits(&self.who, &call.who)
            && self.verb.is_none_or(|verb| verb == call.verb())
            && fits(&self.plural, plural)
            && fits(&self.name, name)
    }
}
