//! Slots: the number of parts into which the Frameworks are divided, and the part of each Framework.

use std::fmt;

use framework_api::name;

/// The part of all Frameworks that one replica may own: `0` to `255`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub u8);

impl Slot {
    /// The number of slots.
    pub const COUNT: usize = 256;

    /// The slot of the object with this UID, and of everything that belongs to it.
    pub fn of(uid: &str) -> Self {
        Slot(name::slot(uid))
    }

    /// Every slot, in order.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..=u8::MAX).map(Slot)
    }
}

/// The value of the slot label.
impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A set of slots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slots([u128; 2]);

impl Slots {
    /// Every slot.
    pub const ALL: Self = Slots([u128::MAX; 2]);
    /// No slot.
    pub const NONE: Self = Slots([0; 2]);

    /// Whether the set has this slot.
    pub fn contains(self, slot: Slot) -> bool {
        let [low, high] = self.0;
        (if slot.0 < 128 { low } else { high }) & bit(slot) != 0
    }

    /// Adds a slot.
    pub fn insert(&mut self, slot: Slot) {
        let [low, high] = &mut self.0;
        *(if slot.0 < 128 { low } else { high }) |= bit(slot);
    }

    /// The slots that are in both sets.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let ([low, high], [other_low, other_high]) = (self.0, other.0);
        Slots([low & other_low, high & other_high])
    }

    /// The slots that are in one of the sets.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        let ([low, high], [other_low, other_high]) = (self.0, other.0);
        Slots([low | other_low, high | other_high])
    }

    /// The slots of this set that are not in the other one.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        let ([low, high], [other_low, other_high]) = (self.0, other.0);
        Slots([low & !other_low, high & !other_high])
    }

    /// Whether the set has no slot.
    pub fn is_empty(self) -> bool {
        self == Self::NONE
    }

    /// The slots of the set, in order.
    pub fn iter(self) -> impl Iterator<Item = Slot> {
        let [low, high] = self.0;
        within(low, 0).chain(within(high, 128))
    }
}

/// The slots of one half of a set, which begins with the slot of this number. Takes a step for each of them.
fn within(mut half: u128, first: u8) -> impl Iterator<Item = Slot> {
    std::iter::from_fn(move || {
        let next = u8::try_from(half.trailing_zeros()).ok()?;
        half &= half.checked_sub(1)?;
        Some(Slot(first + next))
    })
}

impl FromIterator<Slot> for Slots {
    fn from_iter<I: IntoIterator<Item = Slot>>(slots: I) -> Self {
        let mut set = Self::NONE;
        set.extend(slots);
        set
    }
}

impl Extend<Slot> for Slots {
    fn extend<I: IntoIterator<Item = Slot>>(&mut self, slots: I) {
        slots.into_iter().for_each(|slot| self.insert(slot));
    }
}

fn bit(slot: Slot) -> u128 {
    1 << (slot.0 % 128)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_the_top_byte_of_fnv_1a_and_its_label_a_number() {
        assert_eq!([Slot::of(""), Slot::of("a")], [Slot(0xcb), Slot(0xaf)]);
        assert_eq!(Slot(7).to_string(), "7");
        assert_eq!(Slot::all().count(), Slot::COUNT);
    }

    #[test]
    fn a_set_has_exactly_the_slots_that_were_added() {
        let chosen = [0, 1, 127, 128, 255].map(Slot);
        let set: Slots = chosen.into_iter().collect();
        assert_eq!(set.iter().collect::<Vec<_>>(), chosen);
        assert_eq!(set.and([Slot(1), Slot(2)].into_iter().collect()).iter().collect::<Vec<_>>(), [Slot(1)]);
        let rest = Slots::ALL.without(set);
        assert!(rest.and(set).is_empty() && rest.or(set) == Slots::ALL);
        assert!(Slots::NONE.is_empty() && !set.is_empty());
        assert_eq!(Slots::ALL.iter().count(), Slot::COUNT);
    }
}
