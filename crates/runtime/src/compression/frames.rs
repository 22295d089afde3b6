//! The compressed frames of a status: a frame whose Tasks did not change is kept from the write before.
//!
//! A status of 10,000 Tasks is 7 MB of JSON, and a write changes few of them. Rendering and compressing all
//! of it takes 20 ms.

use std::io::{self, Write};
use std::sync::Arc;

use framework_api::codec::{self, Effort, EncodeError};
use framework_api::config::CompressionCodec;
use framework_api::shared::Shared;
use framework_api::status::{TaskRoleStatus, TaskStatus};

/// How many Tasks a frame has. A frame begins without the entries before it, which costs half a percent.
const TASKS: usize = 256;

/// The frames of a status.
#[derive(Clone, Debug)]
pub struct Frames {
    codec: CompressionCodec,
    frames: Vec<Arc<[u8]>>,
}

/// A part of the JSON of the TaskRole statuses.
enum Part<'a> {
    /// Text between Tasks.
    Text(String),
    /// A Task, and whether one of its TaskRole stands before it.
    Task(&'a Shared<TaskStatus>, bool),
}

impl Frames {
    /// Compresses quickly. `before`: the frames of another status, which are kept where its Tasks are the
    /// same.
    pub fn of(
        roles: &[TaskRoleStatus],
        codec: CompressionCodec,
        before: Option<(Frames, &[TaskRoleStatus])>,
    ) -> Result<Frames, EncodeError> {
        let (kept, before) = match before.filter(|(frames, _)| frames.codec == codec) {
            Some((frames, roles)) => (frames.frames, divided(roles)?),
            None => Default::default(),
        };
        let mut kept = kept.into_iter().zip(before);
        let frames = divided(roles)?.into_iter().map(|parts| match kept.next() {
            Some((frame, before)) if are_same(&before, &parts) => Ok(frame),
            _ => {
                let write = |sink: &mut dyn Write| parts.iter().try_for_each(|part| part.write(sink));
                codec::frame(codec, Effort::Fast, write).map(Arc::from)
            }
        });
        Ok(Frames { codec, frames: frames.collect::<Result<_, _>>()? })
    }

    /// The compressed text.
    pub fn text(&self) -> Result<String, EncodeError> {
        codec::join(self.frames.iter().map(AsRef::as_ref))
    }
}

/// The JSON of TaskRole statuses, by frames.
fn divided(roles: &[TaskRoleStatus]) -> io::Result<Vec<Vec<Part<'_>>>> {
    let (mut frames, mut parts, mut tasks) = (Vec::new(), vec![Part::Text("[".to_owned())], 0);
    for (place, role) in roles.iter().enumerate() {
        let text = serde_json::to_string(&without_tasks(role))?;
        // The Tasks come last, so that the text ends with an empty list of them.
        let (head, tail) = text.split_at(text.len() - "]}".len());
        parts.push(Part::Text(if place == 0 { head.to_owned() } else { format!(",{head}") }));
        for (index, task) in role.task_statuses.iter().enumerate() {
            if tasks == TASKS {
                frames.push(std::mem::take(&mut parts));
                tasks = 0;
            }
            parts.push(Part::Task(task, index > 0));
            tasks += 1;
        }
        parts.push(Part::Text(tail.to_owned()));
    }
    parts.push(Part::Text("]".to_owned()));
    frames.push(parts);
    Ok(frames)
}

fn without_tasks(role: &TaskRoleStatus) -> TaskRoleStatus {
    TaskRoleStatus {
        name: role.name.clone(),
        instance_uid: role.instance_uid.clone(),
        pod_graceful_deletion_timeout_sec: role.pod_graceful_deletion_timeout_sec,
        task_statuses: Vec::new(),
    }
}

fn are_same(before: &[Part<'_>], now: &[Part<'_>]) -> bool {
    before.len() == now.len() && before.iter().zip(now).all(|(before, now)| before.is_same(now))
}

impl Part<'_> {
    fn is_same(&self, other: &Part<'_>) -> bool {
        match (self, other) {
            (Part::Text(one), Part::Text(other)) => one == other,
            (Part::Task(one, after), Part::Task(other, after_other)) => {
                after == after_other && one.is_same(other)
            }
            _ => false,
        }
    }

    fn write(&self, mut sink: &mut dyn Write) -> io::Result<()> {
        match self {
            Part::Text(text) => sink.write_all(text.as_bytes()),
            Part::Task(task, after) => {
                if *after {
                    sink.write_all(b",")?;
                }
                Ok(serde_json::to_writer(&mut sink, task)?)
            }
        }
    }
}

#[cfg(test)]
mod tests;
