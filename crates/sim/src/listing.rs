//! LIST and WATCH: pages of one version, tokens that continue them, and the opening of streams.

use std::sync::Arc;
use std::time::Duration;

use http::{Response, StatusCode};
use serde_json::json;
use tokio::sync::mpsc;

use crate::body::{Body, Events};
use crate::call::Call;
use crate::deed::Deed;
use crate::faults::WatchPlan;
use crate::kind::KindId;
use crate::object::Object;
use crate::refusal::Refusal;
use crate::reply::{reply, respond};
use crate::route::Route;
use crate::selector::Selector;
use crate::store::{Key, Query};
use crate::watch::{Ending, Watch};
use crate::world::World;

/// How long a watch lives that does not say so.
const DEFAULT_LIFE: Duration = Duration::from_secs(45 * 60);

/// The parameters of a LIST or a WATCH.
struct Ask {
    kind: KindId,
    namespace: Option<String>,
    selector: Selector,
    version: Option<u64>,
}

fn ask(call: &Call) -> Result<Ask, Refusal> {
    let Route::Resource { kind, namespace, .. } = &call.route else { return Err(Refusal::no_such_path()) };
    let text = |name| call.param(name).unwrap_or("");
    let selector = Selector::parse(text("labelSelector"), text("fieldSelector"))
        .map_err(|why| Refusal::bad_request(format!("unable to parse requirement: {why}")))?;
    let version = match call.param("resourceVersion") {
        None => None,
        Some(text) => Some(text.parse().map_err(|_| {
            Refusal::bad_request(format!("resourceVersion: Invalid value: {text:?}: not a number"))
        })?),
    };
    Ok(Ask { kind: *kind, namespace: namespace.clone(), selector, version })
}

/// Answers a LIST.
pub(crate) fn list(world: &mut World, call: &Call) -> Result<Response<Body>, Refusal> {
    let Ask { kind, namespace, selector, version } = ask(call)?;
    let selective = !selector.is_empty();
    let mut query = Query { namespace, selector, ..Query::default() };
    query.limit = limit(call)?;
    check_match(call)?;
    let current = world.store.version();
    match (call.param("continue"), version) {
        (Some(token), _) => {
            let (version, after) = read_token(token).ok_or_else(|| {
                Refusal::bad_request("continue key is not valid: the token is not one of this server")
            })?;
            (query.version, query.after) = (Some(version), Some(after));
        }
        (None, Some(0)) => {
            // Any state will do; the real server's cache then ignores the limit.
            query.version = stale_version(world);
            query.limit = None;
        }
        (None, Some(asked)) if asked > current => return Err(Refusal::too_large(asked, current)),
        (None, Some(asked)) if call.param("resourceVersionMatch") == Some("Exact") => {
            query.version = Some(asked);
        }
        (None, _) => {}
    }
    let page = world.store.list(kind, &query)?;
    let rules = world.store.registry.get(kind);
    let mut metadata = json!({ "resourceVersion": page.version.to_string() });
    if let Some((key, remaining)) = &page.next {
        metadata["continue"] = json!(format!("{}:{}/{}", page.version, key.namespace, key.name));
        if !selective {
            metadata["remainingItemCount"] = json!(remaining);
        }
    }
    let mut body = format!(
        "{{\"kind\":\"{}List\",\"apiVersion\":\"{}\",\"metadata\":{metadata},\"items\":[",
        rules.kind,
        rules.api_version()
    )
    .into_bytes();
    for (index, item) in page.items.iter().enumerate() {
        if index > 0 {
            body.push(b',');
        }
        list_item(item, !rules.custom, &mut body);
    }
    body.extend_from_slice(b"]}");
    world.trace.absorb(&body);
    Ok(reply(world, StatusCode::OK, body.into()))
}

fn limit(call: &Call) -> Result<Option<usize>, Refusal> {
    let Some(text) = call.param("limit") else { return Ok(None) };
    let limit: usize =
        text.parse().map_err(|_| Refusal::bad_request(format!("limit: Invalid value: {text:?}")))?;
    Ok(Some(limit).filter(|limit| *limit > 0))
}

/// Refuses a `resourceVersionMatch` that does not fit the other parameters.
fn check_match(call: &Call) -> Result<(), Refusal> {
    let Some(mode) = call.param("resourceVersionMatch") else { return Ok(()) };
    let why = match (mode, call.param("resourceVersion")) {
        _ if call.param("continue").is_some() => "Forbidden: it is forbidden with a continue token",
        ("Exact" | "NotOlderThan", None) => "Forbidden: it is forbidden without a resourceVersion",
        ("Exact", Some("0")) => "Forbidden: Exact is forbidden for resourceVersion 0",
        ("Exact" | "NotOlderThan", Some(_)) => return Ok(()),
        _ => "Unsupported value: supported values: \"Exact\", \"NotOlderThan\"",
    };
    Err(Refusal::unprocessable(&format!("ListOptions is invalid: resourceVersionMatch: {why}")))
}

fn read_token(token: &str) -> Option<(u64, Key)> {
    let (version, key) = token.split_once(':')?;
    let (namespace, name) = key.split_once('/')?;
    Some((version.parse().ok()?, Key::new(namespace, name)))
}

/// The version of a read that accepts any: the newest one that is as old as the drawn staleness.
fn stale_version(world: &mut World) -> Option<u64> {
    let age = world.faults.staleness();
    if age.is_zero() {
        return None;
    }
    let until = world.clock.elapsed().saturating_sub(age);
    let changes = &world.store.history.changes;
    let seen = changes.partition_point(|change| change.at <= until);
    let version = seen.checked_sub(1).and_then(|index| changes.get(index)).map_or(0, |change| change.rv);
    Some(version.max(world.store.compacted()))
}

/// Opens a watch.
pub(crate) fn watch(world: &mut World, call: &Call, gone: bool) -> Result<Response<Body>, Refusal> {
    let Ask { kind, namespace, selector, version } = ask(call)?;
    let now = world.clock.elapsed();
    let (sender, receiver) = mpsc::unbounded_channel();
    let plan = world.faults.watch_plan();
    let seconds = call.param("timeoutSeconds").and_then(|text| text.parse().ok());
    let deadline = now + seconds.map_or(DEFAULT_LIFE, Duration::from_secs);
    let initial = call.flag("sendInitialEvents");
    let asked = version.filter(|asked| *asked > 0 && !initial);
    let mut watch = Watch {
        id: call.number,
        who: Arc::clone(&call.who),
        kind,
        namespace,
        selector,
        next: 0,
        seen: 0,
        lag: plan.lag,
        frozen_until: Duration::ZERO,
        bookmarks: call.flag("allowWatchBookmarks"),
        deadline,
        pump_at: None,
        sender,
    };
    let oldest = world.store.compacted();
    let expired = asked.filter(|asked| *asked < oldest);
    if gone || expired.is_some() {
        let refusal = Refusal::expired(asked.unwrap_or(0), oldest);
        watch.show("ERROR", refusal.to_status().to_string().as_bytes(), oldest, now, &mut world.trace);
        return Ok(respond(world, StatusCode::OK, Body::Stream(Events(receiver))));
    }
    match asked {
        Some(asked) => {
            watch.next = world.store.history.changes.partition_point(|change| change.rv <= asked);
            watch.seen = asked;
        }
        None => show_state(world, &mut watch, version == Some(0), initial)?,
    }
    open(world, watch, &plan);
    Ok(respond(world, StatusCode::OK, Body::Stream(Events(receiver))))
}

/// Shows the state that a watch without a version begins with.
fn show_state(world: &mut World, watch: &mut Watch, any: bool, initial: bool) -> Result<(), Refusal> {
    let now = world.clock.elapsed();
    let version = if any { stale_version(world) } else { None };
    let query = Query {
        namespace: watch.namespace.clone(),
        selector: watch.selector.clone(),
        version,
        ..Query::default()
    };
    let page = world.store.list(watch.kind, &query)?;
    watch.show_all(&page.items, now, &mut world.trace);
    watch.next = world.store.history.changes.partition_point(|change| change.rv <= page.version);
    watch.seen = page.version;
    if initial {
        watch.bookmark(world.store.registry.get(watch.kind), true, now, &mut world.trace);
    }
    Ok(())
}

fn open(world: &mut World, watch: Watch, plan: &WatchPlan) {
    let (id, now) = (watch.id, world.clock.elapsed());
    world.agenda.add(watch.deadline, Deed::Close(id, Ending::Clean));
    if let Some((after, ending)) = plan.close {
        world.agenda.add(now + after, Deed::Close(id, ending));
    }
    if let Some((after, time)) = plan.freeze {
        world.agenda.add(now + after, Deed::Freeze(id, time));
    }
    world.with_watches(|watches, around| watches.open(watch, around));
}

/// Serializes an item of a list: those of built-in kinds do not repeat apiVersion and kind.
fn list_item(object: &Arc<Object>, bare: bool, out: &mut Vec<u8>) {
    if !bare {
        out.extend_from_slice(&object.json());
        return;
    }
    out.push(b'{');
    let fields = object.as_object().into_iter().flatten();
    let fields = fields.filter(|(field, _)| !matches!(field.as_str(), "apiVersion" | "kind"));
    for (index, (field, value)) in fields.enumerate() {
        if index > 0 {
            out.push(b',');
        }
        // Writing a JSON value into a Vec cannot fail.
        let _ = serde_json::to_writer(&mut *out, field);
        out.push(b':');
        let _ = serde_json::to_writer(&mut *out, value);
    }
    out.push(b'}');
}
