//! The units of all Frameworks, by Framework.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use framework_api::job_kind::unit_name;
use framework_api::name::KIND;
use framework_message::{Change, Key};

use crate::object::UnitObject;
use crate::store::Store;
use crate::units_by_job::drop_from;

/// The units, and the Frameworks that they name.
#[derive(Debug, Default)]
pub struct Units {
    store: Store<Arc<UnitObject>>,
    ours: ByFramework,
    /// Those that users made, and that hold a share or may come to.
    by_hand: ByFramework,
    /// Frameworks that the latter have come to name, or that one of them names no more.
    renamed: BTreeSet<Key>,
}

/// Units by the Framework that they name.
#[derive(Debug, Default)]
struct ByFramework {
    /// The Framework that each unit names.
    named: BTreeMap<Key, Key>,
    of: BTreeMap<Key, BTreeSet<Key>>,
}

impl ByFramework {
    /// A unit names this Framework; `None`: it is not one of these units. Returns the Framework that it named
    /// before.
    fn set(&mut self, unit: &Key, now: Option<&Key>) -> Option<Key> {
        let before = match now {
            Some(now) => self.named.insert(unit.clone(), now.clone()),
            None => self.named.remove(unit),
        };
        if let Some(before) = before.as_ref().filter(|before| Some(*before) != now) {
            drop_from(&mut self.of, before, unit);
        }
        if let Some(now) = now {
            self.of.entry(now.clone()).or_default().insert(unit.clone());
        }
        before
    }

    /// The units that name a Framework.
    fn units(&self, framework: &Key) -> impl Iterator<Item = &Key> {
        self.of.get(framework).into_iter().flatten()
    }
}

impl Units {
    /// Whether they were ever listed.
    pub fn is_synced(&self) -> bool {
        self.store.is_synced()
    }

    /// The unit of that name.
    pub fn get(&self, key: &Key) -> Option<&Arc<UnitObject>> {
        self.store.get(key)
    }

    /// The names of the units that name a Framework, but for those that users made.
    pub fn of(&self, framework: &Key) -> impl Iterator<Item = &Key> {
        self.ours.units(framework)
    }

    /// The Frameworks that these units name.
    pub fn frameworks(&self) -> impl Iterator<Item = &Key> {
        self.ours.of.keys()
    }

    /// The names of the units that users made for a Framework, and that hold a share or may come to.
    pub fn by_hand(&self, framework: &Key) -> impl Iterator<Item = &Key> {
        self.by_hand.units(framework)
    }

    /// The same, for all Frameworks.
    pub fn all_by_hand(&self) -> impl Iterator<Item = &Key> {
        self.by_hand.named.keys()
    }

    /// The Frameworks for which such units have come or gone since the last call, and whether any names them
    /// now.
    pub fn take_renamed(&mut self) -> Vec<(Key, bool)> {
        let renamed = std::mem::take(&mut self.renamed);
        let with = |framework: Key| {
            let is_named = self.by_hand.of.contains_key(&framework);
            (framework, is_named)
        };
        renamed.into_iter().map(with).collect()
    }

    /// Takes in a change. Returns the names of the units that changed, and the Frameworks that this concerns.
    pub fn apply(&mut self, change: Change<Arc<UnitObject>>) -> (Vec<Key>, Vec<Key>) {
        let changed = self.store.apply(change);
        let concerned = changed.iter().flat_map(|unit| self.changed(unit)).collect();
        (changed, concerned)
    }

    /// Takes in a unit as a reply shows it. Returns the Frameworks that it concerns.
    pub fn refresh(&mut self, unit: Arc<UnitObject>) -> Vec<Key> {
        let key = unit.key.clone();
        if self.store.refresh(unit) { self.changed(&key) } else { Vec::new() }
    }

    /// Also the Frameworks that may wait for the name of the unit. Not that of a unit by hand: a user may
    /// make thousands for one Framework.
    fn changed(&mut self, unit: &Key) -> Vec<Key> {
        let known = self.store.get(unit);
        let framework = known.map(|known| known.consumer.key.clone());
        let now = framework.clone().filter(|_| known.is_some_and(|known| known.is_of_framework()));
        let by_hand = framework.filter(|_| known.is_some_and(|known| known.holds_by_hand()));
        let was_by_hand = self.by_hand.set(unit, by_hand.as_ref());
        if was_by_hand != by_hand {
            self.renamed.extend(was_by_hand.into_iter().chain(by_hand));
        }
        let before = self.ours.set(unit, now.as_ref());
        before.into_iter().chain(now).chain(may_wait_for(unit)).collect()
    }
}

/// The Frameworks whose first unit, or the unit of a growth, has this name.
fn may_wait_for(unit: &Key) -> impl Iterator<Item = Key> + use<'_> {
    let of = |name: &str| Key::new(&unit.namespace, name);
    let first = unit.name.strip_prefix(&*unit_name(KIND, ""));
    let growth = first.and_then(|name| name.rsplit_once('-')).map(|(name, _)| name);
    first.into_iter().chain(growth).map(of)
}
