//! The accounts of a namespace's quotas at every resourceVersion: held, used by others, and the limit.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::history;
use crate::object::{Meta, Object, ended};
use crate::quota::amount::{Uses, amount, place, plus, uses};
use crate::store::Key;

/// Limits, one for each limited amount; `None`: not limited.
pub(super) type Limit = [Option<i64>; 2];

/// The amounts that are held and used in a namespace at a moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct State {
    /// Held by released units: the requests of their jobs, at most as much as they were given, and at least
    /// the use of the jobs' Pods.
    pub held: Uses,
    /// The use of all other Pods: of foreign ones as long as quotas count them.
    pub others: Uses,
    /// The limits of the quotas, as the quota controller has stored them.
    pub limit: Limit,
}

impl State {
    pub fn sum(&self) -> Uses {
        plus(self.held, self.others)
    }
}

/// The effect of a change on its namespace.
#[derive(Debug)]
pub(super) struct AccountChange {
    pub before: State,
    pub after: State,
    /// Whether it released a unit.
    pub release: bool,
}

/// A Pod that has not ended.
#[derive(Debug)]
struct Pod {
    /// UID of the object that controls it, empty if none does.
    controller: String,
    uses: Uses,
    /// When quotas cease to count it, as it is being deleted.
    lapses: Option<Timestamp>,
    /// Whether quotas count it.
    is_counted: bool,
}

impl Pod {
    fn of(pod: &Value, now: Timestamp) -> Self {
        let grace = pod["metadata"]["deletionGracePeriodSeconds"].as_i64();
        let deletion: Option<Timestamp> = pod.meta("deletionTimestamp").parse().ok();
        let lapses = deletion.zip(grace).map(|(at, grace)| at + SignedDuration::from_secs(grace));
        Self {
            controller: controller(pod).unwrap_or("").to_owned(),
            uses: uses(pod),
            lapses,
            is_counted: lapses.is_none_or(|at| now <= at),
        }
    }
}

/// The objects that decide how much of a quota is held.
#[derive(Debug, Default)]
pub(super) struct Accounts {
    frameworks: BTreeMap<Key, Arc<Object>>,
    units: BTreeMap<Key, Arc<Object>>,
    queues: BTreeSet<Key>,
    classes: BTreeSet<String>,
    quotas: BTreeMap<Key, Limit>,
    /// Pods that have not ended.
    pods: BTreeMap<Key, Pod>,
    /// UIDs of ConfigMaps and Jobs, with that of the Framework or JobSet that controls them. They are kept
    /// when the object is gone, as its Pods may still be there.
    controllers: BTreeMap<String, String>,
    states: BTreeMap<String, State>,
    /// The past states of each namespace, each with its end.
    past: BTreeMap<String, Vec<(Duration, State)>>,
    /// UIDs of Frameworks whose unit was released, with the least that each of the TaskRoles asked for since.
    /// The growth after that has units of its own, also of one TaskRole while another one goes.
    released: BTreeMap<String, BTreeMap<String, Uses>>,
}

impl Accounts {
    /// Takes a change in; `None` when no account changes by it.
    pub fn take(&mut self, change: &Arc<history::Change>) -> Option<AccountChange> {
        self.let_pods_lapse(change);
        let key = Key::new(&change.namespace, &change.name);
        let release = match &*change.plural {
            "frameworks" => {
                let same =
                    change.old.as_ref().zip(change.new.as_ref()).is_some_and(|(old, new)| {
                        old["spec"] == new["spec"] && has_ended(old) == has_ended(new)
                    });
                keep(&mut self.frameworks, key, change);
                if same {
                    return None;
                }
                if let (Some(least), Some(new)) = (self.released.get_mut(&change.uid), &change.new) {
                    shrink(least, new);
                }
                false
            }
            "queueunits" => {
                let phases = [&change.old, &change.new]
                    .map(|unit| unit.as_ref().map(|unit| phase(unit) == "Dequeued"));
                keep(&mut self.units, key, change);
                if phases[0] == phases[1] {
                    return None;
                }
                let release = phases[1] == Some(true);
                if release && let Some(uid) = job_uid(change.object()) {
                    let job = self.framework(change.object());
                    let roles = job.into_iter().flat_map(|job| roles(job));
                    let roles = roles.map(|(role, wanted)| (role.to_owned(), wanted)).collect();
                    if !is_of_growth(change.object()) {
                        self.released.insert(uid.to_owned(), roles);
                    }
                }
                release
            }
            "resourcequotas" => {
                match change.new.as_ref().map(|quota| limit(quota)) {
                    Some(limit) => self.quotas.insert(key, limit),
                    None => self.quotas.remove(&key),
                };
                false
            }
            "pods" => {
                self.take_pod(key, change);
                false
            }
            "configmaps" | "jobs" => {
                self.take_controller(change)?;
                false
            }
            "queues" => {
                if change.removes() {
                    self.queues.remove(&key)
                } else {
                    self.queues.insert(key)
                };
                return None;
            }
            "priorityclasses" => {
                if change.removes() {
                    self.classes.remove(&change.name);
                } else {
                    self.classes.insert(change.name.clone());
                }
                return None;
            }
            _ => return None,
        };
        let (before, after) = self.turn_over(change);
        Some(AccountChange { before, after, release })
    }

    fn take_pod(&mut self, key: Key, change: &history::Change) {
        match change.new.as_ref().filter(|pod| !ended(pod)) {
            Some(pod) => self.pods.insert(key, Pod::of(pod, change.time)),
            None => self.pods.remove(&key),
        };
    }

    /// `None`: the object is controlled by the same one as before.
    fn take_controller(&mut self, change: &history::Change) -> Option<()> {
        let now = controller(change.new.as_ref()?).map(str::to_owned);
        if self.controllers.get(&change.uid) == now.as_ref() {
            return None;
        }
        match now {
            Some(now) => self.controllers.insert(change.uid.clone(), now),
            None => self.controllers.remove(&change.uid),
        };
        Some(())
    }

    /// Quotas have ceased to count Pods that hang in their deletion, until the change comes.
    fn let_pods_lapse(&mut self, change: &history::Change) {
        let mut has_lapsed = false;
        for (_, pod) in self.pods.iter_mut().filter(|(key, _)| key.namespace == change.namespace) {
            if pod.is_counted && pod.lapses.is_some_and(|at| change.time > at) {
                (pod.is_counted, has_lapsed) = (false, true);
            }
        }
        if has_lapsed {
            self.turn_over(change);
        }
    }

    /// The state of the change's namespace before and after the change.
    fn turn_over(&mut self, change: &history::Change) -> (State, State) {
        let before = self.states.get(&change.namespace).copied().unwrap_or_default();
        let after = self.state(&change.namespace);
        if before != after {
            self.states.insert(change.namespace.clone(), after);
            self.past.entry(change.namespace.clone()).or_default().push((change.at, before));
        }
        (before, after)
    }

    /// The highest limit and the least use by others that the author of this change can have known.
    pub fn seen(&self, change: &history::Change, at: usize, blind: Duration) -> (i64, i64) {
        let now = self.states.get(&change.namespace).copied().unwrap_or_default();
        let since = change.at.saturating_sub(blind);
        let past = self.past.get(&change.namespace).into_iter().flatten().rev();
        let recent = past.take_while(|(until, _)| *until > since).map(|(_, state)| *state);
        let states = || std::iter::once(now).chain(recent.clone());
        let limit = states().map(|state| state.limit[at].unwrap_or(i64::MAX / 2)).max();
        let others = states().map(|state| state.others[at]).min();
        (limit.unwrap_or_default(), others.unwrap_or_default())
    }

    /// Whether the unit of this Framework was released.
    pub fn was_released(&self, uid: &str) -> bool {
        self.released.contains_key(uid)
    }

    /// A unit that waits although it fits and nothing else keeps it, and why it should not.
    pub fn waits_in_vain(&self) -> Option<(String, String)> {
        self.units.values().find_map(|unit| {
            let key = Key::new(unit.namespace(), unit["spec"]["queue"].as_str().unwrap_or(""));
            let class = unit["spec"]["priorityClassName"].as_str().unwrap_or("");
            let has_class =
                class.is_empty() || !unit["spec"]["priority"].is_null() || self.classes.contains(class);
            let waits = phase(unit) != "Dequeued" && !unit.deleting() && has_class;
            if !waits || !self.queues.contains(&key) || !self.has_job(unit) {
                return None;
            }
            let state = self.states.get(unit.namespace()).copied().unwrap_or_default();
            let (sum, ask) = (state.sum(), given(unit));
            let fits = (0..ask.len())
                .all(|at| ask[at] == 0 || state.limit[at].is_none_or(|limit| sum[at] + ask[at] <= limit));
            let message = unit["status"]["message"].as_str().unwrap_or("");
            let why =
                || format!("it asks for {ask:?}, {sum:?} are taken of {:?}, message: {message}", state.limit);
            fits.then(|| (unit.uid().to_owned(), why()))
        })
    }

    /// Whether the job of a unit is there, or of a kind that the controller does not watch.
    fn has_job(&self, unit: &Value) -> bool {
        !of_framework(unit) || self.framework(unit).is_some()
    }

    fn framework(&self, unit: &Value) -> Option<&Arc<Object>> {
        let name = unit["spec"]["consumerRef"]["name"].as_str().unwrap_or("");
        let found = self.frameworks.get(&Key::new(unit.namespace(), name))?;
        job_uid(unit).is_none_or(|uid| uid == found.uid()).then_some(found)
    }

    fn state(&self, namespace: &str) -> State {
        let own = |key: &Key| key.namespace == namespace;
        // The use of each job's Pods, and the part that quotas count.
        let mut used: BTreeMap<&str, [Uses; 2]> = BTreeMap::new();
        let mut all = Uses::default();
        for (_, pod) in self.pods.iter().filter(|(key, _)| own(key)) {
            let job = self.controllers.get(&pod.controller).unwrap_or(&pod.controller);
            // A Pod of a released job holds its share until it is gone, also without its unit.
            let counts = pod.is_counted || self.released.contains_key(job);
            let counted = if counts { pod.uses } else { Uses::default() };
            all = plus(all, counted);
            if !job.is_empty() {
                let [uses, in_quotas] = used.entry(job).or_default();
                (*uses, *in_quotas) = (plus(*uses, pod.uses), plus(*in_quotas, counted));
            }
        }
        let mut state = State { others: all, ..State::default() };
        // By the UID of its job: the amount given to its first unit, the amount given to the others, and its
        // request.
        let mut given_to: BTreeMap<&str, ([Uses; 2], Option<Uses>)> = BTreeMap::new();
        let released = self.units.iter().filter(|(key, unit)| own(key) && phase(unit) == "Dequeued");
        for (_, unit) in released {
            if !of_framework(unit) {
                state.held = plus(state.held, given(unit));
                continue;
            }
            let wants = self.framework(unit).filter(|job| !has_ended(job)).map(|job| wanted(job));
            let uid = job_uid(unit).or(self.framework(unit).map(|job| job.uid())).unwrap_or("");
            let entry = given_to.entry(uid).or_default();
            let part = &mut entry.0[usize::from(is_of_growth(unit))];
            *part = plus(*part, given(unit));
            entry.1 = entry.1.or(wants);
        }
        for (uid, ([first, growths], wants)) in given_to {
            let [used, in_quotas] = used.get(uid).copied().unwrap_or_default();
            let least = self.released.get(uid).into_iter().flat_map(BTreeMap::values).copied();
            let least = least.fold(Uses::default(), plus);
            for at in 0..first.len() {
                let wants = wants.map_or(0, |wants| wants[at]);
                let base = first[at].min(least[at]).min(wants);
                let grown = growths[at].min(wants - base);
                let given = first[at] + growths[at];
                state.held[at] += (base + grown).max(used[at].min(given));
                state.others[at] -= in_quotas[at].min(given);
            }
        }
        for (_, limit) in self.quotas.iter().filter(|(key, _)| own(key)) {
            for (least, limit) in state.limit.iter_mut().zip(limit) {
                *least = least.iter().chain(limit).min().copied();
            }
        }
        state
    }
}

/// `status.phase`, empty while there is none.
pub(super) fn phase(unit: &Value) -> &str {
    unit["status"]["phase"].as_str().unwrap_or("")
}

fn keep(objects: &mut BTreeMap<Key, Arc<Object>>, key: Key, change: &history::Change) {
    match &change.new {
        Some(new) => objects.insert(key, Arc::clone(new)),
        None => objects.remove(&key),
    };
}

/// UID of the object that controls another one.
fn controller(object: &Value) -> Option<&str> {
    object.controller()?["uid"].as_str()
}

fn has_ended(framework: &Value) -> bool {
    framework["status"]["state"] == "Completed"
}

fn of_framework(unit: &Value) -> bool {
    unit["spec"]["consumerRef"]["kind"] == "Framework"
}

/// Whether a unit stands for the growth of a Framework.
fn is_of_growth(unit: &Value) -> bool {
    let first = format!("framework-{}", unit["spec"]["consumerRef"]["name"].as_str().unwrap_or(""));
    unit.name() != first
}

/// The UID of the job that a unit names.
fn job_uid(unit: &Value) -> Option<&str> {
    unit["spec"]["consumerRef"]["uid"].as_str().filter(|uid| !uid.is_empty())
}

/// The request of a unit.
fn given(unit: &Value) -> Uses {
    let mut sum = Uses::default();
    for (key, quantity) in unit["spec"]["resource"].as_object().into_iter().flatten() {
        if let Some(at) = place(key) {
            sum[at] = sum[at].max(amount(key, quantity));
        }
    }
    sum
}

/// The requests of a Framework's Pods.
fn wanted(framework: &Value) -> Uses {
    roles(framework).map(|(_, wanted)| wanted).fold(Uses::default(), plus)
}

/// No TaskRole holds more than it asks for now.
fn shrink(held: &mut BTreeMap<String, Uses>, framework: &Value) {
    let now: BTreeMap<_, _> = roles(framework).collect();
    for (role, least) in held {
        let now = now.get(&**role).copied().unwrap_or_default();
        *least = [least[0].min(now[0]), least[1].min(now[1])];
    }
}

/// The TaskRoles of a Framework, each with the requests of its Pods.
fn roles(framework: &Value) -> impl Iterator<Item = (&str, Uses)> {
    let roles = framework["spec"]["taskRoles"].as_array().into_iter().flatten();
    roles.map(|role| {
        let (tasks, one) = (role["taskNumber"].as_i64().unwrap_or(0), uses(&role["task"]["pod"]));
        (role["name"].as_str().unwrap_or(""), one.map(|amount| amount * tasks))
    })
}

fn limit(quota: &Value) -> Limit {
    let mut limits = Limit::default();
    for (key, quantity) in quota["status"]["hard"].as_object().into_iter().flatten() {
        if let Some(at) = place(key) {
            let limit = amount(key, quantity);
            limits[at] = Some(limits[at].map_or(limit, |known| known.min(limit)));
        }
    }
    limits
}
