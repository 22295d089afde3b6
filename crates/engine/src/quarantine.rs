//! A Framework that cannot be read is left alone, and says so: in one Event, and in a condition.
//!
//! The condition is written beside what cannot be read, which stays as it is, byte by byte: by a merge patch
//! of the conditions alone, guarded by UID and resourceVersion. Repaired, the Framework goes on: the first
//! status that is written then has the condition that belongs there.

use std::sync::Arc;

use framework_api::{Framework, Time};
use framework_core::plan::Report;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time as MetaTime};
use tracing::warn;

use crate::framework_state::{FrameworkState, Persisted};
use crate::object::{FrameworkObject, Unreadable};

/// Reason of the Event, and of the condition `Running`, which is `Unknown` meanwhile.
pub const REASON: &str = "StatusUnreadable";
/// Reason of the Event about a field of the spec that counts as not set.
pub const FIELD_IGNORED: &str = "InvalidFieldIgnored";
/// Type of the condition.
const RUNNING: &str = framework_core::summary::RUNNING;
/// The API server takes no longer ones; decoders' words are short.
const MESSAGE_CHARS: usize = 8000;

/// What is told once of an object that is not as it should be.
#[derive(Debug, Default)]
pub struct Trouble {
    /// Why the Framework cannot be read, as an Event last told.
    told_unreadable: Option<Arc<str>>,
    /// Fields of the spec that count as not set.
    ignored: Option<String>,
    /// Those that an Event last told of.
    told_ignored: Option<String>,
}

/// The conditions that say why a Framework cannot be read; `None`: those that it has say so already.
pub fn conditions(present: &[Condition], reason: &str, at: Time) -> Option<Vec<Condition>> {
    let message: String = reason.chars().take(MESSAGE_CHARS).collect();
    let mut conditions = present.to_vec();
    let running = conditions.iter_mut().find(|condition| condition.type_ == RUNNING);
    let time = MetaTime(at.timestamp());
    match running {
        Some(running) if running.reason == REASON && running.message == message => return None,
        Some(running) => {
            if running.status != "Unknown" {
                running.last_transition_time = time;
            }
            running.status = "Unknown".to_owned();
            running.reason = REASON.to_owned();
            running.message = message;
        }
        None => conditions.push(Condition {
            type_: RUNNING.to_owned(),
            status: "Unknown".to_owned(),
            reason: REASON.to_owned(),
            message,
            last_transition_time: time,
            observed_generation: None,
        }),
    }
    Some(conditions)
}

impl FrameworkState {
    /// What is persisted from now on, or why it cannot be read.
    pub fn take_in(&mut self, object: FrameworkObject) {
        let FrameworkObject { stored_bytes, form, content, key, ignored, .. } = object;
        self.quarantines = false;
        self.trouble.ignored = ignored;
        (self.persisted, self.unreadable) = match content {
            Ok((framework, status)) => {
                debug_assert!(
                    status.as_ref().is_none_or(|status| {
                        status.attempt_status.task_role_statuses_compressed.is_none()
                    }),
                    "what reaches the engine is not compressed"
                );
                self.trouble.told_unreadable = None;
                (Some(Persisted { framework, status, stored_bytes, form }), None)
            }
            Err(unreadable) => {
                let reason = &unreadable.reason;
                warn!(framework = %key, %reason, "the Framework cannot be read and is left alone");
                (None, Some(unreadable))
            }
        };
    }

    /// Fields of the spec count as not set, and nobody was told so since this program started.
    pub fn tell_ignored(&mut self) -> Option<Report> {
        let Trouble { ignored, told_ignored, .. } = &mut self.trouble;
        let news = ignored.take().filter(|news| told_ignored.as_ref() != Some(news))?;
        *told_ignored = Some(news.clone());
        Some(Report::warning(FIELD_IGNORED, news))
    }

    /// The Framework cannot be read, and nobody was told why: whom to tell of what. Has the condition
    /// written, unless it is there, which also means that an Event told of it before.
    pub fn tell_unreadable(&mut self) -> Option<(Arc<Framework>, Report)> {
        let Unreadable { reason, framework, conditions: present } = self.unreadable.as_ref()?;
        let present = present.as_deref();
        let says = |present| conditions(present, reason, Time::floor(Timestamp::UNIX_EPOCH)).is_none();
        let is_said = present.is_some_and(says);
        self.quarantines = present.is_some() && !is_said;
        let is_told =
            self.trouble.told_unreadable.replace(Arc::clone(reason)).is_some_and(|told| told == *reason);
        let note = format!("the Framework is left alone until it can be read: {reason}");
        let framework = framework.as_ref().filter(|_| !is_said && !is_told)?;
        Some((Arc::clone(framework), Report::warning(REASON, note)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Time {
        Time::floor(jiff::Timestamp::UNIX_EPOCH).plus_seconds(seconds)
    }

    #[test]
    fn the_condition_says_why_and_is_written_once() {
        let complete =
            Condition { type_: "Complete".to_owned(), ..conditions(&[], "x", at(1)).unwrap().remove(0) };
        let first = conditions(std::slice::from_ref(&complete), "it is cut short", at(5)).unwrap();
        assert_eq!(first[0], complete, "the others stay");
        assert_eq!((&*first[1].type_, &*first[1].status, &*first[1].reason), ("Running", "Unknown", REASON));
        assert_eq!(first[1].message, "it is cut short");
        assert_eq!(conditions(&first, "it is cut short", at(9)), None);
        let second = conditions(&first, "it is not base64", at(9)).unwrap();
        assert_eq!(second[1].last_transition_time, MetaTime(at(5).timestamp()), "it is as unknown as before");
        assert_eq!((second.len(), &*second[1].message), (2, "it is not base64"));
    }
}
