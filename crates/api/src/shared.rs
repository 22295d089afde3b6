//! A value that its copies share until one of them changes it.
//!
//! A status has an entry for each of up to 10,000 Tasks, and one event changes one of them. With shared
//! entries a copy of the status costs a pointer a Task, and two copies are compared by their pointers
//! first. The persisted copy and the one being written take the memory of one.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Reads like the value itself; on the wire it is the value itself.
pub struct Shared<T>(Arc<T>);

impl<T> Shared<T> {
    /// Whether both are one value in memory, and so equal. Equal values may be two in memory.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl<T: Clone> Shared<T> {
    /// The value, to be changed. From here on it is no longer shared with its copies.
    pub fn to_mut(&mut self) -> &mut T {
        Arc::make_mut(&mut self.0)
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Shared(Arc::clone(&self.0))
    }
}

impl<T> From<T> for Shared<T> {
    fn from(value: T) -> Self {
        Shared(Arc::new(value))
    }
}

impl<T: fmt::Debug> fmt::Debug for Shared<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T: PartialEq> PartialEq for Shared<T> {
    fn eq(&self, other: &Self) -> bool {
        self.is_same(other) || self.0 == other.0
    }
}

impl<T: Serialize> Serialize for Shared<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Shared<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(deserializer).map(Shared::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_to_a_copy_leaves_the_others_alone() {
        let one = Shared::from(vec![1]);
        let mut other = one.clone();
        assert!(one.is_same(&other));
        other.to_mut().push(2);
        assert_eq!((&*one, &*other), (&vec![1], &vec![1, 2]));
        assert_ne!(one, other);
    }

    #[test]
    fn on_the_wire_it_is_its_value() {
        let read: Vec<Shared<u8>> = serde_json::from_str("[1,2]").unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), "[1,2]");
        assert!(read[0] == Shared::from(1) && read[0] != read[1]);
    }
}
