//! How large an object may become, and the room that its Tasks leave for texts.

/// The most that an object, and a compressed status in it, may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeLimits {
    /// Bytes of metadata, spec and task statuses. etcd takes 1.5 MiB in one request; what is missing here is
    /// for the conditions and for how the attempt ended, which are never compressed.
    pub object: usize,
    /// Bytes of `taskRoleStatusesCompressed`.
    pub compressed: usize,
}

impl Default for SizeLimits {
    fn default() -> Self {
        SizeLimits { object: 1_450_000, compressed: 1_000_000 }
    }
}

/// What a Task takes in compressed bytes, texts apart, at the end of its life, with addresses, nodes,
/// times and counts that differ from Task to Task.
const USUAL: usize = 64;
/// The same, when it is compressed in a hurry.
pub(crate) const MOST: usize = 80;
impl SizeLimits {
    /// What is left of them beside so many bytes.
    #[must_use]
    pub fn beside(&self, stored_bytes: usize) -> SizeLimits {
        SizeLimits { object: self.object.saturating_sub(stored_bytes), ..*self }
    }

    /// What a compressed status may take before base64 makes four bytes of three.
    fn wanted(&self, stored_bytes: usize) -> usize {
        self.object.saturating_sub(stored_bytes).min(self.compressed) / 4 * 3
    }

    /// What it may take at the very most.
    pub(crate) fn possible(&self, stored_bytes: usize) -> usize {
        self.object.saturating_sub(stored_bytes) / 4 * 3
    }

    /// What all texts of so many Tasks may take.
    pub(crate) fn texts(&self, stored_bytes: usize, tasks: usize) -> usize {
        let wanted = self.wanted(stored_bytes).saturating_sub(USUAL * tasks);
        // So that there is room for a scale-up.
        wanted.min(self.possible(stored_bytes).saturating_sub(MOST * tasks) / 2)
    }
}
