//! The way of a request to the server and of its answer back, with the faults on it.

use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use tokio::sync::oneshot;

use crate::body::{Answer, refused, reset};
use crate::call::Call;
use crate::deed::{Deed, Parcel};
use crate::fault::Fault;
use crate::history::Exchange;
use crate::route::{Route, read_query};
use crate::server;
use crate::world::World;

/// Takes a request from a client and returns where its answer will arrive.
pub(crate) fn submit(
    world: &mut World,
    who: &Arc<str>,
    head: &Parts,
    body: Bytes,
) -> oneshot::Receiver<Answer> {
    let now = world.clock.elapsed();
    let path = head.uri.path().to_owned();
    let content_type = head.headers.get(http::header::CONTENT_TYPE);
    let call = Call {
        number: world.store.history.exchanges.len() as u64 + 1,
        who: Arc::clone(who),
        method: head.method.clone(),
        query: read_query(head.uri.query().unwrap_or("")),
        content_type: content_type.and_then(|v| v.to_str().ok()).unwrap_or("").to_owned(),
        route: Route::read(&world.store.registry, &path),
        path,
        body,
        json: std::sync::OnceLock::new(),
    };
    let (plural, name) = call.subject(&world.store.registry);
    let plan = world.faults.plan(&call, &plural, &name);
    let Call { number, method, .. } = &call;
    let target = head.uri.path_and_query().map_or("", |all| all.as_str());
    world.trace.note(now, format_args!("{number} {who} {method} {target}"));
    world.trace.absorb(&call.body);
    if let Some(fault) = &plan.fault {
        world.trace.note(now, format_args!("{number} fault {fault:?}"));
    }
    let namespace = match &call.route {
        Route::Resource { namespace, .. } => namespace.clone().unwrap_or_default(),
        _ => String::new(),
    };
    world.store.history.exchanges.push(Exchange {
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
    let (mut reply, answer) = oneshot::channel();
    if let Some(Fault::Break(_)) = plan.fault {
        let broken = std::mem::replace(&mut reply, oneshot::channel().0);
        let broken = Deed::Deliver { call: call.number, reply: broken, answer: Box::new(Err(reset())) };
        world.agenda.add(now + plan.back, broken);
    }
    let travel = plan.travel;
    let parcel = Box::new(Parcel { call, plan, reply });
    if travel.is_zero() {
        arrive(world, parcel)
    } else {
        world.agenda.add(now + travel, Deed::Arrive(parcel))
    }
    answer
}

/// Lets the server see a request.
pub(crate) fn arrive(world: &mut World, parcel: Box<Parcel>) {
    let Parcel { call, plan, reply, .. } = *parcel;
    let now = world.clock.elapsed();
    let number = call.number;
    let unapplied = matches!(plan.fault, Some(Fault::RefuseConnection | Fault::Hang(None)));
    let response = if unapplied { None } else { Some(server::answer(world, &call, plan.fault.as_ref())) };
    if let Some(response) = &response {
        let code = response.status().as_u16();
        world.trace.note(now, format_args!("{number} answered {code}"));
        if let Some(exchange) = world.store.history.exchanges.get_mut(index(number)) {
            exchange.code = Some(code);
            exchange.clock = Some(world.clock.server_now());
        }
    }
    let answer = match (plan.fault, response) {
        (Some(Fault::Hang(_)), _) => return world.silence.push(reply),
        (Some(Fault::RefuseConnection), _) => Err(refused()),
        (Some(Fault::LoseReply), _) | (_, None) => Err(reset()),
        (_, Some(response)) => Ok(response),
    };
    if plan.back.is_zero() {
        return deliver(world, number, reply, answer);
    }
    world.agenda.add(now + plan.back, Deed::Deliver { call: number, reply, answer: Box::new(answer) });
}

/// Lets the client see the answer.
pub(crate) fn deliver(world: &mut World, number: u64, reply: oneshot::Sender<Answer>, answer: Answer) {
    let now = world.clock.elapsed();
    let answered = answer.is_ok();
    world.trace.note(now, format_args!("{number} {}", if answered { "delivered" } else { "broken" }));
    if reply.send(answer).is_ok()
        && let Some(exchange) = world.store.history.exchanges.get_mut(index(number))
    {
        exchange.answered = answered.then_some(now);
        exchange.settled = Some(now);
    }
}

fn index(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX).wrapping_sub(1)
}
