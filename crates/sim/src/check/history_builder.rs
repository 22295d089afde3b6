//! Hand-made histories for the checkers' own tests: one Framework `f` with one TaskRole `r`, built step by
//! step on a real store.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::check::owners::MAP;
use crate::check::slot::{SLOT_LABEL, slot};
use crate::deletion::DeleteOptions;
use crate::history::{Exchange, History, Verb};
use crate::kind::{KindId, Registry};
use crate::object::{Meta, Object};
use crate::patch::Patch;
use crate::store::{Caller, Key, Store};
use crate::update::Part;

const AT: &str = "2026-01-01T00:00:00Z";

/// A history in the making.
#[derive(Debug, Clone)]
pub(crate) struct HistoryBuilder {
    store: Store,
    actor: Arc<str>,
    at: Duration,
}

/// A completion status.
pub(crate) fn completion(code: i64) -> Value {
    json!({ "code": code, "phrase": "P", "type": { "name": "Failed", "attributes": [] }, "diagnostics": "" })
}

impl HistoryBuilder {
    /// The Framework is there, with this executionType and without a status.
    pub(crate) fn fresh(execution: &str) -> Self {
        let store = Store::new(Registry::new(), Rng::with_seed(1));
        let mut builder = Self { store, actor: "controller-1".into(), at: Duration::ZERO };
        let version = "frameworkcontroller.microsoft.com/v1";
        let roles = json!([{ "name": "r", "taskNumber": 1 }]);
        let spec = json!({ "executionType": execution, "taskRoles": roles });
        let framework =
            json!({ "apiVersion": version, "kind": "Framework", "metadata": { "name": "f" }, "spec": spec });
        let caller = builder.caller("user", 0);
        let kind = builder.kind("frameworks");
        builder.store.create(&caller, kind, "default", framework).unwrap();
        builder
    }

    /// The Framework is there, its first status is written.
    pub(crate) fn announced() -> Self {
        let mut builder = Self::fresh("Start");
        let retries = json!({ "totalRetriedCount": 0, "accountableRetriedCount": 0, "retryDelaySec": null });
        let task = json!({
            "index": 0, "instanceUID": "task-0", "state": "AttemptCreationPending", "startTime": AT,
            "retryPolicyStatus": retries, "deletionPending": false,
            "attemptStatus": { "id": 0, "startTime": AT },
        });
        let role = json!({ "name": "r", "podGracefulDeletionTimeoutSec": 5, "taskStatuses": [task] });
        let status = json!({
            "state": "AttemptCreationPending", "startTime": AT, "retryPolicyStatus": retries,
            "attemptStatus": { "id": 0, "startTime": AT, "taskRoleStatuses": [role] },
        });
        builder.edit(|old| *old = status);
        builder
    }

    /// The user changes the number of Tasks.
    pub(crate) fn set_task_number(&mut self, tasks: u32) {
        let (caller, kind) = (self.caller("user", 0), self.kind("frameworks"));
        let patch = json!({ "spec": { "taskRoles": [{ "name": "r", "taskNumber": tasks }] } });
        self.store.patch(&caller, kind, &Key::new("default", "f"), Part::Main, &Patch::Merge(patch)).unwrap();
    }

    /// The user lets failed Tasks be retried.
    pub(crate) fn retry_tasks(&mut self, max: i64) {
        let (caller, kind) = (self.caller("user", 0), self.kind("frameworks"));
        let task = json!({ "retryPolicy": { "maxRetryCount": max } });
        let patch = json!({ "spec": { "taskRoles": [{ "name": "r", "taskNumber": 1, "task": task }] } });
        self.store.patch(&caller, kind, &Key::new("default", "f"), Part::Main, &Patch::Merge(patch)).unwrap();
    }

    /// The user limits how long it is kept and how long it may be active.
    pub(crate) fn limit(&mut self, ttl: Option<i64>, deadline: Option<i64>) {
        let (caller, kind) = (self.caller("user", 0), self.kind("frameworks"));
        let patch = json!({ "spec": { "ttlSecondsAfterFinished": ttl, "activeDeadlineSeconds": deadline } });
        self.store.patch(&caller, kind, &Key::new("default", "f"), Part::Main, &Patch::Merge(patch)).unwrap();
    }

    /// The controller asks for the time.
    pub(crate) fn ask_time(&mut self) {
        self.request(Verb::Other, "/version", "");
    }

    /// The ConfigMap is there and recorded, the Task's Pod announced.
    pub(crate) fn started() -> Self {
        let mut builder = Self::announced();
        builder.create_map();
        let uid = builder.uid("configmaps", "f-attempt");
        builder.edit(|status| {
            status["state"] = json!("AttemptPreparing");
            status["attemptStatus"]["configMapUID"] = json!(uid);
        });
        builder
    }

    /// The Pod runs and is recorded.
    pub(crate) fn running() -> Self {
        let mut builder = Self::started();
        builder.create_pod(0, 0);
        builder.pod_status("f-r-0", &json!({ "phase": "Running" }));
        let uid = builder.uid("pods", "f-r-0");
        builder.edit(|status| {
            status["state"] = json!("AttemptRunning");
            status["runTime"] = json!(AT);
            status["attemptStatus"]["runTime"] = json!(AT);
            let task = &mut status["attemptStatus"]["taskRoleStatuses"][0]["taskStatuses"][0];
            task["state"] = json!("AttemptRunning");
            task["runTime"] = json!(AT);
            task["attemptStatus"]["runTime"] = json!(AT);
            task["attemptStatus"]["podUID"] = json!(uid);
        });
        builder
    }

    pub(crate) fn history(&self) -> History {
        self.store.history.clone()
    }

    /// The map of slots offers the Framework's slot to another member, or to none any more.
    pub(crate) fn offer_slot(&mut self, next: Option<&str>) {
        let row = json!({ "owner": "a/controller-1", "epoch": 1, "next": next, "unsettled": false });
        let data = json!({ slot(&self.uid("frameworks", "f")).to_string(): row.to_string() });
        let (caller, kind) = (self.caller("controller-1-member", 0), self.kind("configmaps"));
        let key = Key::new("default", MAP);
        if self.store.get(kind, &key).is_some() {
            let patch = Patch::Merge(json!({ "data": data }));
            self.store.patch(&caller, kind, &key, Part::Main, &patch).unwrap();
        } else {
            let map = json!({ "metadata": { "name": MAP }, "data": data });
            self.store.create(&caller, kind, "default", map).unwrap();
        }
    }

    /// Another incarnation of the controller goes on.
    pub(crate) fn controller(&mut self, who: &str) {
        self.actor = who.into();
    }

    pub(crate) fn wait(&mut self, seconds: u64) {
        self.at += Duration::from_secs(seconds);
    }

    fn now(&self) -> Timestamp {
        let start: Timestamp = AT.parse().unwrap();
        start + SignedDuration::try_from(self.at).unwrap()
    }

    fn caller(&self, actor: &str, call: u64) -> Caller {
        Caller { actor: actor.into(), call, at: self.at, time: self.now() }
    }

    fn kind(&self, plural: &str) -> KindId {
        self.store.registry.find_plural(plural).unwrap()
    }

    fn get(&self, plural: &str, name: &str) -> Arc<Object> {
        Arc::clone(self.store.get(self.kind(plural), &Key::new("default", name)).unwrap())
    }

    pub(crate) fn uid(&self, plural: &str, name: &str) -> String {
        self.get(plural, name).uid().to_owned()
    }

    /// A request of the controller that is answered at once.
    fn request(&mut self, verb: Verb, plural: &str, name: &str) -> Caller {
        let call = self.store.history.exchanges.len() as u64 + 1;
        self.store.history.exchanges.push(Exchange {
            call,
            who: Arc::clone(&self.actor),
            at: self.at,
            verb,
            plural: plural.into(),
            namespace: "default".to_owned(),
            name: name.to_owned(),
            code: Some(200),
            clock: Some(self.now()),
            answered: Some(self.at),
            settled: Some(self.at),
        });
        self.caller(&self.actor.clone(), call)
    }

    pub(crate) fn last_reply_is_lost(&mut self) {
        self.store.history.exchanges.last_mut().unwrap().answered = None;
    }

    pub(crate) fn last_reply_hangs(&mut self) {
        self.last_reply_is_lost();
        self.store.history.exchanges.last_mut().unwrap().settled = None;
    }

    fn put_status(&mut self, edit: impl FnOnce(&mut Value), blindly: bool) {
        let caller = self.request(Verb::UpdateStatus, "frameworks", "f");
        let mut status = self.get("frameworks", "f")["status"].clone();
        edit(&mut status);
        let mut body = Value::clone(&self.get("frameworks", "f"));
        body["status"] = status;
        let kind = self.kind("frameworks");
        let key = Key::new("default", "f");
        if blindly {
            let patch = Patch::Merge(json!({ "status": body["status"] }));
            self.store.patch(&caller, kind, &key, Part::Status, &patch).unwrap();
            let change = Arc::get_mut(self.store.history.changes.last_mut().unwrap()).unwrap();
            change.cause.version = None;
            return;
        }
        self.store.update(&caller, kind, &key, Part::Status, body).unwrap();
    }

    /// The controller writes the status.
    pub(crate) fn edit(&mut self, edit: impl FnOnce(&mut Value)) {
        self.put_status(edit, false);
    }

    /// The controller writes the status without its resourceVersion.
    pub(crate) fn edit_blindly(&mut self, edit: impl FnOnce(&mut Value)) {
        self.put_status(edit, true);
    }

    pub(crate) fn edit_task(&mut self, index: usize, edit: impl FnOnce(&mut Value)) {
        self.edit(|status| edit(&mut status["attemptStatus"]["taskRoleStatuses"][0]["taskStatuses"][index]));
    }

    pub(crate) fn complete_task(&mut self, index: usize) {
        self.edit_task(index, |task| {
            task["state"] = json!("AttemptDeletionPending");
            task["attemptStatus"]["completionStatus"] = completion(1);
        });
    }

    pub(crate) fn end_task_attempt(&mut self, index: usize) {
        let now = self.now().to_string();
        self.edit_task(index, |task| {
            task["state"] = json!("AttemptCompleted");
            task["attemptStatus"]["completionTime"] = json!(now);
        });
    }

    pub(crate) fn retry_task(&mut self, index: usize) {
        self.edit_task(index, |task| {
            task["state"] = json!("AttemptCreationPending");
            task["retryPolicyStatus"] =
                json!({ "totalRetriedCount": 1, "accountableRetriedCount": 1, "retryDelaySec": null });
            task["attemptStatus"] = json!({ "id": 1, "startTime": AT });
        });
    }

    pub(crate) fn create_map(&mut self) {
        let owner = self.uid("frameworks", "f");
        self.create_map_of(&owner);
    }

    /// Creates the ConfigMap of the Framework with that UID, which need not be there any more.
    pub(crate) fn create_map_of(&mut self, owner: &str) {
        let sent = self.send_map();
        self.land_map(&sent, owner);
    }

    /// Sends the create of the ConfigMap.
    pub(crate) fn send_map(&mut self) -> Caller {
        self.request(Verb::Create, "configmaps", "f-attempt")
    }

    /// The create of the ConfigMap that was sent so arrives at the API server.
    pub(crate) fn land_map(&mut self, sent: &Caller, owner: &str) {
        let map = json!({ "metadata": {
            "name": "f-attempt", "finalizers": ["foregroundDeletion"],
            "annotations": { "FC_FRAMEWORK_ATTEMPT_ID": "0" },
            "labels": { SLOT_LABEL: slot(owner).to_string() },
            "ownerReferences": [{ "kind": "Framework", "name": "f", "uid": owner, "controller": true }],
        } });
        let kind = self.kind("configmaps");
        self.store.create(sent, kind, "default", map).unwrap();
    }

    pub(crate) fn create_pod(&mut self, index: usize, attempt: u32) {
        self.create_named_pod(&format!("f-r-{index}"), index, attempt);
    }

    /// Creates the Pod of a Task under a name that need not be its own.
    pub(crate) fn create_named_pod(&mut self, name: &str, index: usize, attempt: u32) {
        let (framework, owner) = (self.uid("frameworks", "f"), self.uid("configmaps", "f-attempt"));
        let pod = json!({
            "metadata": {
                "name": name, "labels": { SLOT_LABEL: slot(&framework).to_string() },
                "ownerReferences": [
                    { "kind": "ConfigMap", "name": "f-attempt", "uid": owner, "controller": true },
                ],
                "annotations": {
                    "FC_FRAMEWORK_UID": framework, "FC_FRAMEWORK_ATTEMPT_ID": "0", "FC_TASKROLE_NAME": "r",
                    "FC_TASK_INDEX": index.to_string(), "FC_TASK_UID": format!("task-{index}"),
                    "FC_TASK_ATTEMPT_ID": attempt.to_string(),
                },
            },
            "spec": { "containers": [{ "name": "main", "image": "x" }], "nodeName": "node-0" },
        });
        let caller = self.request(Verb::Create, "pods", name);
        let kind = self.kind("pods");
        self.store.create(&caller, kind, "default", pod).unwrap();
    }

    /// Another user has a Pod of that name.
    pub(crate) fn foreign_pod(&mut self, name: &str) {
        let spec = json!({ "containers": [{ "name": "main", "image": "x" }] });
        let (caller, kind) = (self.caller("user", 0), self.kind("pods"));
        let pod = json!({ "metadata": { "name": name }, "spec": spec });
        self.store.create(&caller, kind, "default", pod).unwrap();
    }

    pub(crate) fn patch(&mut self, plural: &str, name: &str, patch: Value) {
        let caller = self.request(Verb::Patch, plural, name);
        let (kind, key) = (self.kind(plural), Key::new("default", name));
        self.store.patch(&caller, kind, &key, Part::Main, &Patch::Merge(patch)).unwrap();
    }

    fn pod_status(&mut self, name: &str, status: &Value) {
        let (caller, kind) = (self.caller("kubelet", 0), self.kind("pods"));
        let patch = Patch::Merge(json!({ "status": status }));
        self.store.patch(&caller, kind, &Key::new("default", name), Part::Status, &patch).unwrap();
    }

    pub(crate) fn kubelet_ends(&mut self, name: &str, code: i64) {
        self.pod_status(name, &json!({ "phase": if code == 0 { "Succeeded" } else { "Failed" } }));
    }

    pub(crate) fn kubelet_removes(&mut self, name: &str) {
        let (caller, kind) = (self.caller("kubelet", 0), self.kind("pods"));
        let options = DeleteOptions { grace: Some(0), ..DeleteOptions::default() };
        self.store.delete(&caller, kind, &Key::new("default", name), &options).unwrap();
    }

    /// The controller deletes by UID.
    pub(crate) fn delete(&mut self, plural: &str, name: &str, grace: Option<i64>) {
        let options = DeleteOptions { grace, ..DeleteOptions::of_uid(&self.uid(plural, name)) };
        let caller = self.request(Verb::Delete, plural, name);
        let (kind, key) = (self.kind(plural), Key::new("default", name));
        self.store.delete(&caller, kind, &key, &options).unwrap();
    }

    /// The controller deletes the Framework as it should.
    pub(crate) fn delete_foreground(&mut self, name: &str) {
        let propagation = Some("Foreground".to_owned());
        let options = DeleteOptions { propagation, ..DeleteOptions::of_uid(&self.uid("frameworks", name)) };
        let caller = self.request(Verb::Delete, "frameworks", name);
        let (kind, key) = (self.kind("frameworks"), Key::new("default", name));
        self.store.delete(&caller, kind, &key, &options).unwrap();
    }

    pub(crate) fn delete_unguarded(&mut self, plural: &str, name: &str) {
        let caller = self.request(Verb::Delete, plural, name);
        let (kind, key) = (self.kind(plural), Key::new("default", name));
        self.store.delete(&caller, kind, &key, &DeleteOptions::default()).unwrap();
    }

    /// The garbage collector lets an object go that waits for nothing any more.
    pub(crate) fn remove_finalizers(&mut self, plural: &str, name: &str) {
        let (caller, kind) = (self.caller("collector", 0), self.kind(plural));
        let patch = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
        self.store.patch(&caller, kind, &Key::new("default", name), Part::Main, &patch).unwrap();
    }

    /// The ConfigMap is deleted in the foreground, and goes at once: nothing is left in the graph.
    pub(crate) fn collect_map(&mut self) {
        self.user_deletes("configmaps", "f-attempt");
        self.remove_finalizers("configmaps", "f-attempt");
    }

    pub(crate) fn user_deletes(&mut self, plural: &str, name: &str) {
        let (caller, kind) = (self.caller("user", 0), self.kind(plural));
        self.store.delete(&caller, kind, &Key::new("default", name), &DeleteOptions::default()).unwrap();
    }
}
