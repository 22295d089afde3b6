//! A Framework that cannot be read is left alone. One Event and a condition report it.
//!
//! A merge patch of the conditions alone, guarded by UID and resourceVersion, writes the condition: the
//! unreadable part stays as it is, byte by byte. Once the Framework is repaired, it continues: the first
//! status that is written then has the condition that belongs there.

use std::sync::Arc;

use framework_api::{Framework, Time};
use framework_core::EventReason;
use framework_core::plan::Report;
use framework_core::summary::Obstacle;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time as MetaTime};

use crate::object::Unreadable;
use crate::reported::Reported;
use crate::request::Request;

/// Reason of the Event, and of the condition `Running`, which is `Unknown` meanwhile.
pub const REASON: &str = Obstacle::StatusUnreadable.as_str();
/// Type of the condition.
const RUNNING: &str = framework_core::summary::RUNNING;
/// The longest message that the API server accepts; messages of decoders are shorter.
const MESSAGE_CHARS: usize = 8000;

/// Why a Framework cannot be read, and whether a condition is to report that.
#[derive(Debug, Default)]
pub struct Quarantine {
    unreadable: Option<Unreadable>,
    wants_condition: bool,
}

/// The conditions that report why a Framework cannot be read; `None`: those that it has report that already.
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

impl Quarantine {
    /// The quarantine of a version that cannot be read for this reason; `None`: it can be read.
    pub fn of(unreadable: Option<Unreadable>) -> Self {
        Quarantine { unreadable, wants_condition: false }
    }

    /// Whether a condition is to be written.
    pub fn is_due(&self) -> bool {
        self.wants_condition
    }

    /// The condition was not written: it is due again, if the Framework still cannot be read.
    pub fn retry(&mut self) {
        self.wants_condition = self.unreadable.is_some();
    }

    /// The report that the Framework cannot be read, with its Framework, unless the report was made before.
    /// Schedules the condition unless the Framework has it. A condition that is there shows that an Event was
    /// published before.
    pub fn report(&mut self, reported: &mut Reported) -> Option<(Arc<Framework>, Report)> {
        let Unreadable { reason, framework, conditions: present } = self.unreadable.as_ref()?;
        let present = present.as_deref();
        let says = |present| conditions(present, reason, Time::floor(Timestamp::UNIX_EPOCH)).is_none();
        let is_said = present.is_some_and(says);
        self.wants_condition = present.is_some() && !is_said;
        let is_news = reported.unreadable(reason);
        let note = format!("the Framework is left alone until it can be read: {reason}");
        let framework = framework.as_ref().filter(|_| !is_said && is_news)?;
        Some((Arc::clone(framework), Report::warning(EventReason::StatusUnreadable, note)))
    }

    /// The request that writes the condition, if one is to be written.
    pub fn take_request(&mut self, at: Timestamp, resource_version: u128) -> Option<Request> {
        let unreadable = self.unreadable.as_ref().filter(|_| self.wants_condition)?;
        self.wants_condition = false;
        let framework = Arc::clone(unreadable.framework.as_ref()?);
        let present = unreadable.conditions.as_deref()?;
        let conditions = conditions(present, &unreadable.reason, Time::floor(at))?;
        Some(Request::PatchConditions { framework, resource_version, conditions })
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

    #[test]
    fn the_condition_is_requested_once_and_again_after_a_failure() {
        let spec = serde_json::from_value(serde_json::json!({"taskRoles": []})).unwrap();
        let unreadable = Unreadable {
            framework: Some(Arc::new(Framework::new("job", spec))),
            conditions: Some(Vec::new()),
            ..Unreadable::from("it is cut short")
        };
        let mut quarantine = Quarantine::of(Some(unreadable));
        let mut reported = Reported::default();
        assert!(!quarantine.is_due());
        assert!(quarantine.report(&mut reported).is_some() && quarantine.is_due());
        let mut is_requested = || quarantine.take_request(Timestamp::UNIX_EPOCH, 7).is_some();
        assert_eq!([is_requested(), is_requested()], [true, false]);
        quarantine.retry();
        assert!(quarantine.is_due());
        assert!(quarantine.report(&mut reported).is_none(), "it was reported");
        let mut readable = Quarantine::of(None);
        readable.retry();
        assert!(!readable.is_due() && readable.report(&mut reported).is_none());
    }
}
