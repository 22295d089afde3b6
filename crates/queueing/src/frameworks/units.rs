//! The units of all Frameworks, by Framework.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use framework_api::job_kind::unit_name;
use framework_api::name::KIND;
use framework_message::{Change, Key};

use crate::object::UnitObject;
use crate::store::Store;

/// The units, and the Frameworks that they name.
#[derive(Debug, Default)]
pub struct Units {
    store: Store<Arc<UnitObject>>,
    /// The Framework that each unit names.
    named: BTreeMap<Key, Key>,
    of: BTreeMap<Key, BTreeSet<Key>>,
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

    /// The names of the units that name a Framework.
    pub fn of(&self, framework: &Key) -> impl Iterator<Item = &Key> {
        self.of.get(framework).into_iter().flatten()
    }

    /// The Frameworks that units name.
    pub fn frameworks(&self) -> impl Iterator<Item = &Key> {
        self.of.keys()
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

    /// Also the Frameworks that may wait for the name of the unit.
    fn changed(&mut self, unit: &Key) -> Vec<Key> {
        let is_of_framework = |unit: &&Arc<UnitObject>| unit.is_of_framework();
        let now = self.store.get(unit).filter(is_of_framework).map(|unit| unit.consumer.key.clone());
        let before = match &now {
            Some(now) => self.named.insert(unit.clone(), now.clone()),
            None => self.named.remove(unit),
        };
        if let Some(before) = before.as_ref().filter(|before| Some(*before) != now.as_ref())
            && let Some(units) = self.of.get_mut(before)
        {
            units.remove(unit);
            if units.is_empty() {
                self.of.remove(before);
            }
        }
        if let Some(now) = &now {
            self.of.entry(now.clone()).or_default().insert(unit.clone());
        }
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
