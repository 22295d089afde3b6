//! When statuses are compressed. The work itself, on the bytes, is the shell's.

use framework_api::config::CompressionCodec;

/// The largest status that is stored as it is, in bytes, even where there is room for more.
pub const LARGEST_RAW: usize = 1 << 20;

/// When and how statuses are compressed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Compression {
    /// The length of `taskRoleStatuses`, as JSON, from which a status is compressed; `None`: only a status
    /// that would be too large otherwise.
    pub threshold: Option<usize>,
    /// The codec that compresses.
    pub codec: CompressionCodec,
}
