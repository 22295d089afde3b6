//! The barrier itself: from what the API server answers to what is asked next, and when it is over.
//!
//! It reads no clock and sends nothing: time and answers come from outside. A [`Question::Glimpse`] costs
//! a kilobyte or two and is asked again and again; the [`Question::Whole`] object is asked for only when a
//! glimpse says that all are there, or cannot say it and the object has changed. So one barrier reads the
//! whole object once, if our columns are there, and otherwise at most once a version.
//!
//! A glimpse names the newest version seen, or any, so that the API server answers from its memory: reading a
//! large object from the store costs it far more, and a thousand barriers that start together
//! and do so bring it down. The whole object is read from the store: what makes a barrier pass is never from
//! before its own start, when perhaps the Tasks of an earlier attempt had IPs.

use std::time::Duration;

use crate::document;
use crate::glimpse::{self, Count, Glimpse};
use crate::pace::Pace;
use crate::roster::{self, Look, Roster};

/// What can be asked of the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// A [`Glimpse`].
    Glimpse,
    /// The whole Framework.
    Whole,
}

/// What came of it.
#[derive(Clone, Debug)]
pub enum Answer {
    /// What was asked for.
    Body(Vec<u8>),
    /// There is no such Framework, or nothing like Frameworks.
    NotFound(String),
    /// The account is not known (401), or may not (403).
    Denied {
        /// Which of the two.
        code: u16,
        /// The API server's words.
        message: String,
    },
    /// Nothing useful: it may be better later.
    Failed {
        /// What went wrong.
        problem: String,
        /// How long the API server wants to be left alone.
        retry_after: Option<Duration>,
    },
}

/// What is to be done next.
#[derive(Debug)]
pub enum Next {
    /// Wait, then ask; name [`Barrier::since`].
    Ask {
        /// What.
        question: Question,
        /// How long to wait before.
        after: Duration,
    },
    /// All are there.
    Pass(Passed),
    /// It is over.
    Fail(Failure),
}

/// Everything that the Task was waiting for.
#[derive(Debug)]
pub struct Passed {
    /// The Framework, decompressed, as JSON.
    pub document: Vec<u8>,
    /// Who is there.
    pub roster: Roster,
}

/// Why nothing more is awaited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// In all the time some Tasks got no IP.
    TimedOut {
        /// Who was missing.
        missing: String,
    },
    /// The time is over, and the last read had failed.
    Unread {
        /// How.
        problem: String,
    },
    /// There is no such Framework.
    NotFound(String),
    /// The account may not read it.
    Denied {
        /// 401 or 403.
        code: u16,
        /// The API server's words.
        message: String,
    },
}

/// A barrier that waits.
#[derive(Debug)]
pub struct Barrier {
    pace: Pace,
    timeout: Duration,
    version: Option<String>,
    /// The version of the last whole object.
    judged: Option<String>,
    denials: u32,
    failures: u32,
    last: Result<String, Failure>,
}

impl Barrier {
    /// One that gives up after `timeout`.
    pub fn new(timeout: Duration, pace: Pace) -> Self {
        let last = Err(Failure::Unread { problem: "nothing was asked yet".to_owned() });
        Barrier { pace, timeout, version: None, judged: None, denials: 0, failures: 0, last }
    }

    /// What to do first.
    pub fn first(&self) -> Next {
        Next::Ask { question: Question::Glimpse, after: Duration::ZERO }
    }

    /// The version that an answer must not be older than. Without one it comes from the store.
    pub fn since(&self, question: Question) -> Option<&str> {
        /// Whatever is in the API server's memory.
        const ANY: &str = "0";
        match question {
            Question::Glimpse => Some(self.version.as_deref().unwrap_or(ANY)),
            Question::Whole => None,
        }
    }

    /// In words, what is awaited.
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

    /// Takes an answer that came `elapsed` after the start.
    pub fn hear(&mut self, question: Question, answer: Answer, elapsed: Duration) -> Next {
        match answer {
            Answer::Body(body) => {
                self.denials = 0;
                match question {
                    Question::Glimpse => self.glimpsed(&body, elapsed),
                    Question::Whole => self.judge(body, elapsed),
                }
            }
            Answer::NotFound(message) => Next::Fail(Failure::NotFound(message)),
            Answer::Denied { code, message } => self.denied(code, message, elapsed),
            Answer::Failed { problem, retry_after } => self.failed(problem, retry_after, elapsed),
        }
    }

    fn glimpsed(&mut self, body: &[u8], elapsed: Duration) -> Next {
        let Glimpse { version, count } = match glimpse::read(body) {
            Ok(glimpse) => glimpse,
            Err(error) => {
                return self.failed(
                    format!("cannot understand the API server's answer: {error}"),
                    None,
                    elapsed,
                );
            }
        };
        self.version = Some(version).filter(|version| !version.is_empty());
        let judged = self.judged.is_some() && self.judged == self.version;
        match count {
            // What was said of the whole object still holds.
            _ if judged => self.wait(elapsed),
            Some(count) if !count.is_complete() => {
                self.last = Ok(missing(count));
                self.wait(elapsed)
            }
            _ => Next::Ask { question: Question::Whole, after: Duration::ZERO },
        }
    }

    fn judge(&mut self, body: Vec<u8>, elapsed: Duration) -> Next {
        // Also if it cannot be read: then it need not be asked for again before it has changed.
        self.judged.clone_from(&self.version);
        let document = match document::decompress(body) {
            Ok(document) => document,
            Err(error) => return self.broken(error.to_string(), elapsed),
        };
        match roster::look(&document) {
            Ok(Look { found: Ok(roster), .. }) => Next::Pass(Passed { document, roster }),
            Ok(Look { found: Err(missing), version }) => {
                self.judged = Some(version.clone());
                self.version = Some(version);
                self.last = Ok(missing.to_string());
                self.wait(elapsed)
            }
            Err(error) => self.broken(error.to_string(), elapsed),
        }
    }

    fn broken(&mut self, problem: String, elapsed: Duration) -> Next {
        self.last = Err(Failure::Unread { problem });
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
        self.last = Err(Failure::Unread { problem });
        let after = self.pace.after_failure(self.failures, retry_after);
        self.ask_again(after, elapsed)
    }

    fn wait(&mut self, elapsed: Duration) -> Next {
        // Not before: a glimpse that succeeds says nothing of the whole object that failed before it.
        self.failures = 0;
        let after = self.pace.after_look();
        self.ask_again(after, elapsed)
    }

    /// Asks once more at the very end, so that a long delay does not shorten the time that was granted.
    fn ask_again(&self, after: Duration, elapsed: Duration) -> Next {
        let left = self.timeout.saturating_sub(elapsed);
        if left.is_zero() {
            return Next::Fail(match &self.last {
                Ok(missing) => Failure::TimedOut { missing: missing.clone() },
                Err(failure) => failure.clone(),
            });
        }
        Next::Ask { question: Question::Glimpse, after: after.min(left) }
    }
}

fn missing(Count { addressed, total }: Count) -> String {
    format!("{} of {total} Tasks have no IP yet", total.saturating_sub(addressed))
}

#[cfg(test)]
mod tests;
