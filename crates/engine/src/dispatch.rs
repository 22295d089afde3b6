//! The order in which Frameworks send: namespaces in turn, in each its Frameworks, and of those first the
//! records, then deletes and creates.
//!
//! The order holds keys only: the requests of a Framework are in its state. A key is in a class once, even if
//! it has much to send. A turn is [`TURN`](rotation::TURN) requests long: Pods that are created together run
//! and end together, and one status write records them. If Frameworks took turns Pod by Pod, each Framework
//! of a burst would last as long as the burst. Its status would be written again and again meanwhile.
//!
//! A namespace that has used more than its share recently is heavy. All others are light, and share evenly
//! with all heavy ones. So a Framework of one tenant waits for at most one request of another tenant's 5,000,
//! be they records, deletes or creates. While one namespace alone has requests, all of this has no effect.
//!
//! A first turn does not wait for the budget, either ([`Dispatch::part`]). The rest of a burst is kept for
//! records and first turns, and for one other request for each request of a first turn. Where several
//! namespaces send, it is kept for the light ones in the same way.

mod class;
mod namespace_usage;
mod recent;
mod rotation;
mod rotations;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use self::class::Class;
use self::namespace_usage::NamespaceUsage;
use self::recent::Recent;
use self::rotation::Rotation;
use self::rotations::Rotations;
use crate::budget::Part;
use framework_message::Key;

/// Empty rotations that are kept, so that a namespace that sends one request after another keeps its place.
const EMPTY: usize = 64;

/// The rotation of namespaces, and of the keys in each.
#[derive(Debug, Default)]
pub struct Dispatch {
    rotations: BTreeMap<Arc<str>, Rotations>,
    light: Rotation<Arc<str>>,
    heavy: Rotation<Arc<str>>,
    /// A heavy namespace goes next.
    heavy_is_next: bool,
    usage: NamespaceUsage,
    recent: Recent,
}

impl Dispatch {
    /// Puts a key into its class, unless it is in there.
    pub fn offer(&mut self, class: Class, key: &Key) {
        let rotations = self.rotations.entry(Arc::clone(&key.namespace)).or_default();
        rotations.offer(class, key, &self.recent);
        self.offer_namespace(&key.namespace);
    }

    /// Takes the key whose turn it is, and the class.
    pub fn take(&mut self) -> Option<(Class, Key)> {
        let is_heavy = self.is_heavy_next();
        let group = if is_heavy { &mut self.heavy } else { &mut self.light };
        let namespace = group.take()?;
        let rotations = self.rotations.get_mut(&namespace)?;
        let taken = rotations.take(&mut self.recent)?;
        let is_empty = rotations.is_empty();
        self.usage.charge(&namespace, self.light.len() + self.heavy.len() + 1);
        if !is_empty {
            self.offer_namespace(&namespace);
        } else if self.rotations.len() > self.light.len() + self.heavy.len() + EMPTY {
            self.rotations.retain(|_, rotations| !rotations.is_empty());
        }
        // While light namespaces have no more than a request now and then, they wait for no heavy one.
        self.heavy_is_next = !is_heavy && !self.heavy.is_empty() && !self.light.is_empty();
        Some(taken)
    }

    /// Ends the turn of a namespace that has as much on its way as it may while others wait: the API server
    /// may answer its requests slowly. If all have, none is stopped.
    pub fn let_others_pass(&mut self, is_full: impl Fn(&str) -> bool) {
        if self.light.len() + self.heavy.len() < 2 {
            return;
        }
        let is_full = |group: &Rotation<Arc<str>>| group.head().is_none_or(|namespace| is_full(namespace));
        for group in [&mut self.light, &mut self.heavy] {
            for _ in 1..group.len() {
                if !is_full(group) {
                    break;
                }
                group.pass();
            }
        }
        if self.light.is_empty() || self.heavy.is_empty() {
            return;
        }
        let full = (is_full(&self.light), is_full(&self.heavy));
        if full.0 != full.1 {
            self.heavy_is_next = full.0;
        }
    }

    /// The part of the budget that pays for the next request.
    pub fn part(&self) -> Part {
        // A light namespace, or a heavy one that a light one has let pass.
        if !self.light.is_empty() && self.light.len() + self.heavy.len() > 1 {
            return Part::Whole;
        }
        let group = if self.is_heavy_next() { &self.heavy } else { &self.light };
        let Some(namespace) = group.head() else { return Part::Upper };
        if self.usage.is_heavy(namespace) && !self.usage.is_alone(namespace) {
            return Part::Upper;
        }
        self.rotations.get(namespace).map_or(Part::Upper, Rotations::part)
    }

    /// Whether no key waits.
    pub fn is_empty(&self) -> bool {
        self.light.is_empty() && self.heavy.is_empty()
    }

    fn is_heavy_next(&self) -> bool {
        !self.heavy.is_empty() && (self.light.is_empty() || self.heavy_is_next)
    }

    fn offer_namespace(&mut self, namespace: &Arc<str>) {
        let (here, there) = if self.usage.is_heavy(namespace) {
            (&mut self.heavy, &self.light)
        } else {
            (&mut self.light, &self.heavy)
        };
        if !there.contains(namespace) {
            here.offer(namespace);
        }
    }
}

#[cfg(test)]
mod tests;
