//! The order within one namespace: records first, then deletes and creates, the Frameworks in rotation.
//!
//! Frameworks in their first turn share evenly with all others. A Framework of a few Tasks does not wait for
//! the turns, creates or deletes, of one of 10,000. A stream of small ones takes no more than half of the
//! requests from the large one.
//!
//! After [`RECORDS`] records in a row, a delete or a create that waits goes next: Frameworks whose status
//! changes all the time do not stop the others of their namespace.

use framework_message::Key;

use super::class::Class;
use super::recent::Recent;
use super::rotation::Rotation;
use crate::budget::Part;

/// Records in a row while deletes or creates wait.
const RECORDS: u32 = 16;

/// The rotation of keys in each class.
#[derive(Debug, Default)]
pub(super) struct Rotations {
    records: Rotation<Key>,
    /// Records that were taken in a row.
    records_in_a_row: u32,
    /// Deletes and creates of Frameworks in their first turn.
    first: [Rotation<Key>; 2],
    /// Deletes and creates of all others.
    later: [Rotation<Key>; 2],
    /// A Framework that is not in its first turn goes next.
    later_is_next: bool,
}

impl Rotations {
    /// Puts a key into its class, unless it is in there.
    pub fn offer(&mut self, class: Class, key: &Key, recent: &Recent) {
        let Some(index) = index_of(class) else { return self.records.offer(key) };
        let (here, there) = if recent.is_in_first_turn(class, key) {
            (&mut self.first, &self.later)
        } else {
            (&mut self.later, &self.first)
        };
        if !there[index].contains(key) {
            here[index].offer(key);
        }
    }

    /// Takes the key whose turn it is, and the class.
    pub fn take(&mut self, recent: &mut Recent) -> Option<(Class, Key)> {
        if self.is_record_next() {
            self.records_in_a_row = self.records_in_a_row.saturating_add(1);
            return Some((Class::Record, self.records.take()?));
        }
        self.records_in_a_row = 0;
        let [first, later] = [&self.first, &self.later].map(|group| !is_empty(group));
        let is_later = later && (!first || self.later_is_next);
        self.later_is_next = first && !is_later;
        let group = if is_later { &mut self.later } else { &mut self.first };
        let (class, key) = [Class::Delete, Class::Create]
            .into_iter()
            .find_map(|class| Some((class, group[index_of(class)?].take()?)))?;
        recent.spend(class, &key);
        Some((class, key))
    }

    /// The part of the budget that pays for the next request.
    pub fn part(&self) -> Part {
        let is_urgent = self.is_record_next() || !is_empty(&self.first) || self.later_is_next;
        if is_urgent { Part::Whole } else { Part::Upper }
    }

    /// Whether no key waits.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty() && self.has_no_acts()
    }

    fn has_no_acts(&self) -> bool {
        is_empty(&self.first) && is_empty(&self.later)
    }

    fn is_record_next(&self) -> bool {
        !self.records.is_empty() && (self.records_in_a_row < RECORDS || self.has_no_acts())
    }
}

/// The index of a class in a pair of rotations; records are in none.
fn index_of(class: Class) -> Option<usize> {
    match class {
        Class::Record => None,
        Class::Delete => Some(0),
        Class::Create => Some(1),
    }
}

fn is_empty(group: &[Rotation<Key>; 2]) -> bool {
    group.iter().all(Rotation::is_empty)
}
