//! When the quota controller counts the use in a namespace.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;

use crate::agenda::Agenda;
use crate::deed::Deed;
use crate::duration::draw;
use crate::history::Change;
use crate::object::{Object, ended};

/// The quota controller.
#[derive(Debug)]
pub(crate) struct Quotas {
    rng: Rng,
    delay: RangeInclusive<Duration>,
    /// Namespaces that are going to be counted.
    pub(super) planned: BTreeSet<String>,
    pub(super) actor: Arc<str>,
}

impl Quotas {
    pub(crate) fn new(delay: RangeInclusive<Duration>, rng: Rng) -> Self {
        Self { rng, delay, planned: BTreeSet::new(), actor: "quota-controller".into() }
    }

    /// Plans a count if a change asks for one.
    pub(crate) fn notice(&mut self, change: &Change, agenda: &mut Agenda) {
        let of_pod = change.is("pods") && (change.removes() || ended(change.object()));
        let spec = |object: &Option<Arc<Object>>| object.as_ref().map(|object| object["spec"].clone());
        let of_quota = change.is("resourcequotas") && spec(&change.old) != spec(&change.new);
        if of_pod || of_quota {
            self.plan(&change.namespace, change.at, agenda);
        }
    }

    /// Plans a count of a namespace, unless one is planned.
    pub(super) fn plan(&mut self, namespace: &str, now: Duration, agenda: &mut Agenda) {
        if self.planned.insert(namespace.to_owned()) {
            let at = now + draw(&mut self.rng, &self.delay);
            agenda.add(at, Deed::Count(namespace.to_owned()));
        }
    }
}
