//! The stored form of a status: compressed for a write where the settings say so, decompressed after a read.
//!
//! Guarantees: an attempt whose persisted status is compressed stays compressed, even if the settings change.
//! A status that we wrote is recognised when a watch or a read shows it, and is not decoded again. A status
//! that cannot be decoded makes only its own Framework unreadable. Large statuses keep off the threads that
//! move bytes. Only one at a time is compressed with the best effort, because that costs memory.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use serde::Serialize;
use tokio::runtime::{Handle, RuntimeFlavor};
use tracing::error;

use framework_api::codec::{self, Effort, EncodeError};
use framework_api::config::CompressionCodec;
use framework_api::status::TaskRoleStatus;
use framework_api::{FrameworkStatus, State, name};
use framework_core::pod_map::PodName;
use framework_core::size::SizeLimits;
use framework_engine::compression::{Compression, LARGEST_RAW};
use framework_engine::object::{FrameworkObject, Unreadable};

use crate::echo::Echoes;
use crate::wire::FrameworkText;

mod frames;

use frames::Frames;

/// A status of so many Tasks or more is worth a thread of its own.
const LARGE: usize = 200;
/// The same limit for the text of a status, in bytes.
const LARGE_TEXT: usize = 256 << 10;

/// Compresses and decompresses statuses.
#[derive(Debug, Default)]
pub struct Compressor {
    settings: Compression,
    /// The compressed statuses that we wrote or read, by UID of their Framework.
    known: Mutex<BTreeMap<Arc<str>, CompressedText>>,
    /// The answers to our writes.
    echoes: Echoes,
    /// Held while a status is compressed with the best effort.
    effort: Mutex<()>,
}

#[derive(Debug)]
struct CompressedText {
    text: String,
    /// The frames of the text, if it was made of some.
    frames: Option<Frames>,
    /// Once the status is dropped elsewhere, it need not be recognised.
    status: Weak<FrameworkStatus>,
}

/// Why a status is unreadable that another client wrote without its Tasks.
const NO_TASKS: &str =
    "status.attemptStatus: taskRoleStatuses is missing; it must be there, or taskRoleStatusesCompressed";

/// Why a status is unreadable in which another client has left out a Task, or changed their order. Tasks are
/// found by their place.
const TASKS_OUT_OF_ORDER: &str = "status.attemptStatus.taskRoleStatuses: a Task of a TaskRole is missing or out of \
                                  place; taskStatuses must have the indexes 0, 1 and so on";

/// Why a status is unreadable in which another client has renamed a Pod or a TaskRole. Pods are found by
/// name, and those that no Task seems to have would be deleted.
const POD_RENAMED: &str = "status.attemptStatus.taskRoleStatuses: a Task has a wrong podName; it must be \
                           <Framework>-<TaskRole>-<index>";

/// Why a status is unreadable in which another client has written a TaskRole twice.
const TASK_ROLE_TWICE: &str = "status.attemptStatus.taskRoleStatuses: a second TaskRole of the same name \
                               has a podUID; names must be unique";

/// The reason why the Tasks of a status cannot be used, if there is one. `framework`: its name.
fn defect_of(framework: &str, status: &FrameworkStatus) -> Option<&'static str> {
    let Some(roles) = &status.attempt_status.task_role_statuses else { return Some(NO_TASKS) };
    let in_order = |role: &TaskRoleStatus| (0..).zip(&role.task_statuses).all(|(at, task)| task.index == at);
    if !roles.iter().all(in_order) {
        return Some(TASKS_OUT_OF_ORDER);
    }
    if !roles.iter().all(|role| names_its_pods(framework, role)) {
        return Some(POD_RENAMED);
    }
    // The original accepts several TaskRoles of one name, and creates Pods of the first one only.
    let mut names = BTreeSet::new();
    let is_one = roles.iter().all(|role| names.insert(role.name.as_str()) || !has_pods(role));
    (!is_one).then_some(TASK_ROLE_TWICE)
}

/// Whether the Tasks of a TaskRole have the names of Pods that the controller gives them.
fn names_its_pods(framework: &str, role: &TaskRoleStatus) -> bool {
    let first = name::pod_name(framework, &role.name, 0);
    let stem = PodName::new(&first).stem;
    role.task_statuses.iter().all(|task| {
        let index = u32::try_from(task.index).ok();
        PodName::new(&task.attempt_status.pod_name) == PodName { stem, index }
    })
}

fn has_pods(role: &TaskRoleStatus) -> bool {
    role.task_statuses.iter().any(|task| task.attempt_status.pod_uid.is_some())
}

impl Compressor {
    /// A compressor with these settings.
    pub fn new(settings: Compression) -> Self {
        Compressor { settings, ..Compressor::default() }
    }

    /// The compressed form in which a status of a Framework is to be stored; `None`: it is stored as it is.
    /// `stays`: its attempt is compressed already. `room`: the bytes that metadata and spec leave. The status
    /// is recognised from now on, as the watch may show it before the write is answered.
    pub fn compressed(
        &self,
        uid: &str,
        status: &Arc<FrameworkStatus>,
        stays: bool,
        room: &SizeLimits,
    ) -> Option<FrameworkStatus> {
        if !stays && !self.is_too_large(status, room) {
            return None;
        }
        match self.compress(uid, status, room) {
            Ok((text, frames)) => {
                self.remember(uid.into(), text.clone(), frames, status);
                Some(status.stored(Some(text)))
            }
            Err(error) => {
                error!(%error, "compressing a status failed: it is stored uncompressed");
                None
            }
        }
    }

    fn is_too_large(&self, status: &FrameworkStatus, room: &SizeLimits) -> bool {
        let reached = |threshold: usize| is_longer(&status.task_roles(), threshold.saturating_sub(1));
        self.settings.threshold.is_some_and(reached) || takes_more(status, LARGEST_RAW.min(room.object))
    }

    /// Compresses with as much effort as it takes to fit, and the last status of a Framework, which is kept,
    /// with some. If the result of the chosen codec is still too
    /// long, zstd is used: a status that an old client cannot read is better than one that cannot be stored.
    /// The limits of a Task's texts exclude this, unless spec or codec changed meanwhile.
    fn compress(
        &self,
        uid: &str,
        status: &FrameworkStatus,
        room: &SizeLimits,
    ) -> Result<(String, Option<Frames>), EncodeError> {
        let most = room.compressed.min(room.object);
        let chosen = self.settings.codec;
        if status.state == State::Completed {
            let text = codec::encode_json(&status.task_roles(), chosen, Effort::Good)?;
            if text.len() <= most {
                return Ok((text, None));
            }
        } else {
            let (frames, before) = self.frames(uid).unzip();
            let before = frames.zip(before.as_ref().map(|before| before.task_roles()));
            let frames = Frames::of(status.task_roles(), chosen, before)?;
            let text = frames.text()?;
            if text.len() <= most {
                return Ok((text, Some(frames)));
            }
        }
        let _alone = self.effort.lock().unwrap_or_else(PoisonError::into_inner);
        let text = codec::encode_json(&status.task_roles(), chosen, Effort::Best)?;
        if text.len() <= most || chosen == CompressionCodec::Zstd {
            return Ok((text, None));
        }
        Ok((codec::encode_json(&status.task_roles(), CompressionCodec::Zstd, Effort::Best)?, None))
    }

    /// The frames of the last status of a Framework, and that status, if it is still in use.
    fn frames(&self, uid: &str) -> Option<(Frames, Arc<FrameworkStatus>)> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let known = known.get(uid)?;
        known.frames.clone().zip(known.status.upgrade())
    }

    /// Remembers the status that a compressed text stands for: the text is about to be stored, or was read.
    fn remember(&self, uid: Arc<str>, text: String, frames: Option<Frames>, status: &Arc<FrameworkStatus>) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, one| one.status.strong_count() > 0);
        known.insert(uid, CompressedText { text, frames, status: Arc::downgrade(status) });
    }

    /// Decompresses the status of an object.
    pub fn open(&self, object: &mut FrameworkObject) {
        let Ok((framework, Some(status))) = &mut object.content else { return };
        let Some(text) = &status.attempt_status.task_role_statuses_compressed else {
            if let Some(reason) = defect_of(&object.key.name, status) {
                object.content = Err(Unreadable {
                    reason: reason.into(),
                    framework: Some(Arc::clone(framework)),
                    conditions: Some(status.conditions.clone()),
                });
            }
            return;
        };
        if let Some(known) = self.recall(&object.uid, text, status) {
            *status = known;
            return;
        }
        let compressed = status.stored(Some(text.clone()));
        let read = Arc::make_mut(status).decompress();
        let read = read.map_err(|error| format!("status.attemptStatus.taskRoleStatusesCompressed: {error}"));
        let defect = || defect_of(&object.key.name, status);
        match read.and_then(|read| defect().map_or(Ok(read), |defect| Err(defect.to_owned()))) {
            Ok(true) => {
                if let Some(text) = compressed.attempt_status.task_role_statuses_compressed {
                    self.remember(Arc::clone(&object.uid), text, None, status);
                }
            }
            Ok(false) => {}
            Err(error) => {
                object.content = Err(Unreadable {
                    reason: error.into(),
                    framework: Some(Arc::clone(framework)),
                    conditions: Some(compressed.conditions),
                });
            }
        }
    }

    fn recall(&self, uid: &Arc<str>, text: &str, status: &FrameworkStatus) -> Option<Arc<FrameworkStatus>> {
        if status.attempt_status.task_role_statuses.is_some() {
            return None;
        }
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let ours = known.get(uid).filter(|known| known.text == text)?.status.upgrade()?;
        drop(known);
        (ours.stored(None) == status.stored(None)).then_some(ours)
    }

    /// Remembers the answer to a status write: the watch will show the same.
    pub fn stored(&self, answer: &FrameworkObject) {
        self.echoes.expect(answer);
    }

    /// Decodes an object that a watch shows, unless it is the echo of our own write.
    pub fn read(&self, text: FrameworkText) -> FrameworkObject {
        if let Some(echo) = self.echoes.recall(&text) {
            return echo;
        }
        let large = text.status_bytes() >= LARGE_TEXT;
        let mut object = if large { aside(|| text.decoded()) } else { text.decoded() };
        open_aside(self, &mut object);
        object
    }
}

/// [`Compressor::open`]; [`aside`] if the status is compressed.
pub fn open_aside(compressor: &Compressor, object: &mut FrameworkObject) {
    if object.form.compressed {
        aside(|| compressor.open(object));
    } else {
        compressor.open(object);
    }
}

/// Works on a status; [`aside`] if it is large.
pub fn work_on<R>(status: &FrameworkStatus, work: impl FnOnce() -> R) -> R {
    let tasks: usize = status.task_roles().iter().map(|role| role.task_statuses.len()).sum();
    if tasks < LARGE { work() } else { aside(work) }
}

/// Runs work of milliseconds to seconds while other threads take over the tasks of this one. A runtime of one
/// thread, as in simulation, has no others: there the work runs in place, and replays.
pub fn aside<R>(work: impl FnOnce() -> R) -> R {
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}

/// Whether the JSON of a value is longer than `bytes`.
fn is_longer(value: &impl Serialize, bytes: usize) -> bool {
    exceeds(value, bytes, |_, _| 1)
}

/// Whether the JSON of a value takes more than `bytes` in the store. The API server escapes some characters
/// that other writers of JSON do not escape.
fn takes_more(value: &impl Serialize, bytes: usize) -> bool {
    exceeds(value, bytes, |before, byte| match (before, byte) {
        (_, b'<' | b'>' | b'&') => 6,
        // The ends of U+2028 and U+2029.
        ([0xe2, 0x80], 0xa8 | 0xa9) => 4,
        _ => 1,
    })
}

/// Whether the JSON of a value weighs more than `limit`; writing stops as soon as it does. `weigh` takes the
/// two bytes before a byte, and the byte.
fn exceeds(value: &impl Serialize, limit: usize, weigh: impl Fn([u8; 2], u8) -> usize) -> bool {
    struct Scale<W> {
        left: usize,
        before: [u8; 2],
        weigh: W,
    }
    impl<W: Fn([u8; 2], u8) -> usize> Write for Scale<W> {
        fn write(&mut self, text: &[u8]) -> io::Result<usize> {
            for byte in text {
                let weight = (self.weigh)(self.before, *byte);
                self.left = self.left.checked_sub(weight).ok_or(io::ErrorKind::StorageFull)?;
                self.before = [self.before[1], *byte];
            }
            Ok(text.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    serde_json::to_writer(Scale { left: limit, before: [0; 2], weigh }, value).is_err()
}

#[cfg(test)]
mod tests;
