//! The faults that a test asks for, besides those that are drawn.

/// Which faults there are.
#[derive(Clone, Default)]
pub struct Faults {
    /// No message is late, lost or repeated.
    pub calm: bool,
    /// Replicas that join have Leases of different durations.
    pub mixed: bool,
    /// Clients other than replicas take Leases. Without this, users empty them.
    pub foreign_clients: bool,
    /// A proxy sends some writes twice.
    pub repeats: bool,
    /// This replica hears of a conflict when it has written a Lease, and no watch shows it anything.
    pub conflicts: Option<u64>,
    /// The map is deleted often, and the epochs by which members act are checked.
    pub deletes_maps: bool,
    /// No write of the map arrives.
    pub puts_are_lost: bool,
    /// No write of the map by this replica arrives, so it hands nothing over.
    pub stuck: Option<u64>,
    /// No listing ends.
    pub lists_hang: bool,
    /// No drain ends.
    pub drains_hang: bool,
    /// No read of the map is answered, and no watch shows it.
    pub map_is_silent: bool,
}
