//! The maximum size of an object, and the space that its Tasks leave for texts.

/// The size limits of an object, and of a compressed status in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeLimits {
    /// Bytes of metadata, spec and task statuses. etcd takes 1.5 MiB in one request. The difference is for
    /// the conditions and the completion status of the attempt, which are never compressed.
    pub object: usize,
    /// Bytes of `taskRoleStatusesCompressed`.
    pub compressed: usize,
}

impl Default for SizeLimits {
    fn default() -> Self {
        SizeLimits { object: 1_450_000, compressed: 1_000_000 }
    }
}

/// Compressed bytes of a Task without texts at the end of its life, with different addresses, nodes, times
/// and counts in every Task.
const USUAL_PER_TASK: usize = 64;
/// The same as `USUAL_PER_TASK` with the fast compression.
pub(crate) const MOST_PER_TASK: usize = 80;
impl SizeLimits {
    /// The limits that are left beside this many bytes.
    #[must_use]
    pub fn beside(&self, stored_bytes: usize) -> SizeLimits {
        SizeLimits { object: self.object.saturating_sub(stored_bytes), ..*self }
    }

    /// The bytes for a compressed status, before base64 makes four bytes of three.
    fn wanted(&self, stored_bytes: usize) -> usize {
        self.object.saturating_sub(stored_bytes).min(self.compressed) / 4 * 3
    }

    /// The same as `wanted` with only the limit of the object.
    pub(crate) fn possible(&self, stored_bytes: usize) -> usize {
        self.object.saturating_sub(stored_bytes) / 4 * 3
    }

    /// The bytes for all texts of this many Tasks.
    pub(crate) fn texts(&self, stored_bytes: usize, tasks: usize) -> usize {
        let wanted = self.wanted(stored_bytes).saturating_sub(USUAL_PER_TASK * tasks);
        // Leaves space for a scale-up.
        wanted.min(self.possible(stored_bytes).saturating_sub(MOST_PER_TASK * tasks) / 2)
    }
}
