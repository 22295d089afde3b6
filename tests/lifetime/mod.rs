//! Frameworks with an end that is set in advance. Watches that miss nothing show their fate, the API server's
//! audit log shows the requests with author and time, and the controller's metrics are read as well.
#![allow(dead_code, reason = "each test program uses a part of it")]

pub mod cases;
pub mod clock;
pub mod metrics;

use std::time::{Duration, Instant};

use framework_api::{Framework, State};
use framework_testcluster::audit::{Mark, Record};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::ListParams;
use serde_json::Value;

use crate::cluster::history::{Change, Object, What};
use crate::cluster::recording::Recording;
use crate::cluster::{PATIENCE, block_on, client, installed, state};

pub const TTL: &str = "ttlSecondsAfterFinished";
pub const DEADLINE: &str = "activeDeadlineSeconds";
/// Completion code and phrase of a Framework that its deadline ended.
pub const EXCEEDED: (i32, &str) = (-240, "ActiveDeadlineExceeded");
/// How late the controller may act on a busy machine; the actual time is printed.
const LATE: SignedDuration = SignedDuration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(200);

/// Waits until something is so.
pub fn until(what: &str, mut is: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is() {
        assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(PAUSE);
    }
}

/// Waits until a second has passed that timestamps show.
pub fn until_past(due: Timestamp) {
    until("a second that has passed", || Timestamp::now() > due + SignedDuration::from_secs(1));
}

/// A namespace, from its beginning on.
pub struct Fixture {
    pub namespace: String,
    recording: Recording,
    mark: Mark,
    late: SignedDuration,
}

/// Whether so many Tasks of a Framework run.
fn runs(seen: &Framework, tasks: i32) -> bool {
    let counts = seen.status.as_ref().and_then(|status| status.task_counts);
    counts.is_some_and(|counts| counts.running == tasks)
}

impl Fixture {
    /// Begins with a recording of a namespace in which there is nothing yet.
    pub fn of(namespace: &str, recording: Recording) -> Fixture {
        let mark = installed().audit().mark().expect("the log is there");
        Fixture { namespace: namespace.to_owned(), recording, mark, late: LATE }
    }

    /// Actions here may be as late as a test waits: the controller or the API server is away for a while.
    pub fn under_chaos(self) -> Fixture {
        Fixture { late: SignedDuration::MAX, ..self }
    }

    /// The recording itself.
    pub fn recording(&self) -> &Recording {
        &self.recording
    }

    /// Every version of the Frameworks of a name, oldest first.
    pub fn versions(&self, name: &str) -> Vec<(u64, Framework)> {
        let version = |change: &Change| match &change.object {
            Object::Framework(seen) if change.what != What::Gone && is_named(seen, name) => {
                Some((change.version, Framework::clone(seen)))
            }
            _ => None,
        };
        self.recording.look(|changes| changes.iter().filter_map(version).collect())
    }

    /// Waits until the Framework of that name is as asked, at any time: also if it is gone by now.
    pub fn was(&self, name: &str, what: &str, is: impl Fn(&Framework) -> bool) -> Framework {
        self.recording.wait(&format!("{name}: {what}"), |changes| {
            changes.iter().any(|change| as_asked(&change.object, name, &is))
        });
        let versions = self.versions(name);
        versions.into_iter().map(|(_, seen)| seen).find(|seen| is(seen)).expect("it was so")
    }

    /// Waits until it was Completed.
    pub fn completed(&self, name: &str) -> Framework {
        self.was(name, "Completed", |seen| state(seen) == Some(State::Completed))
    }

    /// Waits until so many of its Tasks ran.
    pub fn ran(&self, name: &str, tasks: i32) -> Framework {
        self.was(name, "running", |seen| runs(seen, tasks))
    }

    /// The same; `None` if it completed without.
    pub fn ran_unless_completed(&self, name: &str, tasks: i32) -> Option<Framework> {
        let first = self.was(name, "running or Completed", |seen| {
            runs(seen, tasks) || state(seen) == Some(State::Completed)
        });
        Some(first).filter(|seen| runs(seen, tasks))
    }

    /// Waits until an instance of a Framework is gone.
    pub fn gone(&self, seen: &Framework) {
        let uid = uid(seen);
        self.recording.wait(&format!("{:?} is gone", seen.metadata.name), |changes| {
            let mut gone = changes.iter().filter(|change| change.what == What::Gone);
            gone.any(|change| matches!(&change.object, Object::Framework(gone) if self::uid(gone) == uid))
        });
    }

    /// All requests since it began.
    pub fn requests(&self) -> Vec<Record> {
        installed().audit().since(self.mark).expect("the log is there")
    }

    /// The controller's requests to delete the Framework of that name.
    pub fn deletes(&self, name: &str) -> Vec<Record> {
        let mut requests = self.requests();
        requests.retain(|request| {
            request.namespace == self.namespace && request.name == name && is_retirement(request)
        });
        requests
    }

    /// The same, once one is there that was accepted: the log has a deletion a moment after its effect.
    pub fn logged_deletes(&self, name: &str) -> Vec<Record> {
        let mut deletes = Vec::new();
        until(&format!("the audit log has the deletion of {name}"), || {
            deletes = self.deletes(name);
            deletes.iter().any(|delete| delete.code == 200)
        });
        deletes
    }

    /// Asserts that the only request to delete a Framework was foreground, by UID, accepted, and not before
    /// it was due; says how late it was.
    pub fn assert_deleted_once(&self, seen: &Framework, due: Timestamp) {
        let name = seen.metadata.name.as_deref().expect("a name");
        let deletes = self.logged_deletes(name);
        let [delete] = &deletes[..] else { panic!("{name}: one DELETE, not {deletes:#?}") };
        assert_is_deletion(delete, seen, due);
        assert_eq!(delete.code, 200, "{delete:#?}");
        assert!(delete.received.duration_since(due) <= self.late, "{name} was due at {due}: {delete:#?}");
    }

    /// Asserts that its deadline ended a Framework, once and for all, and not before its time, and that users
    /// learn of it in every way. Returns the Framework as it was when it was Completed.
    pub fn assert_exceeded(&self, name: &str) -> Framework {
        let completed = self.completed(name);
        let status = completed.status.as_ref().expect("a status");
        let seconds = completed.spec.active_deadline_seconds.expect("it has a deadline");
        let due = created(&completed) + SignedDuration::from_secs(seconds);
        self.assert_one_outcome(name);
        let end = status.attempt_status.completion_status.as_ref().expect("the attempt has ended");
        assert_eq!((end.code, end.phrase.as_str()), EXCEEDED, "{name}");
        for words in [EXCEEDED.1, "DeadlineExceeded:"] {
            assert!(end.diagnostics.contains(words), "{name}: {words} is not in {}", end.diagnostics);
        }
        let failed = status.conditions.iter().find(|condition| condition.type_ == "Failed");
        let failed = failed.map(|condition| (condition.status.as_str(), condition.reason.as_str()));
        assert_eq!(failed, Some(("True", "DeadlineExceeded")), "{name}");
        let note = self.event(name, "DeadlineExceeded");
        assert!(note.contains(EXCEEDED.1), "{name}: {note}");

        let decided = outcomes(&self.versions(name)).into_iter().find(|(_, end)| end.0 == EXCEEDED.0);
        let (version, _) = decided.expect("it was decided");
        if let Some(write) = self.write(name, version) {
            let late = write.received.duration_since(due);
            println!("{name}: ended {:.3} s after its deadline", late.as_secs_f64());
            assert!(!late.is_negative(), "{name} was ended {late:?} after {due}: {write:#?}");
            assert!(late <= self.late, "{name} was ended {late:?} after {due}");
        }
        completed
    }

    /// Asserts that once an attempt has ended its end did not change, and that a deadline is the last end.
    pub fn assert_one_outcome(&self, name: &str) {
        let versions = self.versions(name);
        let outcomes = outcomes(&versions);
        for pair in outcomes.windows(2) {
            let ((_, before), (version, after)) = (pair[0], pair[1]);
            let stays = before == after || (before.1 < after.1 && before.0 != EXCEEDED.0);
            assert!(stays, "{name} in version {version}: {before:?} became {after:?}");
        }
        let (last, stored) = (outcomes.last().map(|(version, _)| *version), versions.last());
        assert_eq!(last, stored.map(|(version, _)| *version), "{name}: its end stays");
    }

    /// The controller's write that led to a version; none if its sender was lost.
    fn write(&self, name: &str, version: u64) -> Option<Record> {
        let version = version.to_string();
        self.requests().into_iter().find(|request| {
            request.name == name
                && request.resource == "frameworks"
                && request.subresource == "status"
                && request.resource_version() == Some(&version)
        })
    }

    /// Waits for an Event about a Framework with this reason: its note.
    pub fn event(&self, name: &str, reason: &str) -> String {
        let mut notes = Vec::new();
        until(&format!("an Event {reason} about {name}"), || {
            notes = self.notes(name, reason);
            !notes.is_empty()
        });
        notes.swap_remove(0)
    }

    /// The notes of the Events about a Framework with this reason.
    pub fn notes(&self, name: &str, reason: &str) -> Vec<String> {
        let events: Api<Event> = Api::namespaced(client(), &self.namespace);
        let all = block_on(events.list(&ListParams::default())).expect("a list").items;
        let of_it = all.into_iter().filter(|event| {
            event.reason.as_deref() == Some(reason)
                && event.regarding.as_ref().and_then(|about| about.name.as_deref()) == Some(name)
        });
        of_it.map(|event| event.note.unwrap_or_default()).collect()
    }
}

/// Which versions say how the current attempt ended: code and attempt.
fn outcomes(versions: &[(u64, Framework)]) -> Vec<(u64, (i32, i32))> {
    let outcome = |(version, seen): &(u64, Framework)| {
        let attempt = &seen.status.as_ref()?.attempt_status;
        let end = attempt.completion_status.as_ref()?;
        Some((*version, (end.code, attempt.id)))
    };
    versions.iter().filter_map(outcome).collect()
}

/// Whether the controller asks for the deletion of a Framework.
pub fn is_retirement(request: &Record) -> bool {
    request.user_agent.starts_with("frameworkcontroller/")
        && (request.verb.as_str(), request.resource.as_str()) == ("delete", "frameworks")
}

/// Asserts that a request to delete a Framework was foreground, by UID, and not before it was due.
pub fn assert_is_deletion(delete: &Record, seen: &Framework, due: Timestamp) {
    let body = delete.request_object.as_ref().expect("it says how");
    let text = |pointer: &str| body.pointer(pointer).and_then(Value::as_str);
    assert_eq!(text("/propagationPolicy"), Some("Foreground"), "{delete:#?}");
    assert_eq!(text("/preconditions/uid"), Some(uid(seen)), "{delete:#?}");
    let late = delete.received.duration_since(due);
    println!("{}: deleted {:.3} s after it was due", delete.name, late.as_secs_f64());
    assert!(!late.is_negative(), "{} was deleted {late:?} after {due}: {delete:#?}", delete.name);
}

fn as_asked(object: &Object, name: &str, is: impl Fn(&Framework) -> bool) -> bool {
    matches!(object, Object::Framework(seen) if is_named(seen, name) && is(seen))
}

fn is_named(seen: &Framework, name: &str) -> bool {
    seen.metadata.name.as_deref() == Some(name)
}

/// UID of a Framework.
pub fn uid(seen: &Framework) -> &str {
    seen.metadata.uid.as_deref().expect("an object has a UID")
}

/// When a Framework was created.
pub fn created(seen: &Framework) -> Timestamp {
    seen.metadata.creation_timestamp.as_ref().expect("an object has an age").0
}

/// When the `ttlSecondsAfterFinished` of a Framework that is Completed has passed.
pub fn expiry(completed: &Framework) -> Timestamp {
    let seconds = completed.spec.ttl_seconds_after_finished.expect("it has one");
    ended(completed) + SignedDuration::from_secs(seconds.into())
}

/// When a Framework completed.
pub fn ended(completed: &Framework) -> Timestamp {
    let status = completed.status.as_ref().expect("a status");
    status.completion_time.expect("it is Completed").timestamp()
}
