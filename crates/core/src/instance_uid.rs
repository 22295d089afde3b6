//! Instance UIDs that the controller makes itself: those of TaskRoles and Tasks.
//!
//! They are UUIDs of version 8 (RFC 9562, section 5.8): 74 bits from the moment's seed, shared by all UIDs
//! of one sync, and a counter of 48 bits. They are as unique as random ones, and 10,000 of them compress to
//! almost nothing.

/// Makes the instance UIDs of one evaluation.
#[derive(Clone, Debug)]
pub struct InstanceUids {
    seed: u128,
    made: u64,
}

impl InstanceUids {
    /// UIDs derived from `seed`, which no other evaluation may have.
    pub fn new(seed: u128) -> Self {
        InstanceUids { seed, made: 0 }
    }

    /// The next UID.
    pub fn make(&mut self) -> String {
        let counter = self.made & 0xffff_ffff_ffff;
        self.made += 1;
        let high = (self.seed >> 80) as u64 & 0xffff_ffff_ffff;
        let middle = (self.seed >> 68) as u64 & 0xfff;
        let low = (self.seed >> 54) as u64 & 0x3fff;
        format!("{:08x}-{:04x}-8{middle:03x}-{:04x}-{counter:012x}", high >> 16, high & 0xffff, 0x8000 | low)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instance_uids_have_the_form_of_uuids_and_differ() {
        let mut instances = InstanceUids::new(u128::MAX / 3);
        let (a, b) = (instances.make(), instances.make());
        assert_eq!(a, "55555555-5555-8555-9555-000000000000");
        assert_ne!(a, b);
        assert_ne!(InstanceUids::new(1 << 127).make(), InstanceUids::new(1 << 100).make());
    }
}
