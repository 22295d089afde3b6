//! Facts about Pods, by TaskRole and Task index.
//!
//! The names of the Pods of a TaskRole differ in their last number: `{framework}-{role}-{index}`. A name is
//! taken apart when its Pod enters the map. So the Pod of a Task is found by its index: an evaluation of
//! 10,000 Tasks compares no names. Other names are kept, too, each by itself.

use std::collections::BTreeMap;
use std::fmt;

/// The name of a Pod, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodName<'a> {
    /// The part that the Pods of a TaskRole share; the whole name if it does not end in an index.
    pub stem: &'a str,
    /// The index of the Task.
    pub index: Option<u32>,
}

impl<'a> PodName<'a> {
    /// Takes a name apart. No two names have the same parts.
    pub fn new(name: &'a str) -> Self {
        let whole = PodName { stem: name, index: None };
        let Some((stem, digits)) = name.rsplit_once('-') else { return whole };
        // Only the usual form of a number, so that the parts make the name again.
        if digits != "0" && digits.starts_with(['0', '+']) {
            return whole;
        }
        digits.parse().map_or(whole, |index| PodName { stem, index: Some(index) })
    }
}

impl fmt::Display for PodName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.index {
            Some(index) => write!(f, "{}-{index}", self.stem),
            None => f.write_str(self.stem),
        }
    }
}

/// The facts about the Pods whose names have the same stem.
#[derive(Clone, Debug)]
pub struct Siblings<T> {
    whole: Option<T>,
    indexed: BTreeMap<u32, T>,
}

impl<T> Default for Siblings<T> {
    fn default() -> Self {
        Siblings { whole: None, indexed: BTreeMap::new() }
    }
}

impl<T> Siblings<T> {
    /// Those of the Task of that index.
    pub fn of_task(&self, index: i32) -> Option<&T> {
        self.indexed.get(&u32::try_from(index).ok()?)
    }

    /// All, in the order of their indices.
    pub fn iter(&self) -> impl Iterator<Item = (Option<u32>, &T)> {
        let indexed = self.indexed.iter().map(|(index, value)| (Some(*index), value));
        self.whole.iter().map(|value| (None, value)).chain(indexed)
    }

    /// Those of the Pod of that index.
    pub fn get(&self, index: Option<u32>) -> Option<&T> {
        index.map_or(self.whole.as_ref(), |index| self.indexed.get(&index))
    }

    /// All, to change them.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.whole.iter_mut().chain(self.indexed.values_mut())
    }

    fn len(&self) -> usize {
        self.indexed.len() + usize::from(self.whole.is_some())
    }
}

/// Facts about Pods, by TaskRole and Task index.
#[derive(Clone, Debug)]
pub struct PodMap<T> {
    /// By stem; none is empty.
    stems: BTreeMap<Box<str>, Siblings<T>>,
}

impl<T> Default for PodMap<T> {
    fn default() -> Self {
        PodMap { stems: BTreeMap::new() }
    }
}

impl<T> PodMap<T> {
    /// Those of the Pod of that name.
    pub fn get(&self, name: &str) -> Option<&T> {
        let PodName { stem, index } = PodName::new(name);
        self.stems.get(stem)?.get(index)
    }

    /// As [`PodMap::get`], to change them.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut T> {
        let PodName { stem, index } = PodName::new(name);
        let siblings = self.stems.get_mut(stem)?;
        match index {
            Some(index) => siblings.indexed.get_mut(&index),
            None => siblings.whole.as_mut(),
        }
    }

    /// Whether there are any of the Pod of that name.
    pub fn contains_key(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Those of all Pods whose names have that stem.
    pub fn siblings(&self, stem: &str) -> Option<&Siblings<T>> {
        self.stems.get(stem)
    }

    /// As [`PodMap::siblings`], to change them.
    pub fn siblings_mut(&mut self, stem: &str) -> Option<&mut Siblings<T>> {
        self.stems.get_mut(stem)
    }

    /// All stems, with the facts about their Pods.
    pub fn stems(&self) -> impl Iterator<Item = (&str, &Siblings<T>)> {
        self.stems.iter().map(|(stem, siblings)| (&**stem, siblings))
    }

    /// Puts in the fact about a Pod, and returns the earlier one.
    pub fn insert(&mut self, name: impl AsRef<str>, value: T) -> Option<T> {
        let PodName { stem, index } = PodName::new(name.as_ref());
        let siblings = match self.stems.get_mut(stem) {
            Some(siblings) => siblings,
            None => self.stems.entry(stem.into()).or_default(),
        };
        match index {
            Some(index) => siblings.indexed.insert(index, value),
            None => siblings.whole.replace(value),
        }
    }

    /// Takes those of a Pod out.
    pub fn remove(&mut self, name: &str) -> Option<T> {
        let PodName { stem, index } = PodName::new(name);
        let siblings = self.stems.get_mut(stem)?;
        let removed = match index {
            Some(index) => siblings.indexed.remove(&index),
            None => siblings.whole.take(),
        };
        if siblings.len() == 0 {
            self.stems.remove(stem);
        }
        removed
    }

    /// Keeps those for which `keep` holds, and returns the others with their names.
    pub fn take_unless(&mut self, mut keep: impl FnMut(PodName<'_>, &mut T) -> bool) -> Vec<(String, T)> {
        let mut taken = Vec::new();
        self.stems.retain(|stem, siblings| {
            let of = |index| PodName { stem, index };
            if let Some(value) = siblings.whole.take_if(|value| !keep(of(None), value)) {
                taken.push((of(None).to_string(), value));
            }
            let others = siblings.indexed.extract_if(.., |index, value| !keep(of(Some(*index)), value));
            taken.extend(others.map(|(index, value)| (of(Some(index)).to_string(), value)));
            siblings.len() > 0
        });
        taken
    }

    /// Keeps those for which `keep` holds.
    pub fn retain(&mut self, mut keep: impl FnMut(PodName<'_>, &mut T) -> bool) {
        self.stems.retain(|stem, siblings| {
            let of = |index| PodName { stem, index };
            siblings.whole.take_if(|value| !keep(of(None), value));
            siblings.indexed.retain(|index, value| keep(of(Some(*index)), value));
            siblings.len() > 0
        });
    }

    /// All, with the names of their Pods.
    pub fn iter(&self) -> impl Iterator<Item = (PodName<'_>, &T)> {
        self.stems.iter().flat_map(|(stem, siblings)| {
            siblings.iter().map(move |(index, value)| (PodName { stem, index }, value))
        })
    }

    /// The names of all Pods.
    pub fn keys(&self) -> impl Iterator<Item = String> {
        self.iter().map(|(name, _)| name.to_string())
    }

    /// All.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.stems.values().flat_map(|siblings| siblings.whole.iter().chain(siblings.indexed.values()))
    }

    /// All, to change them.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.stems.values_mut().flat_map(Siblings::values_mut)
    }

    /// How many Pods there are.
    pub fn len(&self) -> usize {
        self.stems.values().map(Siblings::len).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.stems.is_empty()
    }

    /// Takes all out.
    pub fn clear(&mut self) {
        self.stems.clear();
    }
}

impl<T, N: AsRef<str>> FromIterator<(N, T)> for PodMap<T> {
    fn from_iter<I: IntoIterator<Item = (N, T)>>(pods: I) -> Self {
        let mut map = PodMap::default();
        for (name, value) in pods {
            map.insert(name, value);
        }
        map
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::{PodMap, PodName};

    #[test]
    fn a_name_is_taken_apart_at_an_index_in_its_usual_form() {
        for (name, stem, index) in [
            ("job-w-0", "job-w", Some(0)),
            ("job-w-4294967295", "job-w", Some(u32::MAX)),
            ("job-w-4294967296", "job-w-4294967296", None),
            ("job-w-01", "job-w-01", None),
            ("job-w-+1", "job-w-+1", None),
            ("job-w-", "job-w-", None),
            ("job", "job", None),
            ("-7", "", Some(7)),
        ] {
            assert_eq!(PodName::new(name), PodName { stem, index }, "{name}");
            assert_eq!(PodName::new(name).to_string(), name);
        }
    }

    proptest! {
        #[test]
        fn it_behaves_as_a_map_by_name(
            steps in prop::collection::vec(("(job-)?[wv]?(-)?(0|1|2|10|01|x)?", 0..5_u8), 0..60),
        ) {
            let (mut map, mut plain) = (PodMap::default(), BTreeMap::new());
            for (name, step) in steps {
                match step {
                    0 => prop_assert_eq!(map.remove(&name), plain.remove(&name)),
                    1 => {
                        map.retain(|other, _| other.to_string() != name);
                        plain.retain(|other, _| *other != name);
                    }
                    2 => {
                        let taken = map.take_unless(|other, _| other.to_string() != name);
                        prop_assert_eq!(taken.into_iter().next(), plain.remove_entry(&name));
                    }
                    value => prop_assert_eq!(map.insert(&name, value), plain.insert(name.clone(), value)),
                }
                prop_assert_eq!(map.get(&name), plain.get(&name));
                prop_assert_eq!((map.len(), map.is_empty()), (plain.len(), plain.is_empty()));
                let found = map.iter().map(|(name, value)| (name.to_string(), *value));
                prop_assert_eq!(&found.collect::<BTreeMap<_, _>>(), &plain);
            }
        }
    }
}
