//! Versions of stored objects: preconditions of writes, and the means to recognise stale events.

/// The resourceVersion of an object, or of the read or event that showed it absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u64);

/// An object as a watch, a read or the reply to a write showed it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Seen<T> {
    /// Its version; of an object that is absent, that of the event or read.
    pub version: Version,
    /// The object; `None`: it does not exist.
    pub value: Option<T>,
}

impl<T> Seen<T> {
    /// The version that a write of it must replace; `None`: it must be created.
    pub fn base(&self) -> Option<Version> {
        self.value.is_some().then_some(self.version)
    }
}
