//! Changes that a watch reports.

/// A change of one object, or of the watch itself.
#[derive(Clone, Debug)]
pub enum Change<T> {
    /// A LIST begins: the objects until [`Change::Synced`] replace all known objects of the kind.
    Restarted,
    /// One object of that LIST.
    Listed(T),
    /// The LIST is complete.
    Synced,
    /// The object was added or modified.
    Applied(T),
    /// The object was deleted, or is no longer selected; this is its last known state.
    Deleted(T),
}

impl<T> Change<T> {
    /// The same change of another form of the object.
    pub fn map<U>(self, form: impl FnOnce(T) -> U) -> Change<U> {
        match self {
            Change::Restarted => Change::Restarted,
            Change::Listed(object) => Change::Listed(form(object)),
            Change::Synced => Change::Synced,
            Change::Applied(object) => Change::Applied(form(object)),
            Change::Deleted(object) => Change::Deleted(form(object)),
        }
    }
}
