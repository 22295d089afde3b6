//! When statuses are compressed, and what follows from it for later writes.
//!
//! The work itself, on the bytes, is the shell's.

use framework_api::FrameworkStatus;
use framework_api::config::CompressionCodec;
use framework_core::plan::Report;

use crate::framework_state::{FrameworkState, Persisted};
use crate::object::FrameworkObject;

/// What a status takes at most that is stored as it is, even where there is room for more.
pub const LARGEST_RAW: usize = 1 << 20;
/// When and how statuses are compressed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Compression {
    /// From this length of `taskRoleStatuses`, as JSON; `None`: only what would be too large as it is.
    pub threshold: Option<usize>,
    /// With what.
    pub codec: CompressionCodec,
}

impl FrameworkState {
    /// Whether a status is compressed in any case: an attempt that was compressed once stays so.
    pub fn stays_compressed(&self, next: &FrameworkStatus) -> bool {
        let Some(Persisted { status: Some(status), form, .. }) = &self.persisted else { return false };
        form.compressed && status.attempt_status.id == next.attempt_status.id
    }

    /// A status was accepted. If compression is off and it is the first that was compressed all the same,
    /// says so.
    pub fn tell_compressed(&mut self, object: &FrameworkObject, settings: &Compression) -> Option<Report> {
        let first = object.form.compressed && !std::mem::replace(&mut self.told_compressed, true);
        let note = || {
            format!(
                "the status would take more than {LARGEST_RAW} bytes, or not fit beside the spec: \
                 taskRoleStatuses is compressed, though largeFrameworkCompression is off"
            )
        };
        (first && settings.threshold.is_none()).then(|| Report::normal("StatusCompressed", note()))
    }
}
