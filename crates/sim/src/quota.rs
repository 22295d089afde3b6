//! ResourceQuotas: the quota controller, which counts some time after something has changed, and the
//! admission of Pods against what it has counted.
//!
//! Of a Pod two things count: that it is one (`pods`, `count/pods`), and the CPU that its containers request
//! (`cpu`, `requests.cpu`). Admission adds to `status.used` at once, counting takes away later: between the
//! two, more counts as used than is.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

use crate::agenda::{Agenda, Deed};
use crate::fault::draw;
use crate::history::Change;
use crate::kind::KindId;
use crate::object::{Meta, Object};
use crate::patch::Patch;
use crate::refusal::Refusal;
use crate::store::{Key, Store};
use crate::update::Part;
use crate::world::World;

/// Amounts of what a quota limits here: Pods, and thousandths of a CPU.
pub(crate) type Uses = [i64; 2];

/// The quota controller.
#[derive(Debug)]
pub(crate) struct Quotas {
    rng: Rng,
    delay: RangeInclusive<Duration>,
    /// Namespaces that are going to be counted.
    planned: BTreeSet<String>,
    actor: Arc<str>,
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

    fn plan(&mut self, namespace: &str, now: Duration, agenda: &mut Agenda) {
        if self.planned.insert(namespace.to_owned()) {
            let at = now + draw(&mut self.rng, &self.delay);
            agenda.add(at, Deed::Count(namespace.to_owned()));
        }
    }
}

/// Counts what is used in a namespace, and writes it into its quotas.
pub(crate) fn count(world: &mut World, namespace: &str) {
    world.quotas.planned.remove(namespace);
    let (actor, time) = (Arc::clone(&world.quotas.actor), world.clock.server_now());
    let used = in_use(&world.store, namespace, time);
    for (kind, quota) in quotas(&world.store, namespace) {
        let hard = quota["spec"]["hard"].clone();
        let keys = hard.as_object().into_iter().flatten();
        let told = |key: &str| place(key).map_or_else(|| "0".to_owned(), |at| text(key, used[at]));
        let used: Map<String, Value> = keys.map(|(key, _)| (key.clone(), json!(told(key)))).collect();
        write(world, &actor, kind, &quota, &json!({ "hard": hard, "used": Value::Object(used) }));
    }
}

/// Lets a Pod pass that fits, and adds it to what is used.
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
                let told = |value: i64| text(key, value);
                let why = format!(
                    "exceeded quota: {name}, requested: {key}={}, used: {key}={}, limited: {key}={}",
                    told(asked[at]),
                    told(used),
                    told(amount(key, limit)),
                );
                return Err(Refusal::forbidden(&rules, pod.name(), &why));
            }
            status["used"][key] = json!(text(key, used + asked[at]));
        }
        writes.push((id, quota, status));
    }
    if !writes.is_empty() {
        // The Pod may be refused for something else; the real controller counts all anew now and then.
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

fn ended(pod: &Value) -> bool {
    matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"))
}

/// What a Pod, or the template of one, uses.
pub(crate) fn uses(pod: &Value) -> Uses {
    let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
    let cpu = containers.map(|container| amount("cpu", &container["resources"]["requests"]["cpu"])).sum();
    [1, cpu]
}

/// The sum of two.
pub(crate) fn plus(one: Uses, other: Uses) -> Uses {
    [one[0] + other[0], one[1] + other[1]]
}

/// Where a resource of a quota or of a unit stands in [`Uses`].
pub(crate) fn place(key: &str) -> Option<usize> {
    match key {
        "pods" | "count/pods" => Some(0),
        "cpu" | "requests.cpu" => Some(1),
        _ => None,
    }
}

/// A quantity, of CPU in thousandths. Whole numbers and thousandths are all that simulations write.
pub(crate) fn amount(key: &str, quantity: &Value) -> i64 {
    let text = quantity.as_str().map_or_else(|| quantity.to_string(), str::to_owned);
    let scale = if place(key) == Some(1) { 1000 } else { 1 };
    match text.strip_suffix('m') {
        Some(milli) => milli.parse().unwrap_or(0),
        None => text.parse::<i64>().map_or(0, |whole| whole * scale),
    }
}

fn text(key: &str, amount: i64) -> String {
    match place(key) {
        Some(1) if amount % 1000 != 0 => format!("{amount}m"),
        Some(1) => (amount / 1000).to_string(),
        _ => amount.to_string(),
    }
}
