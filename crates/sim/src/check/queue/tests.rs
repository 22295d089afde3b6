//! The checks of queues against histories that are built step by step.

use fastrand::Rng;
use serde_json::{Value, json};

use super::*;
use crate::history::Verb;
use crate::kind::{Kind, KindId, Registry};
use crate::patch::Patch;
use crate::store::{Caller, Key, Store};
use crate::update::Part;

const UNITS: &str = "queueunits";

/// A history in the making: a quota of four Pods, and units that ask for some.
struct HistoryBuilder {
    store: Store,
    at: Duration,
}

impl HistoryBuilder {
    fn new() -> Self {
        let mut store = Store::new(Registry::new(), Rng::with_seed(1));
        store.add_kind(Kind::custom("queue.k8s.io", "v1alpha1", "QueueUnit", UNITS));
        store.add_kind(Kind::custom("queue.k8s.io", "v1alpha1", "Queue", "queues"));
        let mut builder = Self { store, at: Duration::ZERO };
        builder.create("queues", "q", json!({}));
        builder.create("resourcequotas", "room", json!({ "hard": { "pods": "4" } }));
        builder.limit(4);
        builder
    }

    fn kind(&self, plural: &str) -> KindId {
        self.store.registry.find_plural(plural).unwrap()
    }

    fn caller(&mut self, actor: &str, call: u64) -> Caller {
        self.at += Duration::from_secs(1);
        let time = jiff::Timestamp::from_second(1_800_000_000).unwrap() + self.at;
        Caller { actor: actor.into(), call, at: self.at, time }
    }

    fn create(&mut self, plural: &str, name: &str, spec: Value) -> String {
        let (kind, caller) = (self.kind(plural), self.caller("user", 0));
        let object = json!({ "metadata": { "name": name }, "spec": spec });
        self.store.create(&caller, kind, "default", object).unwrap().uid().to_owned()
    }

    fn status(&mut self, plural: &str, name: &str, status: Value) {
        let (kind, caller) = (self.kind(plural), self.caller("controller-1", 1));
        let patch = Patch::Json(json!([{ "op": "add", "path": "/status", "value": status }]));
        self.store.patch(&caller, kind, &Key::new("default", name), Part::Status, &patch).unwrap();
    }

    fn limit(&mut self, pods: u32) {
        self.status("resourcequotas", "room", json!({ "hard": { "pods": pods.to_string() } }));
    }

    fn unit(&mut self, name: &str, pods: u32) {
        let reference = json!({ "apiVersion": "example.com/v1", "kind": "Train", "name": name });
        self.create(
            UNITS,
            name,
            json!({ "consumerRef": reference, "queue": "q", "resource": { "pods": pods } }),
        );
        self.status(UNITS, name, json!({ "phase": "Enqueued" }));
    }

    fn release(&mut self, name: &str) {
        self.status(UNITS, name, json!({ "phase": "Dequeued" }));
    }

    fn remove(&mut self, plural: &str, name: &str) {
        let (kind, caller) = (self.kind(plural), self.caller("user", 0));
        let options = crate::deletion::DeleteOptions { grace: Some(0), ..Default::default() };
        self.store.delete(&caller, kind, &Key::new("default", name), &options).unwrap();
    }

    fn pod(&mut self, name: &str) {
        self.create("pods", name, json!({ "containers": [{ "name": "main", "image": "x" }] }));
    }

    /// A Framework f of so many Tasks, and its unit. Returns its UID.
    fn framework(&mut self, label: &str, tasks: u32) -> String {
        let (kind, caller) = (self.kind("frameworks"), self.caller("user", 0));
        let labels = json!({ LABEL: label });
        let role = json!({ "name": "w", "taskNumber": tasks, "task": { "pod": { "spec": {} } } });
        let framework =
            json!({ "metadata": { "name": "f", "labels": labels }, "spec": { "taskRoles": [role] } });
        let uid = self.store.create(&caller, kind, "default", framework).unwrap().uid().to_owned();
        let reference = json!({ "apiVersion": "frameworkcontroller.microsoft.com/v1", "kind": "Framework",
            "name": "f", "uid": uid });
        let spec = json!({ "consumerRef": reference, "queue": "q", "resource": { "pods": tasks } });
        self.create(UNITS, "framework-f", spec);
        self.status(UNITS, "framework-f", json!({ "phase": "Enqueued" }));
        uid
    }

    /// The ConfigMap of its attempt. Returns its UID.
    fn map(&mut self, framework: &str) -> String {
        self.owned("configmaps", "f-attempt", Some(("Framework", framework)), json!({}))
    }

    fn owned(&mut self, plural: &str, name: &str, owner: Option<(&str, &str)>, notes: Value) -> String {
        let (kind, caller) = (self.kind(plural), self.caller("controller-1", 1));
        let mut metadata = json!({ "name": name, "annotations": notes });
        if let Some((kind, uid)) = owner {
            metadata["ownerReferences"] =
                json!([{ "kind": kind, "name": "f", "uid": uid, "controller": true }]);
        }
        let spec = json!({ "containers": [{ "name": "main", "image": "x" }] });
        let object = json!({ "metadata": metadata, "spec": spec });
        self.store.create(&caller, kind, "default", object).unwrap().uid().to_owned()
    }

    fn check(&self, blind: u64) -> Result<(), String> {
        let checked = check(&self.store.history, Blind(Duration::from_secs(blind)));
        checked.map_err(|violation| violation.to_string())
    }
}

#[test]
fn as_much_as_there_is_may_be_released_and_no_more() {
    let mut builder = HistoryBuilder::new();
    builder.unit("a", 3);
    builder.unit("b", 1);
    builder.unit("c", 1);
    builder.release("a");
    builder.release("b");
    assert_eq!(builder.check(0), Ok(()));
    assert_eq!(at_quiescence(&builder.store.history), Ok(()));
    builder.release("c");
    assert!(builder.check(0).unwrap_err().contains("pods: 5 are held and 0 used by others, of 4"));
    assert_eq!(count(&builder.store.history).releases, 3);
}

#[test]
fn the_usage_of_others_counts_as_soon_as_it_can_be_known() {
    let mut builder = HistoryBuilder::new();
    builder.unit("a", 4);
    builder.pod("foreign");
    builder.release("a");
    assert!(builder.check(0).unwrap_err().contains("4 are held and 1 used by others"));
    assert_eq!(builder.check(60), Ok(()), "nobody can have known of it");
    // Once the others are gone again it fits.
    let mut builder = HistoryBuilder::new();
    builder.unit("a", 4);
    builder.pod("foreign");
    builder.remove("pods", "foreign");
    builder.release("a");
    assert_eq!(builder.check(0), Ok(()));
}

#[test]
fn a_quota_that_is_lowered_later_is_nobodys_fault() {
    let mut builder = HistoryBuilder::new();
    builder.unit("a", 4);
    builder.release("a");
    builder.limit(1);
    assert_eq!(builder.check(0), Ok(()));
    builder.unit("b", 1);
    builder.release("b");
    assert!(builder.check(0).is_err());
}

#[test]
fn a_unit_that_fits_does_not_wait_at_quiescence() {
    let mut builder = HistoryBuilder::new();
    builder.unit("a", 4);
    assert!(at_quiescence(&builder.store.history).unwrap_err().what.contains("[4, 0]"));
    builder.limit(3);
    assert_eq!(at_quiescence(&builder.store.history), Ok(()));
}

#[test]
fn a_unit_is_released_once_and_then_fixed() {
    let mut builder = HistoryBuilder::new();
    builder.unit("a", 1);
    builder.release("a");
    builder.status(UNITS, "a", json!({ "phase": "Dequeued", "message": "again" }));
    assert!(builder.check(0).unwrap_err().contains("released again"));
    // The server itself refuses the rest.
    let mut builder = HistoryBuilder::new();
    builder.unit("a", 1);
    builder.release("a");
    let (kind, caller) = (builder.kind(UNITS), builder.caller("user", 0));
    let patch = Patch::Merge(json!({ "spec": { "priority": 7 } }));
    let refused = builder.store.patch(&caller, kind, &Key::new("default", "a"), Part::Main, &patch);
    assert_eq!(refused.unwrap_err().code, 422);
    let patch = Patch::Merge(json!({ "status": { "phase": "Enqueued" } }));
    let refused = builder.store.patch(&caller, kind, &Key::new("default", "a"), Part::Status, &patch);
    assert!(refused.unwrap_err().message.contains("status.phase"));
    assert_eq!(builder.store.history.of(UNITS).filter(|change| change.cause.verb == Verb::Patch).count(), 0);
}

#[test]
fn nothing_of_a_framework_is_made_before_its_release() {
    let builder = |released: bool, label: &str| {
        let mut builder = HistoryBuilder::new();
        let uid = builder.framework(label, 1);
        if released {
            builder.release("framework-f");
        }
        builder.map(&uid);
        builder.check(0)
    };
    assert_eq!(builder(true, "q"), Ok(()));
    assert_eq!(builder(false, ""), Ok(()), "it is in no queue");
    assert!(builder(false, "q").unwrap_err().contains("before its unit is released"));
}

#[test]
fn removed_tasks_hold_nothing_for_those_that_replace_them() {
    let check = |roles: &[(&str, u32)], unit: u32| {
        let mut builder = HistoryBuilder::new();
        builder.framework("q", 2);
        builder.release("framework-f");
        let task = json!({ "pod": { "spec": {} } });
        let role = |(name, tasks): &(&str, u32)| json!({ "name": name, "taskNumber": tasks, "task": task });
        let roles: Vec<Value> = roles.iter().map(role).collect();
        let (kind, caller) = (builder.kind("frameworks"), builder.caller("user", 0));
        let patch = Patch::Merge(json!({ "spec": { "taskRoles": roles } }));
        builder.store.patch(&caller, kind, &Key::new("default", "f"), Part::Main, &patch).unwrap();
        builder.unit("b", unit);
        builder.release("b");
        builder.check(0)
    };
    assert_eq!(check(&[("other", 3)], 4), Ok(()), "the three wait for a unit of their own");
    assert_eq!(check(&[("w", 1), ("other", 3)], 3), Ok(()));
    let found = check(&[("w", 1), ("other", 3)], 4).unwrap_err();
    assert!(found.contains("5 are held and 0 used by others, of 4"), "{found}");
    let found = check(&[("w", 5)], 3).unwrap_err();
    assert!(found.contains("5 are held and 0 used by others, of 4"), "{found}");
}

#[test]
fn a_pod_uses_the_share_of_the_framework_that_owns_its_config_map() {
    let check = |forged: bool| {
        let mut builder = HistoryBuilder::new();
        let framework = builder.framework("q", 2);
        builder.release("framework-f");
        let map = builder.map(&framework);
        let notes = json!({ "FC_FRAMEWORK_UID": framework });
        builder.owned("pods", "f-w-0", Some(("ConfigMap", &map)), notes.clone());
        builder.owned("pods", "f-w-1", (!forged).then_some(("ConfigMap", map.as_str())), notes);
        builder.unit("b", 2);
        builder.release("b");
        builder.check(0)
    };
    assert_eq!(check(false), Ok(()));
    assert!(check(true).unwrap_err().contains("4 are held and 1 used by others"));
}

#[test]
fn a_pod_that_hangs_in_its_deletion_counts_as_long_as_quotas_count_it() {
    let check = |seconds: u64| {
        let mut builder = HistoryBuilder::new();
        builder.unit("a", 4);
        let container = json!({ "name": "main", "image": "x" });
        builder.create("pods", "foreign", json!({ "containers": [container], "nodeName": "node" }));
        let (kind, caller) = (builder.kind("pods"), builder.caller("user", 0));
        let options = crate::deletion::DeleteOptions { grace: Some(30), ..Default::default() };
        builder.store.delete(&caller, kind, &Key::new("default", "foreign"), &options).unwrap();
        builder.at += Duration::from_secs(seconds);
        builder.release("a");
        builder.check(0)
    };
    assert!(check(30).unwrap_err().contains("4 are held and 1 used by others"));
    assert_eq!(check(90), Ok(()));
}
