//! The stored form of a status: compressed for a write where the settings say so, decompressed after a read.
//!
//! Guarantees: an attempt whose persisted status is compressed stays compressed, whatever the settings; what
//! we wrote ourselves is recognised when it comes back, by the watch or by a read, and is not decoded again;
//! a status that cannot be decoded makes its own Framework unreadable and no other. Large ones keep off the
//! threads that move bytes, and only one at a time is compressed with much effort: that costs memory.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use framework_api::codec::{self, Effort, EncodeError};
use framework_api::config::CompressionCodec;
use framework_api::{FrameworkStatus, State};
use framework_core::size::SizeLimits;
use serde::Serialize;
use tokio::runtime::{Handle, RuntimeFlavor};
use tracing::error;

use crate::echo::Echoes;
use crate::wire::FrameworkText;
use framework_engine::compression::{Compression, LARGEST_RAW};
use framework_engine::object::{FrameworkObject, Unreadable};

/// From so many Tasks on, work on a status is worth a thread of its own.
const LARGE: usize = 200;
/// The same of the text of a status, in bytes.
const LARGE_TEXT: usize = 256 << 10;

/// Compresses and decompresses statuses.
#[derive(Debug, Default)]
pub struct Compressor {
    settings: Compression,
    /// What is stored compressed, as far as we wrote or read it, by UID.
    known: Mutex<BTreeMap<Arc<str>, Known>>,
    /// What our writes were answered with.
    echoes: Echoes,
    /// Held by whoever compresses with much effort.
    effort: Mutex<()>,
}

#[derive(Debug)]
struct Known {
    text: String,
    /// While nobody has it any more there is nothing to save.
    status: Weak<FrameworkStatus>,
}

impl Compressor {
    /// A compressor with these settings.
    pub fn new(settings: Compression) -> Self {
        Compressor { settings, ..Compressor::default() }
    }

    /// The form in which a status is to be stored, if not as it is. `stays`: its attempt is compressed
    /// already. `room`: what is left beside metadata and spec.
    pub fn pack(&self, status: &FrameworkStatus, stays: bool, room: &SizeLimits) -> Option<FrameworkStatus> {
        if !stays && !self.is_too_large(status, room) {
            return None;
        }
        match self.compress(status, room) {
            Ok(text) => Some(status.stored(Some(text))),
            Err(error) => {
                error!(%error, "a status is stored as it is");
                None
            }
        }
    }

    fn is_too_large(&self, status: &FrameworkStatus, room: &SizeLimits) -> bool {
        let reached = |threshold: usize| is_longer(&status.task_roles(), threshold.saturating_sub(1));
        self.settings.threshold.is_some_and(reached) || takes_more(status, LARGEST_RAW.min(room.object))
    }

    /// Compresses with as much effort as it takes to fit. Should the chosen codec not do, which the rules of
    /// what a Task may say exclude unless somebody changed spec or codec since, zstd does: a status that
    /// some old client cannot read is better than one that cannot be stored.
    fn compress(&self, status: &FrameworkStatus, room: &SizeLimits) -> Result<String, EncodeError> {
        let most = room.compressed.min(room.object);
        let chosen = self.settings.codec;
        if status.state != State::Completed {
            let text = codec::encode_json(&status.task_roles(), chosen, Effort::Fast)?;
            if text.len() <= most {
                return Ok(text);
            }
        }
        let _alone = self.effort.lock().unwrap_or_else(PoisonError::into_inner);
        let text = codec::encode_json(&status.task_roles(), chosen, Effort::Best)?;
        if text.len() <= most || chosen == CompressionCodec::Zstd {
            return Ok(text);
        }
        codec::encode_json(&status.task_roles(), CompressionCodec::Zstd, Effort::Best)
    }

    /// Remembers what a packed status stands for: it is about to be stored, or was read.
    pub fn remember(&self, uid: &Arc<str>, packed: FrameworkStatus, status: &Arc<FrameworkStatus>) {
        let Some(text) = packed.attempt_status.task_role_statuses_compressed else { return };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, one| one.status.strong_count() > 0);
        known.insert(Arc::clone(uid), Known { text, status: Arc::downgrade(status) });
    }

    /// Makes an object readable whose status is compressed.
    pub fn open(&self, object: &mut FrameworkObject) {
        let Ok((framework, Some(status))) = &mut object.content else { return };
        let Some(text) = &status.attempt_status.task_role_statuses_compressed else { return };
        if let Some(known) = self.recall(&object.uid, text, status) {
            *status = known;
            return;
        }
        let packed = status.stored(Some(text.clone()));
        match Arc::make_mut(status).decompress() {
            Ok(true) => self.remember(&object.uid, packed, status),
            Ok(false) => {}
            Err(error) => {
                object.content = Err(Unreadable {
                    reason: format!("status.attemptStatus.taskRoleStatusesCompressed: {error}").into(),
                    framework: Some(Arc::clone(framework)),
                    conditions: Some(packed.conditions),
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

    /// A status write was answered with this: the watch will show the same.
    pub fn stored(&self, answer: &FrameworkObject) {
        self.echoes.expect(answer);
    }

    /// Reads what a watch shows, unless it is the echo of our own write.
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

/// [`Compressor::open`], aside if it is compressed.
pub fn open_aside(compressor: &Compressor, object: &mut FrameworkObject) {
    if object.form.compressed {
        aside(|| compressor.open(object));
    } else {
        compressor.open(object);
    }
}

/// Does what is to be done with a status, aside if it is large.
pub fn work_on<R>(status: &FrameworkStatus, work: impl FnOnce() -> R) -> R {
    let tasks: usize = status.task_roles().iter().map(|role| role.task_statuses.len()).sum();
    if tasks < LARGE { work() } else { aside(work) }
}

/// Does work of milliseconds to seconds while other threads take over what this one would have done. A
/// runtime of one thread, as in simulation, has no others: there it is done in place, and replays.
pub fn aside<R>(work: impl FnOnce() -> R) -> R {
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}

/// Whether the JSON of a value is longer than that.
fn is_longer(value: &impl Serialize, bytes: usize) -> bool {
    exceeds(value, bytes, |_, _| 1)
}

/// Whether the JSON of a value takes more than that in the store, where the API server escapes what other
/// writers of JSON do not.
fn takes_more(value: &impl Serialize, bytes: usize) -> bool {
    exceeds(value, bytes, |before, byte| match (before, byte) {
        (_, b'<' | b'>' | b'&') => 6,
        // The ends of U+2028 and U+2029.
        ([0xe2, 0x80], 0xa8 | 0xa9) => 4,
        _ => 1,
    })
}

/// Whether the JSON of a value weighs more than that; it is not written any further than needed to know.
/// `weigh` is told a byte and the two before it.
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
