//! The API server's answers: dispatch by verb, and the faults that are answers.

use std::sync::Arc;

use http::{Response, StatusCode};
use serde_json::{Value, json};

use crate::admission;
use crate::body::Body;
use crate::call::Call;
use crate::deletion::DeleteOptions;
use crate::discovery;
use crate::fault::Fault;
use crate::history::Verb;
use crate::kind::KindId;
use crate::listing;
use crate::object::Meta;
use crate::patch::Patch;
use crate::quota;
use crate::refusal::Refusal;
use crate::reply::{refuse, reply};
use crate::route::Route;
use crate::update::Part;
use crate::world::World;

/// Answers a request, changing the world as it asks.
pub(crate) fn answer(world: &mut World, call: &Call, fault: Option<&Fault>) -> Response<Body> {
    let result = match injected(world, call, fault) {
        Some(refusal) => Err(refusal),
        None => handle(world, call, fault),
    };
    let result = match fault {
        Some(Fault::Timeout { .. }) => Err(Refusal::timeout()),
        _ => result,
    };
    result.unwrap_or_else(|refusal| refuse(world, &refusal))
}

fn handle(world: &mut World, call: &Call, fault: Option<&Fault>) -> Result<Response<Body>, Refusal> {
    match (&call.route, call.verb()) {
        (Route::Version, _) => {
            let version = json!({ "major": "1", "minor": "36", "gitVersion": "v1.36.3-sim", "gitCommit": "",
                "gitTreeState": "clean", "buildDate": "2026-01-01T00:00:00Z", "goVersion": "", "compiler": "",
                "platform": "sim/one-thread" });
            Ok(reply(world, StatusCode::OK, version.to_string().into()))
        }
        (Route::Health, _) => Ok(reply(world, StatusCode::OK, "ok".into())),
        (Route::Resources { group, version }, _) => {
            let resources = discovery::resources(&world.store.registry, group, version);
            Ok(reply(world, StatusCode::OK, resources.to_string().into()))
        }
        (_, Verb::Get) => {
            let (kind, key, _) = call.route.key()?;
            let object = world.store.expect(kind, &key)?;
            Ok(reply(world, StatusCode::OK, object.json()))
        }
        (_, Verb::List) => listing::list(world, call),
        (_, Verb::Watch) => listing::watch(world, call, fault == Some(&Fault::Gone)),
        (_, Verb::Create) => create(world, call),
        (_, Verb::Update | Verb::UpdateStatus) => {
            let (kind, key, status) = call.route.key()?;
            let body = call.read_json()?;
            let existed = world.store.get(kind, &key).is_some();
            let object = world.write(&call.who, call.number, |store, caller| {
                store.update(caller, kind, &key, part(status), body)
            })?;
            let code = if existed { StatusCode::OK } else { StatusCode::CREATED };
            Ok(reply(world, code, object.json()))
        }
        (_, Verb::Patch | Verb::PatchStatus) => {
            let (kind, key, status) = call.route.key()?;
            let patch = read_patch(call)?;
            let object = world.write(&call.who, call.number, |store, caller| {
                store.patch(caller, kind, &key, part(status), &patch)
            })?;
            Ok(reply(world, StatusCode::OK, object.json()))
        }
        (_, Verb::Delete) => delete(world, call),
        (Route::Unknown, _) => Err(Refusal::no_such_path()),
        (_, Verb::Other) => Err(Refusal::method_not_allowed()),
    }
}

fn create(world: &mut World, call: &Call) -> Result<Response<Body>, Refusal> {
    let Route::Resource { kind, namespace, .. } = &call.route else { return Err(Refusal::no_such_path()) };
    let body = call.read_json()?;
    let rules = Arc::clone(world.store.registry.get(*kind));
    if rules.namespaced != namespace.is_some() {
        return Err(Refusal::method_not_allowed());
    }
    let namespace = namespace.as_deref().unwrap_or("");
    admission::admit_epoch(world, call, *kind, body.name())?;
    admission::admit(world, *kind, namespace, &body)?;
    quota::admit(world, &call.who, *kind, namespace, &body)?;
    let object =
        world.write(&call.who, call.number, |store, caller| store.create(caller, *kind, namespace, body))?;
    if rules.plural == "customresourcedefinitions"
        && let Some(defined) = crate::kind::Kind::of_definition(&object)
    {
        world.store.add_kind(defined);
    }
    Ok(reply(world, StatusCode::CREATED, object.json()))
}

fn delete(world: &mut World, call: &Call) -> Result<Response<Body>, Refusal> {
    let (kind, key, _) = call.route.key()?;
    let body = if call.body.is_empty() { Value::Null } else { call.read_json()? };
    let mut options = DeleteOptions::read(&body);
    options.grace = options.grace.or(call.param("gracePeriodSeconds").and_then(|text| text.parse().ok()));
    options.propagation = options.propagation.or(call.param("propagationPolicy").map(str::to_owned));
    let deletion =
        world.write(&call.who, call.number, |store, caller| store.delete(caller, kind, &key, &options))?;
    let rules = world.store.registry.get(kind);
    if !deletion.gone || rules.graceful {
        return Ok(reply(world, StatusCode::OK, deletion.object.json()));
    }
    let mut details = json!({ "name": key.name, "kind": rules.plural, "uid": deletion.object.uid() });
    if !rules.group.is_empty() {
        details["group"] = json!(rules.group);
    }
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details,
    });
    Ok(reply(world, StatusCode::OK, status.to_string().into()))
}

/// The refusal that a fault stands for, if it is one.
fn injected(world: &mut World, call: &Call, fault: Option<&Fault>) -> Option<Refusal> {
    let registry = &world.store.registry;
    let (kind, name) = match &call.route {
        Route::Resource { kind, name, .. } => {
            (registry.get(*kind), name.clone().unwrap_or_else(|| call.posted_name()))
        }
        _ => (registry.get(KindId(0)), String::new()),
    };
    Some(match fault? {
        Fault::Conflict => Refusal::stale(kind, &name),
        Fault::TooManyRequests(seconds) => Refusal::too_many_requests(*seconds, world.faults.coin()),
        Fault::InternalError => Refusal::internal("etcdserver: request timed out"),
        Fault::Unavailable => Refusal::unavailable(),
        Fault::Timeout { applied: false } => Refusal::timeout(),
        Fault::Gone if call.verb() == Verb::List => Refusal::expired_token(),
        Fault::Quota => admission::quota_refusal(kind, &name, 0, 0),
        Fault::Forbidden => Refusal::forbidden(kind, &name, "refused by a simulated admission plugin"),
        Fault::Invalid => {
            let why = "Invalid value: \"\": refused by the simulation";
            Refusal::invalid(kind, &name, "FieldValueInvalid", "spec", why)
        }
        _ => return None,
    })
}

fn part(status: bool) -> Part {
    if status { Part::Status } else { Part::Main }
}

fn read_patch(call: &Call) -> Result<Patch, Refusal> {
    let body = call.read_json()?;
    match call.content_type.split(';').next().unwrap_or("").trim() {
        "application/merge-patch+json" | "application/strategic-merge-patch+json" => Ok(Patch::Merge(body)),
        "application/json-patch+json" => Ok(Patch::Json(body)),
        _ => Err(Refusal::unsupported_media_type()),
    }
}
