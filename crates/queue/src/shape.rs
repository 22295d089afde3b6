//! The different requests of the waiting units. Units with equal requests have one shape: whether it fits
//! is checked once for all of them.
//!
//! A shape that does not fit is parked at the resource that it lacks, by its request for it. It is not
//! checked again until that much is available.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Included};
use std::sync::Arc;

use framework_api::queue::Reason;

use crate::amount::Amount;
use crate::limits::Available;
use crate::requests::{Amounts, ResourceRequests};

/// A shape. An id is never used again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ShapeId(u64);

impl ShapeId {
    /// The shape of units whose queue is missing: they are compared with nothing.
    pub const NONE: Self = Self(0);
    const LAST: Self = Self(u64::MAX);
}

/// The units with equal requests.
#[derive(Debug)]
pub(crate) struct Shape {
    pub requests: ResourceRequests,
    /// The number of units that wait with it.
    units: usize,
    /// It requests more than the capacity.
    pub exceeds: bool,
    /// Why its units wait since the last round. It has no meaning for a shape that exceeds the capacity.
    pub reason: Option<Reason>,
    /// The resource at which it is parked.
    parked: Option<Arc<str>>,
}

impl Shape {
    /// Sets the reason why its units wait. Returns whether they waited for another reason before. Units
    /// without a reason are new or have changed, and are reported in any case.
    fn give_reason(&mut self, reason: Reason) -> bool {
        self.reason.replace(reason).is_some_and(|before| before != reason)
    }
}

type ByAmount = BTreeMap<Arc<str>, BTreeSet<(Amount, ShapeId)>>;

/// All shapes of a namespace.
#[derive(Debug, Default)]
pub(crate) struct Shapes {
    all: BTreeMap<ShapeId, Shape>,
    by_requests: BTreeMap<Amounts, ShapeId>,
    /// By their request for each resource.
    by_amount: ByAmount,
    /// The shapes that did not fit, at one resource each.
    parked: ByAmount,
    /// New shapes, and shapes that fit and were kept out: the next round checks them.
    unsettled: BTreeSet<ShapeId>,
    last: u64,
}

impl Shapes {
    pub fn get(&self, id: ShapeId) -> Option<&Shape> {
        self.all.get(&id)
    }

    /// Whether units of this shape could ever be released.
    pub fn can_fit(&self, id: ShapeId) -> bool {
        self.get(id).is_some_and(|shape| !shape.exceeds)
    }

    /// Whether several units wait with it.
    pub fn is_shared(&self, id: ShapeId) -> bool {
        self.get(id).is_some_and(|shape| shape.units > 1)
    }

    /// Counts a unit. Returns its shape.
    pub fn add(&mut self, requests: &ResourceRequests, capacity: &Available) -> ShapeId {
        if let Some(id) = self.by_requests.get(&requests.key()).copied() {
            if let Some(shape) = self.all.get_mut(&id) {
                shape.units = shape.units.saturating_add(1);
            }
            return id;
        }
        // All entries share one copy of the name.
        let name = |name| self.by_amount.get_key_value(name).map_or(name, |(known, _)| known);
        let requests: ResourceRequests =
            requests.iter().map(|(resource, amount)| (Arc::clone(name(resource)), amount)).collect();
        self.last = self.last.saturating_add(1);
        let (id, exceeds) = (ShapeId(self.last), !capacity.fits(&requests));
        for (resource, amount) in requests.iter() {
            insert(&mut self.by_amount, resource, amount, id);
        }
        if !exceeds {
            self.unsettled.insert(id);
        }
        self.by_requests.insert(requests.key(), id);
        self.all.insert(id, Shape { requests, units: 1, exceeds, reason: None, parked: None });
        id
    }

    /// Removes a unit, and removes the shape with its last unit.
    pub fn remove(&mut self, id: ShapeId) {
        let Some(shape) = self.all.get_mut(&id) else { return };
        shape.units = shape.units.saturating_sub(1);
        if shape.units > 0 {
            return;
        }
        self.unsettle(id);
        self.unsettled.remove(&id);
        let Some(shape) = self.all.remove(&id) else { return };
        self.by_requests.remove(&shape.requests.key());
        for (resource, amount) in shape.requests.iter() {
            remove(&mut self.by_amount, resource, amount, id);
        }
    }

    /// The shapes that fit only with the higher of two capacities of a resource.
    pub fn between(&self, resource: &str, low: Amount, high: Amount) -> Vec<ShapeId> {
        let range = (Excluded((low, ShapeId::LAST)), Included((high, ShapeId::LAST)));
        self.by_amount.get(resource).into_iter().flat_map(|ids| ids.range(range)).map(|(_, id)| *id).collect()
    }

    /// Checks a shape against the capacity. Returns whether the result is new.
    pub fn judge(&mut self, id: ShapeId, capacity: &Available) -> bool {
        let Some(shape) = self.all.get_mut(&id) else { return false };
        let exceeds = !capacity.fits(&shape.requests);
        if shape.exceeds == exceeds {
            return false;
        }
        (shape.exceeds, shape.reason) = (exceeds, None);
        self.unsettle(id);
        if exceeds {
            self.unsettled.remove(&id);
        }
        true
    }

    /// Removes and returns all shapes that may fit: the unsettled ones, and those parked at an amount that
    /// is available.
    pub fn take_candidates(&mut self, available: &Available) -> BTreeSet<ShapeId> {
        let mut woken = Vec::new();
        for (resource, ids) in &self.parked {
            let enough = ids.range(..=(available.get(resource), ShapeId::LAST));
            woken.extend(enough.map(|(_, id)| *id));
        }
        for id in woken {
            self.unsettle(id);
        }
        std::mem::take(&mut self.unsettled)
    }

    /// Parks a shape that does not fit. Returns whether its units waited for another reason before; `None`
    /// if the shape fits.
    pub fn park(&mut self, id: ShapeId, available: &Available) -> Option<bool> {
        let shape = self.all.get_mut(&id)?;
        let (resource, amount) = available.lacking(&shape.requests)?;
        insert(&mut self.parked, resource, amount, id);
        shape.parked = Some(Arc::clone(resource));
        Some(shape.give_reason(Reason::InsufficientQuota))
    }

    /// Leaves a shape that fits to the next round. Returns whether its units waited for another reason
    /// before.
    pub fn keep_out(&mut self, id: ShapeId) -> bool {
        let Some(shape) = self.all.get_mut(&id) else { return false };
        self.unsettled.insert(id);
        shape.give_reason(Reason::CapacityReserved)
    }

    fn unsettle(&mut self, id: ShapeId) {
        let Some(shape) = self.all.get_mut(&id) else { return };
        if let Some(resource) = shape.parked.take() {
            let amount = shape.requests.get(&resource);
            remove(&mut self.parked, &resource, amount, id);
        }
        self.unsettled.insert(id);
    }
}

fn insert(to: &mut ByAmount, resource: &Arc<str>, amount: Amount, id: ShapeId) {
    if let Some(ids) = to.get_mut(resource) {
        ids.insert((amount, id));
    } else {
        to.insert(Arc::clone(resource), BTreeSet::from([(amount, id)]));
    }
}

fn remove(from: &mut ByAmount, resource: &str, amount: Amount, id: ShapeId) {
    let Some(ids) = from.get_mut(resource) else { return };
    ids.remove(&(amount, id));
    if ids.is_empty() {
        from.remove(resource);
    }
}
