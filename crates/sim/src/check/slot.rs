//! The slot of a Framework, and the label that names it.

/// The label of every object of a Framework that names the Framework's slot.
pub(crate) const SLOT_LABEL: &str = "frameworkcontroller.microsoft.com/slot";

/// The slot of a Framework: the top 8 bits of FNV-1a-64 over its UID.
pub(crate) fn slot(uid: &str) -> u8 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = uid.bytes().fold(0xcbf2_9ce4_8422_2325, step);
    hash.to_be_bytes()[0]
}

#[cfg(test)]
mod tests {
    use super::slot;

    #[test]
    fn the_slot_is_the_top_byte_of_the_published_hash() {
        // FNV-1a-64 of "a" is af63dc4c8601ec8c, of "foobar" 85944171f73967e8.
        assert_eq!((slot("a"), slot("foobar")), (0xaf, 0x85));
    }
}
