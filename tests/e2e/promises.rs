//! The promises that end-to-end tests hold the controller to: each finds its breach in a made-up history, and
//! nothing in a good one.

use framework_testcluster::audit::Record;
use serde_json::{Value, json};

use crate::cluster::guarantees::GUARANTEES;
use crate::cluster::history::{Change, History, Object, What};
use crate::cluster::promises::PROMISES;

/// A Framework of one Task whose first attempt fails and is retried, change by change.
struct Story {
    changes: Vec<Change>,
    requests: Vec<Record>,
    status: Value,
}

const TIME: &str = "2026-01-01T00:00:00Z";

fn end(code: i32) -> Value {
    json!({"code": code, "phrase": "p", "type": {"name": "Failed", "attributes": []}, "diagnostics": ""})
}

impl Story {
    /// At version 10 the attempt of the Framework is about to be created.
    fn new() -> Story {
        let retried = json!({"totalRetriedCount": 0, "accountableRetriedCount": 0, "retryDelaySec": null});
        let task = json!({
            "index": 0, "instanceUID": "t", "startTime": TIME, "state": "AttemptCreationPending",
            "transitionTime": TIME, "deletionPending": false, "retryPolicyStatus": retried.clone(),
            "attemptStatus": {"id": 0, "startTime": TIME, "podName": "job-a-0"},
        });
        let status = json!({
            "startTime": TIME, "state": "AttemptCreationPending", "transitionTime": TIME,
            "retryPolicyStatus": retried,
            "attemptStatus": {
                "id": 0, "startTime": TIME, "configMapName": "job-attempt",
                "taskRoleStatuses": [{"name": "a", "instanceUID": "r", "taskStatuses": [task]}],
            },
        });
        let mut story = Story { changes: Vec::new(), requests: Vec::new(), status };
        story.write(10, |_| {});
        story
    }

    /// The whole story, up to the second attempt's end.
    fn whole() -> Story {
        let mut story = Story::new();
        story.config_map(11, "c", "0");
        story.write(12, |status| {
            status["state"] = json!("AttemptPreparing");
            status["attemptStatus"]["configMapUID"] = json!("c");
        });
        story.pod(13, What::Created, "p", "0", "Pending");
        story.write(14, |status| {
            let task = task(status);
            task["state"] = json!("AttemptRunning");
            task["attemptStatus"]["podUID"] = json!("p");
        });
        story.pod(15, What::Changed, "p", "0", "Failed");
        story.write(16, |status| task(status)["attemptStatus"]["completionStatus"] = end(200));
        story.pod(17, What::Gone, "p", "0", "Failed");
        story.write(18, |status| task(status)["state"] = json!("AttemptCompleted"));
        story.write(19, |status| {
            let task = task(status);
            task["state"] = json!("AttemptCreationPending");
            task["retryPolicyStatus"]["totalRetriedCount"] = json!(1);
            task["attemptStatus"] = json!({"id": 1, "startTime": TIME, "podName": "job-a-0"});
        });
        story.pod(20, What::Created, "q", "1", "Pending");
        story.pod(21, What::Gone, "q", "1", "Pending");
        story.request("update", "frameworks", "status", json!({"metadata": {"resourceVersion": "9"}}));
        story.request("delete", "pods", "", json!({"preconditions": {"uid": "p"}}));
        story
    }

    fn write(&mut self, version: u64, change: impl FnOnce(&mut Value)) {
        change(&mut self.status);
        self.framework(version, What::Changed);
    }

    fn framework(&mut self, version: u64, what: What) {
        let framework = json!({
            "apiVersion": "frameworkcontroller.microsoft.com/v1", "kind": "Framework",
            "metadata": {"name": "job", "uid": "f"}, "spec": {"taskRoles": []}, "status": self.status,
        });
        let framework = serde_json::from_value(framework).expect("a Framework");
        self.changes.push(Change { version, what, object: Object::Framework(framework) });
    }

    fn config_map(&mut self, version: u64, uid: &str, attempt: &str) {
        let annotations = json!({
            "FC_FRAMEWORK_NAME": "job", "FC_FRAMEWORK_UID": "f", "FC_FRAMEWORK_ATTEMPT_ID": attempt,
        });
        let object = json!({"metadata": {"name": "job-attempt", "uid": uid, "annotations": annotations}});
        let object = Object::ConfigMap(serde_json::from_value(object).expect("a ConfigMap"));
        self.changes.push(Change { version, what: What::Created, object });
    }

    fn pod(&mut self, version: u64, what: What, uid: &str, attempt: &str, phase: &str) {
        let annotations = json!({
            "FC_FRAMEWORK_NAME": "job", "FC_FRAMEWORK_UID": "f", "FC_CONFIGMAP_UID": "c",
            "FC_FRAMEWORK_ATTEMPT_ID": "0",
            "FC_TASKROLE_NAME": "a", "FC_TASK_INDEX": "0", "FC_TASK_UID": "t", "FC_TASK_ATTEMPT_ID": attempt,
        });
        let metadata = json!({"name": "job-a-0", "uid": uid, "annotations": annotations});
        let object = json!({"metadata": metadata, "status": {"phase": phase}});
        let object = Object::Pod(serde_json::from_value(object).expect("a Pod"));
        self.changes.push(Change { version, what, object });
    }

    fn request(&mut self, verb: &str, resource: &str, subresource: &str, body: Value) {
        self.requests.push(Record {
            verb: verb.into(),
            resource: resource.into(),
            subresource: subresource.into(),
            namespace: "ns".into(),
            name: "job".into(),
            code: 200,
            user: "controller".into(),
            user_agent: "frameworkcontroller/0".into(),
            request_uri: String::new(),
            received: TIME.parse().expect("a time"),
            completed: TIME.parse().expect("a time"),
            request_object: Some(body),
            response_object: None,
        });
    }

    fn history(self) -> History {
        let mut changes = self.changes;
        changes.sort_by_key(|change| change.version);
        History::of(changes, self.requests)
    }

    /// The promises that are broken.
    fn broken(self) -> Vec<&'static str> {
        let history = self.history();
        let broken = PROMISES.iter().filter(|(_, breaches)| !breaches(&history).is_empty());
        broken.map(|(name, _)| *name).collect()
    }

    /// The guarantees of the manual that are broken if this is in the whole story as well.
    fn unkept_with(change: impl FnOnce(&mut Story)) -> Vec<&'static str> {
        let mut story = Story::whole();
        change(&mut story);
        story.unkept()
    }

    /// The story without the changes at a version.
    fn without(mut self, version: u64) -> Story {
        self.changes.retain(|change| change.version != version);
        self
    }

    /// The promises that are broken if this is in the whole story as well.
    fn broken_with(change: impl FnOnce(&mut Story)) -> Vec<&'static str> {
        let mut story = Story::whole();
        change(&mut story);
        story.broken()
    }
}

/// The one Task of a status.
fn task(status: &mut Value) -> &mut Value {
    &mut status["attemptStatus"]["taskRoleStatuses"][0]["taskStatuses"][0]
}

#[test]
fn a_good_history_breaks_no_promise() {
    assert!(Story::whole().broken().is_empty());
}

#[test]
fn two_pods_of_a_name_are_found() {
    let broken = Story::whole().without(17).broken();
    assert!(broken.contains(&"one instance at a time"), "{broken:?}");
}

#[test]
fn a_pod_without_a_stored_permit_is_found() {
    for version in [12, 19] {
        let broken = Story::whole().without(version).broken();
        assert!(broken.contains(&"Pods are licensed"), "{version}: {broken:?}");
    }
    // As if a scale-down had been stored just before.
    let broken = {
        let mut story = Story::whole();
        let end = story.status.clone();
        story.write(19, |status| task(status)["deletionPending"] = json!(true));
        story.status = end;
        story.broken()
    };
    assert_eq!(broken, ["Pods are licensed"]);
}

#[test]
fn a_config_map_without_a_stored_permit_is_found() {
    assert_eq!(Story::whole().without(10).broken(), ["ConfigMaps are licensed"]);
}

#[test]
fn a_pod_of_a_completed_attempt_is_found() {
    // It still runs when its attempt is stored as completed.
    let mut alive = Story::whole().without(15).without(17);
    alive.pod(22, What::Gone, "p", "0", "Running");
    assert!(alive.broken().contains(&"what is completed rests"));
    // It comes afterwards.
    let late = Story::broken_with(|story| story.pod(22, What::Created, "late", "0", "Pending"));
    assert_eq!(late, ["Pods are licensed", "what is completed rests"]);
}

#[test]
fn a_completion_that_changes_is_found() {
    for end in [end(201), Value::Null] {
        let broken = Story::broken_with(|story| {
            story.write(22, |status| {
                let task = task(status);
                task["attemptStatus"] = json!({"id": 1, "startTime": TIME, "podName": "job-a-0"});
                task["attemptStatus"]["completionStatus"] = self::end(0);
            });
            story.write(23, |status| task(status)["attemptStatus"]["completionStatus"] = end);
        });
        assert_eq!(broken, ["completions never change"]);
    }
}

#[test]
fn a_count_that_falls_is_found() {
    let broken = Story::broken_with(|story| {
        story.write(22, |status| task(status)["retryPolicyStatus"]["totalRetriedCount"] = json!(0));
    });
    assert_eq!(broken, ["counts never fall"]);
}

#[test]
fn a_blind_write_is_found() {
    let broken = Story::broken_with(|story| {
        story.request("update", "frameworks", "status", json!({"metadata": {}}));
    });
    assert_eq!(broken, ["status writes name what they replace"]);
}

#[test]
fn a_blind_delete_and_one_of_something_foreign_are_found() {
    for body in [json!({}), json!({"preconditions": {"uid": "foreign"}})] {
        let broken = Story::broken_with(|story| story.request("delete", "pods", "", body));
        assert_eq!(broken, ["deletes name a UID"]);
    }
}

#[test]
fn a_delete_before_the_end_is_recorded_is_found() {
    let broken = Story::whole().without(16).broken();
    assert_eq!(broken, ["an end is recorded before a Pod is deleted"]);
    let mut by_others = Story::whole().without(16);
    by_others.requests.last_mut().expect("a request").user_agent = "kubectl".into();
    assert_eq!(by_others.broken(), [""; 0], "what others delete is no concern of the promise");
}

#[test]
fn a_good_history_keeps_all_guarantees() {
    assert_eq!(Story::unkept_with(|_| {}), [""; 0]);
}

#[test]
fn a_breach_of_each_guarantee_is_found() {
    // The first Pod still runs when its successor is created.
    let beside =
        Story::unkept_with(|story| story.changes.retain(|change| ![15, 17].contains(&change.version)));
    assert!(beside.contains(&"ConsistencyGuarantee1"), "{beside:?}");
    // It is stored as completed while it runs.
    let early = Story::unkept_with(|story| {
        let late =
            |change: &mut Change| change.version += if [15, 17].contains(&change.version) { 4 } else { 0 };
        story.changes.retain(|change| change.version < 19);
        story.changes.iter_mut().for_each(late);
    });
    assert_eq!(early, ["ConsistencyGuarantee2"]);
    // A Pod comes when its Task is gone.
    let absent = Story::unkept_with(|story| {
        story.write(22, |status| status["attemptStatus"]["taskRoleStatuses"][0]["taskStatuses"] = json!([]));
        story.pod(23, What::Created, "late", "1", "Pending");
        story.write(24, |_| {});
    });
    assert_eq!(absent, ["ConsistencyGuarantee2"]);
    let second = Story::unkept_with(|story| story.config_map(22, "d", "0"));
    assert_eq!(second, ["ConsistencyGuarantee3"]);
    let completed = Story::unkept_with(|story| {
        story.write(22, |status| status["state"] = json!("AttemptCompleted"));
    });
    assert_eq!(completed, ["ConsistencyGuarantee4"]);
    let gone = Story::unkept_with(|story| story.framework(22, What::Gone));
    assert_eq!(gone, ["ConsistencyGuarantee4"]);
    let gone_with_a_pod = Story::unkept_with(|story| {
        story.pod(22, What::Created, "r", "1", "Running");
        story.framework(23, What::Gone);
    });
    assert_eq!(gone_with_a_pod, ["ConsistencyGuarantee2", "ConsistencyGuarantee4"]);
}

impl Story {
    /// A Framework that is marked for deletion at 12 and gone at 14; its ConfigMap is created at `created`,
    /// and gone at 16, so many seconds after its creation.
    fn deleted_during_creation(created: u64, lifetime: i64) -> Story {
        let mut story = Story::new();
        story.framework(12, What::Changed);
        if let Some(Change { object: Object::Framework(framework), .. }) = story.changes.last_mut() {
            framework.metadata.deletion_timestamp = serde_json::from_value(json!(TIME)).expect("a time");
        }
        story.framework(14, What::Gone);
        story.config_map(created, "c", "0");
        let gone = story.changes.last().cloned().expect("the ConfigMap");
        story.changes.push(Change { version: 16, what: What::Gone, ..gone });
        for (verb, seconds) in [("create", 0), ("delete", 0), ("patch", lifetime)] {
            story.request(verb, "configmaps", "", json!({"preconditions": {"uid": "c"}}));
            let request = story.requests.last_mut().expect("it was just added");
            request.response_object = Some(json!({"metadata": {"uid": "c"}}));
            request.user_agent = "kube-controller-manager".into();
            request.completed += jiff::SignedDuration::from_secs(seconds);
        }
        story
    }

    /// The guarantees of the manual that are broken.
    fn unkept(self) -> Vec<&'static str> {
        let history = self.history();
        let broken = GUARANTEES.iter().filter(|(_, breaches)| !breaches(&history).is_empty());
        broken.map(|(name, _)| *name).collect()
    }
}

#[test]
fn an_empty_config_map_may_arrive_during_a_deletion_if_it_is_collected() {
    // After the Framework was marked, with the garbage collector behind, and after the Framework was gone.
    for created in [13, 15] {
        assert_eq!(Story::deleted_during_creation(created, 1).unkept(), [""; 0], "created at {created}");
    }
}

#[test]
fn any_other_config_map_that_outlives_its_framework_is_found() {
    let before = Story::deleted_during_creation(11, 1).unkept();
    assert_eq!(before, ["ConsistencyGuarantee4"], "it was there before the deletion");
    let slowly = Story::deleted_during_creation(15, 31).unkept();
    assert_eq!(slowly, ["ConsistencyGuarantee4"], "it was collected too late");
    let forever = Story::deleted_during_creation(15, 1).without(16).unkept();
    assert_eq!(forever, ["ConsistencyGuarantee4"], "it was never collected");
    let mut unseen = Story::deleted_during_creation(15, 1);
    unseen.requests.clear();
    assert_eq!(unseen.unkept(), ["ConsistencyGuarantee4"], "nothing tells when it was created");
    let mut used = Story::deleted_during_creation(13, 1);
    used.pod(17, What::Created, "p", "0", "Pending");
    used.pod(18, What::Gone, "p", "0", "Pending");
    let unkept = used.unkept();
    assert_eq!(unkept, ["ConsistencyGuarantee2", "ConsistencyGuarantee4"], "it had a Pod");
}

#[test]
fn a_pod_deleted_by_force_is_found_unless_a_timeout_allows_it() {
    let force = |story: &mut Story| story.request("delete", "pods", "", json!({"gracePeriodSeconds": 0}));
    assert_eq!(Story::unkept_with(force), ["ConsistencyGuarantee1: no Pod is deleted by force"]);
    let allowed = Story::unkept_with(|story| {
        force(story);
        story.write(22, |status| {
            status["attemptStatus"]["taskRoleStatuses"][0]["podGracefulDeletionTimeoutSec"] = json!(30);
        });
    });
    assert_eq!(allowed, [""; 0]);
}
