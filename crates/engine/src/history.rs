//! Lines of the history: snapshots of Frameworks, Tasks and Pods, as they go to standard error.
//!
//! The form of a line is `{time}  INFO {a sentence}: {trigger}: ObjectSnapshot: {the object's JSON}`. Log
//! collectors take the object by the regular expression `: ObjectSnapshot: (.+)`.
//!
//! Guarantees: each snapshot is one line, with any content of the object. Only persisted objects are shown; a
//! Task that is retried is shown with the end of its attempt, which the retry's own write may store first.
//! The line of an incomplete object says so before the marker. A line holds references, not text, until it is
//! [rendered](Line::render).

use std::sync::Arc;
use std::time::Duration;

use framework_api::name;
use framework_api::{Framework, FrameworkStatus};
use framework_core::snapshot::{FrameworkView, Snapshot, TaskView, Trigger};
use jiff::Timestamp;
use serde_json::json;

use crate::last_seen::{LastSeen, LastState};
use crate::persisted::Persisted;
use crate::redact::redact_env;
use framework_message::Key;

/// The marker between the sentence, with its trigger, and the object.
pub const MARKER: &str = ": ObjectSnapshot: ";

/// Characters at which some readers end a line, too, and their escapes. JSON has them in texts only.
const LINE_ENDS: [(char, &str); 3] =
    [('\u{85}', "\\u0085"), ('\u{2028}', "\\u2028"), ('\u{2029}', "\\u2029")];

/// Why a request is not sent whose history was not taken. After any other reason, its lines are written.
pub const NOT_TAKEN: &str = "standard error does not take the history that goes before it";

/// How much history one Framework writes a second, on average.
pub const BYTES_PER_SECOND: u64 = 8 << 20;
/// The history of one status write that is too little to be counted.
const UNCOUNTED: u64 = 1 << 20;

/// How long the status of a Framework is not written again after a write that these lines went before.
/// Otherwise a spec that changes three times a second could write a gigabyte of removed Tasks.
pub fn pause_after(lines: &[Line]) -> Duration {
    let bytes = lines.iter().map(Line::weight).sum::<usize>();
    let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
    if bytes < UNCOUNTED { Duration::ZERO } else { Duration::from_millis(bytes / (BYTES_PER_SECOND / 1000)) }
}

/// One line of the history.
#[derive(Clone, Debug)]
pub enum Line {
    /// A snapshot of a Framework.
    Framework {
        /// The trigger.
        trigger: Trigger,
        /// Metadata and spec.
        framework: Arc<Framework>,
        /// Its status; `None`: it never had one.
        status: Option<Arc<FrameworkStatus>>,
        /// The gap, if the snapshot is incomplete.
        gap: Option<Gap>,
    },
    /// A Framework that cannot be read: only its name, UID and version are known.
    Unreadable {
        /// Its name.
        key: Key,
        /// `metadata.uid`.
        uid: Arc<str>,
        /// `metadata.resourceVersion`.
        resource_version: u128,
    },
    /// A snapshot of a Task.
    Task {
        /// The Task, and the trigger.
        snapshot: Snapshot,
        /// Metadata and spec of its Framework.
        framework: Arc<Framework>,
        /// The status that has the Task.
        status: Arc<FrameworkStatus>,
    },
    /// A snapshot of a Pod.
    Pod {
        /// The Framework that its controller's name, or its own name, refers to.
        key: Key,
        /// The Pod.
        pod: LastSeen,
    },
    /// Another line, without the values of environment variables.
    Redacted(Box<Line>),
}

/// The reason why the final state of an object is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gap {
    /// No event showed its deletion: this is its last known state.
    FinalStateUnknown,
}

impl Line {
    /// The line without the values of environment variables. They are left out when it is rendered.
    pub fn redacted(self) -> Line {
        Line::Redacted(Box::new(self))
    }

    /// The trigger of the line.
    pub fn trigger(&self) -> Trigger {
        match self {
            Line::Framework { trigger, .. } => *trigger,
            Line::Unreadable { .. } => Trigger::OnFrameworkDeletion,
            Line::Task { snapshot, .. } => snapshot.trigger(),
            Line::Pod { .. } => Trigger::OnPodDeletion,
            Line::Redacted(line) => line.trigger(),
        }
    }

    /// The Framework that the line is about.
    pub fn key(&self) -> Key {
        match self {
            Line::Framework { framework, .. } | Line::Task { framework, .. } => Key::of(framework),
            Line::Unreadable { key, .. } | Line::Pod { key, .. } => key.clone(),
            Line::Redacted(line) => line.key(),
        }
    }

    /// About how many bytes the line takes when it is rendered.
    pub fn weight(&self) -> usize {
        const SENTENCE: usize = 256;
        const FACTS: usize = 1024;
        let json = match self {
            Line::Redacted(line) => return line.weight(),
            Line::Framework { framework, status, .. } => {
                written(&FrameworkView::new(framework, status.as_deref()))
            }
            Line::Task { snapshot, framework, status } => written(&task_view(snapshot, framework, status)),
            Line::Pod { pod: LastSeen { state, .. }, .. } => match state {
                LastState::Whole(json) | LastState::Earlier(json) => json.get().len(),
                LastState::Facts { .. } => FACTS,
            },
            Line::Unreadable { .. } => FACTS,
        };
        SENTENCE + json
    }

    /// The line as it is written at that time, with its line end.
    pub fn render(&self, at: Timestamp) -> Vec<u8> {
        let head = format!("{at:.6}  INFO {}: {}{MARKER}", self.sentence(), self.trigger().name());
        let mut json = self.json();
        for (end, escape) in LINE_ENDS {
            if json.contains(end) {
                json = json.replace(end, escape);
            }
        }
        let mut line = Vec::with_capacity(head.len() + json.len() + 1);
        line.extend_from_slice(head.as_bytes());
        // JSON has line breaks between its tokens only, where they mean nothing. No other character of UTF-8
        // contains their bytes.
        line.extend(json.bytes().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { byte }));
        line.push(b'\n');
        line
    }

    fn sentence(&self) -> String {
        const INCOMPLETE: &str = "(incomplete: the watch missed the deletion; this is the last known state)";
        match self {
            Line::Framework { trigger, framework, status, gap } => {
                let what = match trigger {
                    Trigger::OnFrameworkRetry => {
                        let attempt = status.as_ref().map_or(0, |status| status.attempt_status.id);
                        format!("attempt {attempt} is followed by another")
                    }
                    _ => "the Framework is deleted".to_owned(),
                };
                let gap = gap.map_or_else(String::new, |Gap::FinalStateUnknown| format!(" {INCOMPLETE}"));
                format!("[{}] {what}{gap}", Key::of(framework))
            }
            Line::Unreadable { key, .. } => {
                format!("[{key}] the Framework is deleted (incomplete: it could not be read)")
            }
            Line::Task { snapshot, framework, .. } => {
                let (role, index, what) = match snapshot {
                    Snapshot::TaskRetry { task_role, task_index, .. } => (task_role, task_index, "retried"),
                    Snapshot::TaskDeletion { task_role, task_index, .. } => {
                        (task_role, task_index, "removed")
                    }
                    Snapshot::FrameworkRetry => return format!("[{}]", Key::of(framework)),
                };
                format!("[{}][{role}][{index}] the Task is {what}", Key::of(framework))
            }
            Line::Pod { key, pod } => {
                let whole = matches!(pod.state, LastState::Whole(_));
                let gap = if whole { String::new() } else { format!(" {INCOMPLETE}") };
                format!("[{key}] the Pod {} is deleted{gap}", pod.name)
            }
            Line::Redacted(line) => line.sentence(),
        }
    }

    fn json(&self) -> String {
        match self {
            Line::Framework { framework, status, .. } => {
                text(&FrameworkView::new(framework, status.as_deref()))
            }
            Line::Unreadable { key, uid, resource_version } => text(&json!({
                "apiVersion": name::API_VERSION,
                "kind": name::KIND,
                "metadata": {
                    "name": &*key.name, "namespace": &*key.namespace, "uid": &**uid,
                    "resourceVersion": resource_version.to_string(),
                },
                "spec": null,
                "status": null,
            })),
            Line::Task { snapshot, framework, status } => text(&task_view(snapshot, framework, status)),
            Line::Pod { key, pod } => pod.json(key),
            Line::Redacted(line) => redact_env(&line.json()),
        }
    }
}

/// The Task of a snapshot; `None` if the status lacks it.
fn task_view<'a>(
    snapshot: &Snapshot,
    framework: &'a Framework,
    status: &'a FrameworkStatus,
) -> Option<TaskView<'a>> {
    match snapshot {
        Snapshot::TaskRetry { task_role, task_index, at } => {
            let view = TaskView::new(framework, status, task_role, *task_index, None);
            view.map(|view| view.completed(*at))
        }
        Snapshot::TaskDeletion { task_role, task_index, at } => {
            TaskView::new(framework, status, task_role, *task_index, Some(*at))
        }
        Snapshot::FrameworkRetry => None,
    }
}

/// The length of the JSON of an object, without its text.
fn written(object: &impl serde::Serialize) -> usize {
    struct Length(usize);
    impl std::io::Write for Length {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut length = Length(0);
    // Plain data has a JSON form, and counting never fails.
    let _ = serde_json::to_writer(&mut length, object);
    length.0
}

/// Plain data has a JSON form.
fn text(object: &impl serde::Serialize) -> String {
    serde_json::to_string(object).unwrap_or_default()
}

impl Line {
    /// The lines about the persisted objects that a plan replaces: the plan was made from that version.
    pub fn replaced(persisted: &Persisted, snapshots: Vec<Snapshot>) -> Vec<Line> {
        let Persisted { framework, status: Some(status), .. } = persisted else { return Vec::new() };
        let line = |snapshot| match snapshot {
            Snapshot::FrameworkRetry => Line::Framework {
                trigger: Trigger::OnFrameworkRetry,
                framework: Arc::clone(framework),
                status: Some(Arc::clone(status)),
                gap: None,
            },
            snapshot => Line::Task { snapshot, framework: Arc::clone(framework), status: Arc::clone(status) },
        };
        snapshots.into_iter().map(line).collect()
    }
}

#[cfg(test)]
mod tests;
