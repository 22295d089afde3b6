//! ResourceQuotas. The quota controller counts some time after a change, and admission checks Pods against
//! its count.
//!
//! Of a Pod two things count: that it is one (`pods`, `count/pods`), and the CPU that its containers request
//! (`cpu`, `requests.cpu`). Admission adds to `status.used` at once, counting takes away later: between the
//! two, more counts as used than is.

pub(crate) mod amount;
pub(crate) mod controller;

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

use self::amount::{Uses, amount, place, plus, text, uses};
use crate::kind::KindId;
use crate::object::{Meta, Object, ended};
use crate::patch::Patch;
use crate::refusal::Refusal;
use crate::store::{Key, Store};
use crate::update::Part;
use crate::world::World;

/// Counts the use in a namespace, and writes it into the namespace's quotas.
pub(crate) fn count(world: &mut World, namespace: &str) {
    world.quotas.planned.remove(namespace);
    let (actor, time) = (Arc::clone(&world.quotas.actor), world.clock.server_now());
    let used = in_use(&world.store, namespace, time);
    for (kind, quota) in quotas(&world.store, namespace) {
        let hard = quota["spec"]["hard"].clone();
        let keys = hard.as_object().into_iter().flatten();
        let shown = |key: &str| place(key).map_or_else(|| "0".to_owned(), |at| text(key, used[at]));
        let used: Map<String, Value> = keys.map(|(key, _)| (key.clone(), json!(shown(key)))).collect();
        write(world, &actor, kind, &quota, &json!({ "hard": hard, "used": Value::Object(used) }));
    }
}

/// Lets a Pod pass that fits, and adds it to the use.
///
/// # Errors
/// When a quota of the namespace is exceeded, or not counted yet.
pub(crate) fn admit(
    world: &mut World,
    actor: &Arc<str>,
    kind: KindId,
    namespace: &str,
    pod: &Value,
) -> Result<(), Refusal> {
    let rules = Arc::clone(world.store.registry.get(kind));
    if !rules.graceful {
        return Ok(());
    }
    let asked = uses(pod);
    let mut writes = Vec::new();
    for (id, quota) in quotas(&world.store, namespace) {
        let (name, mut status) = (quota.name(), quota["status"].clone());
        let Some(hard) = quota["status"]["hard"].as_object() else {
            let why = format!("status unknown for quota: {name}, resources: pods");
            return Err(Refusal::forbidden(&rules, pod.name(), &why));
        };
        for (key, limit) in hard {
            let Some(at) = place(key).filter(|at| asked[*at] > 0) else { continue };
            let used = amount(key, &status["used"][key]);
            if used + asked[at] > amount(key, limit) {
                let shown = |value: i64| text(key, value);
                let why = format!(
                    "exceeded quota: {name}, requested: {key}={}, used: {key}={}, limited: {key}={}",
                    shown(asked[at]),
                    shown(used),
                    shown(amount(key, limit)),
                );
                return Err(Refusal::forbidden(&rules, pod.name(), &why));
            }
            status["used"][key] = json!(text(key, used + asked[at]));
        }
        writes.push((id, quota, status));
    }
    if !writes.is_empty() {
        // The Pod may be refused for something else; the real controller recounts everything now and then.
        let now = world.clock.elapsed();
        world.quotas.plan(namespace, now, &mut world.agenda);
    }
    for (id, quota, status) in writes {
        write(world, actor, id, &quota, &status);
    }
    Ok(())
}

fn write(world: &mut World, actor: &Arc<str>, kind: KindId, quota: &Arc<Object>, status: &Value) {
    let key = Key::new(quota.namespace(), quota.name());
    let patch = Patch::Json(json!([{ "op": "add", "path": "/status", "value": status }]));
    // It is there, and a status is never invalid.
    let _ = world.write(actor, 0, |store, caller| store.patch(caller, kind, &key, Part::Status, &patch));
}

fn quotas(store: &Store, namespace: &str) -> Vec<(KindId, Arc<Object>)> {
    let Some(kind) = store.registry.find_plural("resourcequotas") else { return Vec::new() };
    let own = store.all(kind).filter(|quota| quota.namespace() == namespace);
    own.map(|quota| (kind, Arc::clone(quota))).collect()
}

fn in_use(store: &Store, namespace: &str, time: Timestamp) -> Uses {
    let Some(kind) = store.registry.find_plural("pods") else { return Uses::default() };
    let counted = store.all(kind).filter(|pod| pod.namespace() == namespace && counts(pod, time));
    counted.map(|pod| uses(pod)).fold(Uses::default(), plus)
}

/// Whether a Pod still counts: not when it has ended, nor when it hangs beyond the grace of its deletion.
fn counts(pod: &Value, time: Timestamp) -> bool {
    let grace = pod["metadata"]["deletionGracePeriodSeconds"].as_i64();
    let deletion: Option<Timestamp> = pod.meta("deletionTimestamp").parse().ok();
    let hangs = deletion.zip(grace).is_some_and(|(at, grace)| time > at + SignedDuration::from_secs(grace));
    !ended(pod) && !hangs
}
