//! The versions at which things happened in queues.

use std::sync::Arc;

use framework_sim::{Change, History, Object};

/// The version at which a unit was released.
pub fn released(history: &History, unit: &str) -> u64 {
    let is_released = |object: &Option<Arc<Object>>| {
        object.as_ref().is_some_and(|object| object["status"]["phase"] == "Dequeued")
    };
    version(history, "queueunits", unit, |change| !is_released(&change.old) && is_released(&change.new))
}

/// The version at which an object was gone.
pub fn gone(history: &History, plural: &str, name: &str) -> u64 {
    version(history, plural, name, |change| change.new.is_none())
}

/// The version of the only change of an object that is as asked.
fn version(history: &History, plural: &str, name: &str, is: impl Fn(&Change) -> bool) -> u64 {
    let is_of_it = |change: &Change| {
        let object = change.new.as_ref().or(change.old.as_ref()).expect("an object");
        change.is(plural) && object["metadata"]["name"] == name
    };
    let mut found = history.changes.iter().filter(|change| is_of_it(change) && is(change));
    let first = found.next().unwrap_or_else(|| panic!("{plural} {name}: it never happened")).rv;
    assert!(found.next().is_none(), "{plural} {name}: it happened again");
    first
}
