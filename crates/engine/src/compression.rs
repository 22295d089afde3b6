//! When statuses are compressed. The work itself, on the bytes, is the shell's.

use framework_api::config::CompressionCodec;

/// The largest status that is stored as it is, in bytes, even where there is room for more.
pub const LARGEST_RAW: usize = 1 << 20;

/// When and how statuses are compressed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Compression {
    /// From this length of `taskRoleStatuses`, as JSON; `None`: only what would be too large as it is.
    pub threshold: Option<usize>,
    /// With what.
    pub codec: CompressionCodec,
}
