//! Everything that is in the cluster, behind one lock: the one place where a change of the store reaches
//! the watches, the nodes, the garbage collector and the quota controller.

use std::sync::Arc;

use tokio::sync::{oneshot, watch};

use crate::agenda::Agenda;
use crate::body::Answer;
use crate::clock::{Clock, Dates};
use crate::collector::graph::Collector;
use crate::faults::Faults;
use crate::kubelet::nodes::Kubelet;
use crate::quota::controller::Quotas;
use crate::refusal::Refusal;
use crate::store::{Caller, Store};
use crate::trace::Trace;
use crate::watches::{Surroundings, Watches};

/// The whole cluster.
#[derive(Debug)]
pub(crate) struct World {
    pub clock: Clock,
    pub dates: Dates,
    pub store: Store,
    pub agenda: Agenda,
    pub watches: Watches,
    pub kubelet: Kubelet,
    pub collector: Collector,
    pub quotas: Quotas,
    pub faults: Faults,
    /// Whether creates of slots that were granted again are refused.
    pub has_epoch_policy: bool,
    pub trace: Trace,
    /// The newest version; tests wait for its change.
    pub revision: watch::Sender<u64>,
    /// Replies that will never come; kept so that the client sees silence and not a broken connection.
    pub silence: Vec<oneshot::Sender<Answer>>,
}

impl World {
    /// The caller of a write that happens now.
    pub(crate) fn caller(&self, actor: &Arc<str>, call: u64) -> Caller {
        let (at, time) = (self.clock.elapsed(), self.clock.server_now());
        Caller { actor: Arc::clone(actor), call, at, time }
    }

    /// Changes the store, and shows the change to every watch.
    pub(crate) fn write<T>(
        &mut self,
        actor: &Arc<str>,
        call: u64,
        write: impl FnOnce(&mut Store, &Caller) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let caller = self.caller(actor, call);
        let from = self.store.history.changes.len();
        let result = write(&mut self.store, &caller);
        self.publish(from);
        result
    }

    fn publish(&mut self, from: usize) {
        let now = self.clock.elapsed();
        for index in from..self.store.history.changes.len() {
            let change = Arc::clone(&self.store.history.changes[index]);
            let sign = if change.creates() {
                '+'
            } else if change.removes() {
                '-'
            } else {
                '~'
            };
            let (rv, plural, namespace, name) = (change.rv, &change.plural, &change.namespace, &change.name);
            let actor = &change.cause.actor;
            self.trace.note(now, format_args!("change {rv} {sign} {plural}/{namespace}/{name} by {actor}"));
            if let Some(new) = &change.new {
                self.trace.absorb(&new.json());
            }
            self.kubelet.notice(&change, &mut self.agenda);
            self.collector.notice(index, &change, &mut self.agenda);
            self.quotas.notice(&change, &mut self.agenda);
            self.with_watches(|watches, around| watches.notice(&change, around));
        }
        if from < self.store.history.changes.len() {
            self.revision.send_replace(self.store.version());
        }
    }

    /// Does something with the watches, now.
    pub(crate) fn with_watches(&mut self, act: impl FnOnce(&mut Watches, &mut Surroundings<'_>)) {
        let now = self.clock.elapsed();
        let Self { watches, store, agenda, trace, .. } = self;
        act(watches, &mut Surroundings { store, agenda, trace, now });
    }
}
