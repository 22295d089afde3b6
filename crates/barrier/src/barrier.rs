//! The barrier itself: decides from each reply of the API server on the next query, and on the end.
//!
//! Must never read a clock or send anything: time and replies are arguments. A [`Query::Table`] costs one or
//! two kilobytes and is repeated. The [`Query::Object`] is sent only when a table says that all Tasks have an
//! IP, or when a table cannot say it and the object has changed. It is also sent when the reply is that there
//! is no such Framework. So one barrier reads the whole object once if our columns are there, and otherwise
//! at most once a version.
//!
//! A query for a table names the newest known version, or any version, so that the API server answers from
//! its memory. Reading a large object from the store costs it far more, and a thousand barriers that start
//! together would bring it down. The whole object is read from the store. A barrier must not pass by a state
//! from before its own start: the Tasks of an earlier attempt may have had IPs. Nor must it fail by one: the
//! memory may be older than the Framework, so that only the store proves its absence.

use std::time::Duration;

use crate::addresses::{self, Addresses, Reading};
use crate::document;
use crate::pace::Pace;
use crate::table::{self, Count, Table};

/// A query for the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Query {
    /// The Framework as a [`Table`].
    Table,
    /// The whole Framework.
    Object,
}

/// The reply to a query.
#[derive(Clone, Debug)]
pub enum Reply {
    /// The body of a successful reply.
    Body(Vec<u8>),
    /// There is no such Framework, or no such kind.
    NotFound(String),
    /// The account is unknown (401), or has no right (403).
    Denied {
        /// 401 or 403.
        code: u16,
        /// The API server's message.
        message: String,
    },
    /// The query failed, and may succeed later.
    Failed {
        /// The reason of the failure.
        problem: String,
        /// The delay that the API server asks for.
        retry_after: Option<Duration>,
    },
}

/// The next step.
#[derive(Debug)]
pub enum Next {
    /// Wait, then send a query with the version of [`Barrier::since`].
    Ask {
        /// The query.
        query: Query,
        /// How long to wait before it.
        after: Duration,
    },
    /// All Tasks have an IP.
    Pass(Passed),
    /// The barrier fails.
    Fail(Failure),
}

/// The result of a barrier that passes.
#[derive(Debug)]
pub struct Passed {
    /// The Framework, decompressed, as JSON.
    pub document: Vec<u8>,
    /// The addresses of its Tasks.
    pub addresses: Addresses,
}

/// Why the barrier fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Some Tasks got no IP before the time-out.
    TimedOut {
        /// The Tasks without an IP.
        missing: String,
    },
    /// The last query before the time-out failed.
    Unread {
        /// The reason of the failure.
        problem: String,
    },
    /// There is no such Framework.
    NotFound(String),
    /// The account may not read it.
    Denied {
        /// 401 or 403.
        code: u16,
        /// The API server's message.
        message: String,
    },
}

/// A waiting barrier.
#[derive(Debug)]
pub struct Barrier {
    pace: Pace,
    timeout: Duration,
    version: Option<String>,
    /// The version of the last whole object, and its result.
    checked: Option<(String, Result<String, Failure>)>,
    denials: u32,
    failures: u32,
    last: Result<String, Failure>,
}

impl Barrier {
    /// A barrier that gives up after `timeout`.
    pub fn new(timeout: Duration, pace: Pace) -> Self {
        let last = Err(Failure::Unread { problem: "nothing was asked yet".to_owned() });
        Barrier { pace, timeout, version: None, checked: None, denials: 0, failures: 0, last }
    }

    /// The first step.
    pub fn first(&self) -> Next {
        Next::Ask { query: Query::Table, after: Duration::ZERO }
    }

    /// The oldest version that the reply may have. Without one it comes from the store.
    pub fn since(&self, query: Query) -> Option<&str> {
        /// Any version in the API server's memory.
        const ANY: &str = "0";
        match query {
            Query::Table => Some(self.version.as_deref().unwrap_or(ANY)),
            Query::Object => None,
        }
    }

    /// The missing Tasks or the last failure, for the log.
    pub fn awaited(&self) -> &str {
        match &self.last {
            Ok(missing) => missing,
            Err(
                Failure::Unread { problem: words }
                | Failure::TimedOut { missing: words }
                | Failure::NotFound(words)
                | Failure::Denied { message: words, .. },
            ) => words,
        }
    }

    /// Handles a reply that came `elapsed` after the start.
    pub fn handle(&mut self, query: Query, reply: Reply, elapsed: Duration) -> Next {
        match reply {
            Reply::Body(body) => {
                self.denials = 0;
                match query {
                    Query::Table => self.read_table(&body, elapsed),
                    Query::Object => self.read_object(body, elapsed),
                }
            }
            Reply::NotFound(message) => match query {
                Query::Table => Next::Ask { query: Query::Object, after: Duration::ZERO },
                Query::Object => Next::Fail(Failure::NotFound(message)),
            },
            Reply::Denied { code, message } => self.denied(code, message, elapsed),
            Reply::Failed { problem, retry_after } => self.failed(problem, retry_after, elapsed),
        }
    }

    fn read_table(&mut self, body: &[u8], elapsed: Duration) -> Next {
        let Table { version, count } = match table::read(body) {
            Ok(table) => table,
            Err(error) => {
                return self.failed(
                    format!("cannot understand the API server's answer: {error}"),
                    None,
                    elapsed,
                );
            }
        };
        self.version = Some(version).filter(|version| !version.is_empty());
        let checked = self.checked.as_ref().filter(|(version, _)| self.version.as_ref() == Some(version));
        match (checked, count) {
            // The result of the whole object still holds, also after a failure in between.
            (Some((_, result)), _) => {
                self.last.clone_from(result);
                self.wait(elapsed)
            }
            (None, Some(count)) if !count.is_complete() => {
                self.last = Ok(missing(count));
                self.wait(elapsed)
            }
            _ => Next::Ask { query: Query::Object, after: Duration::ZERO },
        }
    }

    fn read_object(&mut self, body: Vec<u8>, elapsed: Duration) -> Next {
        let document = match document::decompress(body) {
            Ok(document) => document,
            Err(error) => return self.broken(error.to_string(), elapsed),
        };
        match addresses::read(&document) {
            Ok(Reading { found: Ok(addresses), .. }) => Next::Pass(Passed { document, addresses }),
            Ok(Reading { found: Err(missing), version }) => {
                self.version = Some(version);
                self.checked(Ok(missing.to_string()), elapsed)
            }
            Err(error) => self.broken(error.to_string(), elapsed),
        }
    }

    fn broken(&mut self, problem: String, elapsed: Duration) -> Next {
        self.checked(Err(Failure::Unread { problem }), elapsed)
    }

    /// The result of a whole object. Also one that cannot be read is not queried again before it has changed.
    fn checked(&mut self, result: Result<String, Failure>, elapsed: Duration) -> Next {
        self.checked = self.version.clone().map(|version| (version, result.clone()));
        self.last = result;
        self.wait(elapsed)
    }

    fn denied(&mut self, code: u16, message: String, elapsed: Duration) -> Next {
        self.denials += 1;
        let failure = Failure::Denied { code, message };
        let after = self.pace.after_denial(self.denials);
        self.last = Err(failure.clone());
        after.map_or(Next::Fail(failure), |after| self.ask_again(after, elapsed))
    }

    fn failed(&mut self, problem: String, retry_after: Option<Duration>, elapsed: Duration) -> Next {
        self.failures += 1;
        // A store that was restored from a backup may never have this version again.
        self.version = None;
        self.last = Err(Failure::Unread { problem });
        let after = self.pace.after_failure(self.failures, retry_after);
        self.ask_again(after, elapsed)
    }

    fn wait(&mut self, elapsed: Duration) -> Next {
        // Not before: a table that succeeds does not mean that the whole object can be read.
        self.failures = 0;
        let after = self.pace.after_query();
        self.ask_again(after, elapsed)
    }

    /// Queries once more at the time-out itself, so that a long delay does not shorten the time.
    fn ask_again(&self, after: Duration, elapsed: Duration) -> Next {
        let left = self.timeout.saturating_sub(elapsed);
        if left.is_zero() {
            return Next::Fail(match &self.last {
                Ok(missing) => Failure::TimedOut { missing: missing.clone() },
                Err(failure) => failure.clone(),
            });
        }
        Next::Ask { query: Query::Table, after: after.min(left) }
    }
}

fn missing(Count { addressed, total }: Count) -> String {
    format!("{} of {total} Tasks have no IP yet", total.saturating_sub(addressed))
}

#[cfg(test)]
mod tests;
