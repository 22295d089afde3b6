//! Everything that is in the cluster, behind one lock: the one place where requests, time, nodes and the
//! garbage collector meet the store.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use tokio::sync::{Notify, oneshot, watch};

use crate::agenda::{Agenda, Deed};
use crate::call::{Answer, Call, Parcel, Route, read_query};
use crate::clock::{Clock, Dates};
use crate::collector::{self, Collector};
use crate::fault::{Fault, Faults, subject};
use crate::history::Exchange;
use crate::http::{refused, reset};
use crate::kubelet::{self, Kubelet};
use crate::quota::{self, Quotas};
use crate::refusal::Refusal;
use crate::server;
use crate::store::{Caller, Store};
use crate::trace::Trace;
use crate::watch::{Ending, Piece, WatchId, Watches};

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
    pub trace: Trace,
    pub revision: watch::Sender<u64>,
    /// Replies that will never come; kept so that the client sees silence and not a broken connection.
    silence: Vec<oneshot::Sender<Answer>>,
}

/// What a world is furnished with when it begins.
#[derive(Debug)]
pub(crate) struct Fittings {
    pub clock: Clock,
    pub store: Store,
    pub agenda: Agenda,
    pub kubelet: Kubelet,
    pub collector: Collector,
    pub quotas: Quotas,
    pub faults: Faults,
    pub trace: Trace,
}

impl World {
    pub(crate) fn new(fittings: Fittings) -> Self {
        let Fittings { clock, store, agenda, kubelet, collector, quotas, faults, trace } = fittings;
        let revision = watch::Sender::new(store.version());
        let (dates, watches, silence) = Default::default();
        Self {
            dates,
            clock,
            store,
            agenda,
            watches,
            kubelet,
            collector,
            quotas,
            faults,
            trace,
            revision,
            silence,
        }
    }

    /// Who asks, now.
    pub(crate) fn caller(&self, actor: &Arc<str>, call: u64) -> Caller {
        let (at, time) = (self.clock.elapsed(), self.clock.server_now());
        Caller { actor: Arc::clone(actor), call, at, time }
    }

    /// Changes the store, and lets everybody who watches know what changed.
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
            let watching = |watch: &&crate::watch::Watch| watch.kind == change.kind;
            let ids: Vec<WatchId> =
                self.watches.open.values().filter(watching).map(|watch| watch.id).collect();
            for id in ids {
                self.pump_when_due(id, now);
            }
        }
        if from < self.store.history.changes.len() {
            self.revision.send_replace(self.store.version());
        }
    }

    fn pump_when_due(&mut self, id: WatchId, now: Duration) {
        let Some(watch) = self.watches.open.get_mut(&id) else { return };
        if watch.lag.is_zero() && watch.frozen_until <= now {
            self.pump(id);
        } else if watch.pump_at.is_none() {
            let at = (now + watch.lag).max(watch.frozen_until);
            watch.pump_at = Some(at);
            self.agenda.add(at, Deed::Pump(id));
        }
    }

    /// Lets a watch show what is due.
    pub(crate) fn pump(&mut self, id: WatchId) {
        let Some(watch) = self.watches.open.get_mut(&id) else { return };
        let now = self.clock.elapsed();
        let version = self.store.version();
        let (again, listening) = watch.pump(&self.store.history.changes, version, now, &mut self.trace);
        if let Some(at) = again {
            watch.pump_at = Some(at);
            self.agenda.add(at, Deed::Pump(id));
        }
        if !listening {
            self.watches.open.remove(&id);
        }
    }

    /// Ends a watch.
    pub(crate) fn close(&mut self, id: WatchId, ending: Ending) {
        let Some(watch) = self.watches.open.remove(&id) else { return };
        let now = self.clock.elapsed();
        self.trace.note(now, format_args!("watch {id} ends {ending:?}"));
        match ending {
            Ending::Clean => {}
            Ending::Broken => drop(watch.sender.send(Piece::Break)),
            Ending::Gone => {
                let status = Refusal::expired(watch.seen, self.store.compacted()).to_status();
                watch.show("ERROR", status.to_string().as_bytes(), watch.seen, now, &mut self.trace);
            }
        }
    }

    /// Takes a request from a client and returns where its answer will arrive.
    pub(crate) fn submit(&mut self, who: &Arc<str>, head: &Parts, body: Bytes) -> oneshot::Receiver<Answer> {
        let now = self.clock.elapsed();
        let path = head.uri.path().to_owned();
        let content_type = head.headers.get(http::header::CONTENT_TYPE);
        let call = Call {
            number: self.store.history.exchanges.len() as u64 + 1,
            who: Arc::clone(who),
            method: head.method.clone(),
            query: read_query(head.uri.query().unwrap_or("")),
            content_type: content_type.and_then(|v| v.to_str().ok()).unwrap_or("").to_owned(),
            route: Route::read(&self.store.registry, &path),
            path,
            body,
            json: std::sync::OnceLock::new(),
        };
        let (plural, name) = self.subject(&call);
        let plan = self.faults.plan(&call, &plural, &name);
        let Call { number, method, .. } = &call;
        let target = head.uri.path_and_query().map_or("", |all| all.as_str());
        self.trace.note(now, format_args!("{number} {who} {method} {target}"));
        self.trace.absorb(&call.body);
        if let Some(fault) = &plan.fault {
            self.trace.note(now, format_args!("{number} fault {fault:?}"));
        }
        let namespace = match &call.route {
            Route::Resource { namespace, .. } => namespace.clone().unwrap_or_default(),
            _ => String::new(),
        };
        self.store.history.exchanges.push(Exchange {
            call: call.number,
            who: Arc::clone(who),
            at: now,
            verb: call.verb(),
            plural: plural.into(),
            namespace,
            name,
            code: None,
            clock: None,
            answered: None,
            settled: None,
        });
        let (reply, answer) = oneshot::channel();
        let travel = plan.travel;
        let parcel = Box::new(Parcel { call, plan, reply });
        if travel.is_zero() {
            self.arrive(parcel)
        } else {
            self.agenda.add(now + travel, Deed::Arrive(parcel))
        }
        answer
    }

    fn subject(&self, call: &Call) -> (String, String) {
        let Route::Resource { kind, name, .. } = &call.route else { return subject(call, None, "") };
        let posted = || call.posted_name();
        let in_body =
            if name.is_none() && call.method == http::Method::POST { posted() } else { String::new() };
        subject(call, Some(&self.store.registry.get(*kind).plural), &in_body)
    }

    fn arrive(&mut self, parcel: Box<Parcel>) {
        let Parcel { call, plan, reply, .. } = *parcel;
        let now = self.clock.elapsed();
        let number = call.number;
        let unapplied = matches!(plan.fault, Some(Fault::RefuseConnection | Fault::Hang(None)));
        let response = if unapplied { None } else { Some(server::answer(self, &call, plan.fault.as_ref())) };
        if let Some(response) = &response {
            let code = response.status().as_u16();
            self.trace.note(now, format_args!("{number} answered {code}"));
            if let Some(exchange) = self.store.history.exchanges.get_mut(index(number)) {
                exchange.code = Some(code);
                exchange.clock = Some(self.clock.server_now());
            }
        }
        let answer = match (plan.fault, response) {
            (Some(Fault::Hang(_)), _) => return self.silence.push(reply),
            (Some(Fault::RefuseConnection), _) => Err(refused()),
            (Some(Fault::LoseReply), _) | (_, None) => Err(reset()),
            (_, Some(response)) => Ok(response),
        };
        if plan.back.is_zero() {
            return self.deliver(number, reply, answer);
        }
        self.agenda.add(now + plan.back, Deed::Deliver { call: number, reply, answer: Box::new(answer) });
    }

    fn deliver(&mut self, number: u64, reply: oneshot::Sender<Answer>, answer: Answer) {
        let now = self.clock.elapsed();
        let answered = answer.is_ok();
        self.trace.note(now, format_args!("{number} {}", if answered { "delivered" } else { "broken" }));
        if reply.send(answer).is_ok()
            && let Some(exchange) = self.store.history.exchanges.get_mut(index(number))
        {
            exchange.answered = answered.then_some(now);
            exchange.settled = Some(now);
        }
    }

    /// Does everything that is due by now.
    fn run_due(&mut self) {
        while let Some(deed) = self.agenda.take_due(self.clock.elapsed()) {
            match deed {
                Deed::Arrive(parcel) => self.arrive(parcel),
                Deed::Deliver { call, reply, answer } => self.deliver(call, reply, *answer),
                Deed::Pump(id) => self.pump(id),
                Deed::Bookmark(id) => server::bookmark(self, id),
                Deed::Freeze(id, time) => self.freeze(id, time),
                Deed::Close(id, ending) => self.close(id, ending),
                Deed::Pod(pod, step) => kubelet::step(self, &pod, step),
                Deed::Collect(errand) => collector::run(self, errand),
                Deed::Count(namespace) => quota::count(self, &namespace),
            }
        }
    }

    /// The open watches of one client on one kind.
    pub(crate) fn watches_of(&self, who: &str, plural: &str) -> Vec<WatchId> {
        let fits = |watch: &&crate::watch::Watch| {
            &*watch.who == who && self.store.registry.get(watch.kind).plural == plural
        };
        self.watches.open.values().filter(fits).map(|watch| watch.id).collect()
    }

    /// Lets a watch stand still for that long from now.
    pub(crate) fn freeze(&mut self, id: WatchId, time: Duration) {
        let now = self.clock.elapsed();
        if let Some(watch) = self.watches.open.get_mut(&id) {
            self.trace.note(now, format_args!("watch {id} frozen for {} ms", time.as_millis()));
            watch.frozen_until = watch.frozen_until.max(now + time);
        }
    }
}

fn index(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX).wrapping_sub(1)
}

/// Lets time drive the world: sleeps until the next deed is due, for as long as the world exists.
pub(crate) async fn drive(world: Weak<Mutex<World>>, wake: Arc<Notify>) {
    loop {
        let Some(strong) = world.upgrade() else { return };
        let (due, clock) = {
            let mut world = strong.lock().unwrap_or_else(PoisonError::into_inner);
            world.run_due();
            (world.agenda.next(), world.clock.clone())
        };
        drop(strong);
        match due {
            Some(due) => {
                let _ = tokio::time::timeout_at(clock.instant(due), wake.notified()).await;
            }
            None => wake.notified().await,
        }
    }
}
