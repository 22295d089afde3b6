//! The API server's treatment of QueueUnits and Queues by their CRDs and the shipped policy alone, with no
//! controller and no webhook running. It covers refusals and their messages, the fields that may change in
//! each phase, and the columns of kubectl.

use std::time::{Duration, Instant};

use framework_api::crd;
use framework_api::queue::{Queue, QueueUnit, Reason};
use kube::api::{Patch, PatchParams};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::cluster::{get_all, install, installed, kubectl};
use crate::units::{PATIENCE, POLICY, UnitNamespace, answer, queue, refused, unit, with};

#[tokio::test]
async fn a_unit_as_the_proposal_has_it_is_stored_as_given() {
    let namespace = UnitNamespace::new("unit-given").await;
    let mut given = unit("unit1");
    given["spec"]["consumerRef"] =
        json!({"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "name": "job1", "namespace": "unit-given"});
    given["spec"]["priorityClassName"] = json!("high-priority");
    let stored = namespace.create(&given).await.expect("the proposal's own example");
    assert_eq!(stored["spec"], given["spec"]);
    read::<QueueUnit>(stored);
}

#[tokio::test]
async fn defaults_are_filled_in_and_a_status_given_at_creation_is_dropped() {
    let namespace = UnitNamespace::new("unit-defaults").await;
    let mut bare = unit("bare");
    let consumer = bare["spec"]["consumerRef"].clone();
    bare["spec"] = json!({"consumerRef": consumer});
    bare["status"] = json!({"phase": "Dequeued"});
    let stored = namespace.create(&bare).await.expect("what is left out has defaults");
    assert_eq!(stored["spec"], json!({"consumerRef": consumer, "queue": "default", "resource": {}}));
    assert_eq!(stored.get("status"), None, "a unit cannot be born released");
    read::<QueueUnit>(stored);

    bare["metadata"]["name"] = json!("barest");
    bare["spec"] = json!({});
    let stored = namespace.create(&bare).await.expect("a unit may stand for itself");
    assert_eq!(stored["spec"], json!({"queue": "default", "resource": {}}));
    read::<QueueUnit>(stored);

    for (name, spec) in [("plain", json!({})), ("plainer", Value::Null)] {
        let stored = namespace.create(&queue(name, spec)).await.expect("a Queue needs nothing");
        assert_eq!(stored["spec"], json!({"queuePolicy": "Priority"}), "{name}");
        read::<Queue>(stored);
    }
}

fn read<T: DeserializeOwned>(stored: Value) {
    serde_json::from_value::<T>(stored).map(drop).expect("our own types read it");
}

#[derive(Debug, Deserialize)]
struct Invalid {
    place: String,
    value: Value,
    says: String,
}

#[tokio::test]
async fn an_invalid_unit_or_queue_is_refused_and_the_message_names_the_field() {
    let namespace = UnitNamespace::new("unit-invalid").await;
    let cases: Vec<Invalid> =
        serde_saphyr::from_str(include_str!("../data/invalid_queue_units.yaml")).unwrap();
    assert!(cases.len() >= 30, "{} cases", cases.len());
    for case in &cases {
        let refusal = namespace.try_create(&with("bad", &case.place, case.value.clone())).await;
        refused(case, refusal, &case.says);
    }
    for (spec, words) in [
        (json!({"queuePolicy": "LIFO"}), "spec.queuePolicy: Unsupported value: \"LIFO\""),
        (json!({"priority": 1_i64 << 31}), "spec.priority"),
        (json!({"priorityClassName": "High"}), "priorityClassName is the name of a PriorityClass"),
    ] {
        refused(&spec, namespace.try_create(&queue("bad", spec.clone())).await, words);
    }
    let long = "a".repeat(64);
    let refusal = namespace.try_create(&queue(&long, json!({}))).await.expect_err("a name of 64 characters");
    for words in ["metadata.name: Invalid value", "the name of a Queue has at most 63 characters"] {
        assert!(refusal.contains(words), "{words:?} is missing in\n{refusal}");
    }
    namespace.try_create(&queue(&long[1..], json!({}))).await.expect("a name of 63 characters");
}

/// The schema before the rule, under a group of its own: the unit that an older controller's cluster has
/// stored.
#[test]
fn a_unit_stored_before_the_rule_on_names_still_takes_writes() {
    // Later in the alphabet than the true group, which kubectl takes where a test names none.
    const GROUP: &str = "units.test.microsoft.com";
    installed();
    let of_group = |text: &str| text.replace(framework_api::queue::GROUP, GROUP);
    let resource = of_group(crd::queue::UNITS);
    let mut today: Value = serde_saphyr::from_str(&of_group(&crd::queue::unit_manifest())).expect("YAML");
    today["spec"]["names"].as_object_mut().expect("names").remove("shortNames").expect("qu");
    let mut before = today.clone();
    let spec = "/spec/versions/0/schema/openAPIV3Schema/properties/spec";
    let spec = before.pointer_mut(spec).expect("the schema of the spec");
    let name = spec["properties"]["consumerRef"]["properties"]["name"].as_object_mut();
    name.expect("the name of a job").remove("x-kubernetes-validations").expect("its rule");
    install(&resource, &before.to_string());
    kubectl(&["create", "namespace", "unit-stored"], "").expect("a namespace");
    let bad = |name: &str| {
        let mut unit = with(name, "/consumerRef/name", json!("a/status"));
        unit["apiVersion"] = json!(format!("{GROUP}/v1alpha1"));
        unit.to_string()
    };
    let create = ["--namespace=unit-stored", "create", "-f=-"];
    kubectl(&create, &bad("old")).expect("there is no rule");

    install(&resource, &today.to_string());
    let deadline = Instant::now() + PATIENCE;
    while kubectl(&[&create[..], &["--dry-run=server"]].concat(), &bad("new")).is_ok() {
        assert!(Instant::now() < deadline, "the rule never came into force");
    }
    let patch = |flags: &[&str], patch: Value| {
        let (flag, target) = (format!("--patch={patch}"), format!("{resource}/old"));
        let patch = ["--namespace=unit-stored", "patch", &target, "--type=merge", &flag];
        kubectl(&[&patch[..], flags].concat(), "")
    };
    patch(&["--subresource=status"], json!({"status": {"phase": "Enqueued"}})).expect("a status");
    patch(&[], json!({"spec": {"priority": 7}})).expect("a priority");
    patch(&[], json!({"metadata": {"finalizers": ["a.b/c"]}})).expect("a finalizer");
    patch(&[], json!({"metadata": {"finalizers": null}})).expect("its removal");
}

#[tokio::test]
async fn every_quantity_that_kubernetes_accepts_is_accepted() {
    let namespace = UnitNamespace::new("quantities").await;
    for quantity in ["0", "2", "0.5", ".5", "500m", "1e3", "2E", "1.5Gi", "4Ki", "100n", "+3"] {
        let unit = with("good", "/resource/cpu", json!(quantity));
        namespace.try_create(&unit).await.unwrap_or_else(|refusal| panic!("{quantity}: {refusal}"));
    }
    namespace.try_create(&with("good", "/resource/pods", json!(0))).await.expect("a whole number");
    namespace
        .try_create(&with("good", "/resource/nvidia.com~1gpu", json!(8)))
        .await
        .expect("it has a domain");
    let many = |count: usize| (0..count).map(|index| (format!("example.com/r{index}"), json!(1))).collect();
    namespace.try_create(&with("good", "/resource", Value::Object(many(30)))).await.expect("30 resources");
    let refusal = namespace.try_create(&with("bad", "/resource", Value::Object(many(31)))).await;
    refused(&"31 resources", refusal, "spec.resource: Too many: 31: must have at most 30 items");
}

#[tokio::test]
async fn only_priority_changes_and_only_until_the_unit_is_released() {
    let namespace = UnitNamespace::new("changes").await;
    let class = "spec.priorityClassName: Forbidden: priorityClassName is fixed";
    let fixed = [
        (json!({"queue": "other"}), "spec.queue: Forbidden: queue is fixed"),
        (json!({"resource": {"cpu": 41}}), "spec.resource: Forbidden: resource is fixed"),
        (json!({"resource": {"pods": 1}}), "spec.resource: Forbidden: resource is fixed"),
        (json!({"resource": null}), "spec.resource: Forbidden: resource is fixed"),
        (json!({"consumerRef": {"name": "job2"}}), "spec.consumerRef: Forbidden: consumerRef is fixed"),
        (json!({"consumerRef": {"uid": "u"}}), "spec.consumerRef: Forbidden: consumerRef is fixed"),
        (json!({"priorityClassName": "low"}), class),
        (json!({"priorityClassName": null}), class),
    ];
    for phase in [None, Some("Enqueued"), Some("Dequeued")] {
        let name = phase.unwrap_or("New").to_lowercase();
        namespace.unit_in(&name, phase).await;
        for (change, words) in &fixed {
            let what = (phase, change);
            let refusal = namespace.change(&name, change.clone()).await.expect_err(&format!("{what:?}"));
            assert!(refusal.contains(words) && refusal.contains("only priority may change"), "{refusal}");
        }
        namespace
            .change(&name, json!({"queue": null}))
            .await
            .expect("what is left out is default, as it was");
        for priority in [json!(7), json!(null), json!(-1)] {
            let changed = namespace.change(&name, json!({"priority": priority})).await;
            if phase == Some("Dequeued") {
                let words = "spec.priority: Forbidden: priority may change only while the unit waits; it is \
                             released (status.phase is Dequeued)";
                refused(&priority, changed, words);
            } else {
                let stored = changed.expect("a new priority");
                assert_eq!(stored["spec"].get("priority").unwrap_or(&Value::Null), &priority, "{phase:?}");
            }
        }
        if phase == Some("Dequeued") {
            namespace.change(&name, json!({"priority": 100})).await.expect("no change");
            let label = Patch::Merge(json!({"metadata": {"labels": {"a": "b"}, "finalizers": ["a.b/c"]}}));
            answer(namespace.units.patch(&name, &PatchParams::default(), &label).await).expect("no spec");
            let gone = Patch::Merge(json!({"metadata": {"finalizers": null}}));
            answer(namespace.units.patch(&name, &PatchParams::default(), &gone).await).expect("no spec");
        }
    }
}

#[tokio::test]
async fn a_phase_only_goes_forward_and_not_by_two_steps() {
    let namespace = UnitNamespace::new("phases").await;
    let all = [None, Some("Enqueued"), Some("Dequeued")];
    for (at, from) in all.into_iter().enumerate() {
        for (goal, to) in all.into_iter().enumerate() {
            let what = (from, to);
            let name = format!("{}-{}", from.unwrap_or("none"), to.unwrap_or("none")).to_lowercase();
            namespace.unit_in(&name, from).await;
            let changed = namespace.report(&name, json!({"phase": to, "message": "said"})).await;
            if goal == at || goal == at + 1 {
                let stored = changed.unwrap_or_else(|refusal| panic!("{what:?}: {refusal}"));
                assert_eq!(stored["status"].get("phase").and_then(Value::as_str), to, "{what:?}");
            } else {
                let words = "status.phase: Forbidden: phase may change from unset to Enqueued, and from \
                             Enqueued to Dequeued, never back";
                refused(&what, changed, words);
            }
        }
    }
    let back = namespace.report("dequeued-dequeued", json!(null)).await;
    refused(&"no status at all", back, "phase may change from unset to Enqueued");
    for internal in ["ScheduleSucced", "ScheduleFailed"] {
        let refusal = namespace.report("none-none", json!({"phase": internal})).await;
        refused(&internal, refusal, &format!("phase: Unsupported value: \"{internal}\""));
    }
}

/// One of the two comes first, and the other one sees it.
#[tokio::test]
async fn a_priority_that_races_with_a_release_changes_nothing_or_stops_it() {
    let namespace = UnitNamespace::new("race").await;
    namespace.unit_in("job", Some("Enqueued")).await;
    let seen = namespace.units.get("job").await.expect("it is there");
    let version = seen.metadata.resource_version.clone().expect("a version");
    let release = |version: &str| {
        let metadata = json!({"resourceVersion": version});
        Patch::Merge(json!({"metadata": metadata, "status": {"phase": "Dequeued"}}))
    };
    let params = PatchParams::default();
    let changed = namespace.change("job", json!({"priority": 5})).await.expect("it waits");
    let lost = namespace.units.patch_status("job", &params, &release(&version)).await;
    assert!(matches!(lost, Err(kube::Error::Api(status)) if status.code == 409), "it was decided by another");
    let version = changed["metadata"]["resourceVersion"].as_str().expect("a version");
    answer(namespace.units.patch_status("job", &params, &release(version)).await)
        .expect("it is the last seen");
    refused(&"too late", namespace.change("job", json!({"priority": 6})).await, "it is released");
    let stored = namespace.units.get("job").await.expect("it is there");
    assert_eq!(stored.data["spec"]["priority"], 5);
}

#[tokio::test]
async fn conditions_are_keyed_by_type_and_have_a_closed_set_of_reasons() {
    let namespace = UnitNamespace::new("conditions").await;
    namespace.unit_in("job", Some("Enqueued")).await;
    let condition = |kind: &str, reason: &str| {
        json!({
            "type": kind, "status": "False", "reason": reason, "message": "",
            "lastTransitionTime": "2026-01-02T03:04:05Z",
        })
    };
    for reason in Reason::ALL {
        let list = [condition("Dequeued", reason.as_str()), condition("Overtaken", reason.as_str())];
        let stored = namespace.report("job", json!({"conditions": list})).await;
        let stored = stored.unwrap_or_else(|refusal| panic!("{reason}: {refusal}"));
        assert_eq!(stored["status"]["conditions"], json!(list));
    }
    for kind in ["Dequeued", "Overtaken"] {
        let refusal = namespace.report("job", json!({"conditions": [condition(kind, "Bored")]})).await;
        refused(&kind, refusal, "the reason of Dequeued and Overtaken is one of a closed set");
    }
    let other = json!({"conditions": [condition("Watched", "Bored")]});
    namespace.report("job", other).await.expect("a condition of somebody else");
    let twice = json!({"conditions": [condition("Dequeued", "Waiting"), condition("Dequeued", "Admitted")]});
    refused(&"twice", namespace.report("job", twice).await, "conditions[1]: Duplicate value");
}

/// The controller writes all of a status. An owner of each field of it would cost about a tenth of the API
/// server's cost of queueing.
#[tokio::test]
async fn a_status_is_owned_as_a_whole() {
    let namespace = UnitNamespace::new("owner").await;
    namespace.unit_in("job", Some("Enqueued")).await;
    let condition = json!({
        "type": "Dequeued", "status": "False", "reason": "Waiting", "message": "",
        "lastTransitionTime": "2026-01-02T03:04:05Z",
    });
    let unit = namespace.report("job", json!({"phase": "Enqueued", "conditions": [condition]})).await;
    namespace.create(&queue("q", json!({}))).await.expect("a Queue needs nothing");
    let filling = Patch::Merge(json!({"status": {"waiting": 1, "released": 0}}));
    let queue = namespace.queues.patch_status("q", &PatchParams::default(), &filling).await;
    for stored in [unit.expect("the status is allowed"), answer(queue).expect("the status is allowed")] {
        let owners = stored["metadata"]["managedFields"].as_array().expect("it has owners");
        let of_status: Vec<_> = owners.iter().filter_map(|owner| owner["fieldsV1"].get("f:status")).collect();
        assert_eq!(of_status, [&json!({})], "{}", stored["kind"]);
    }
}

#[tokio::test]
async fn a_consumer_of_another_namespace_is_refused_by_the_shipped_policy() {
    let namespace = UnitNamespace::new("consumers").await;
    let refusal = namespace.create(&with("job", "/consumerRef/namespace", json!("elsewhere"))).await;
    let words = "spec.consumerRef.namespace is elsewhere: a QueueUnit is for a job of its own namespace, \
                 consumers; leave the field out";
    refused(&"elsewhere", refusal, words);
    namespace.create(&with("own", "/consumerRef/namespace", json!("consumers"))).await.expect("its own");
    namespace.create(&unit("none")).await.expect("none is its own");
    for (name, place) in [("null-namespace", "/consumerRef/namespace"), ("null-consumer", "/consumerRef")] {
        namespace.create(&with(name, place, Value::Null)).await.expect("null is as if it were left out");
    }

    let get = ["get", "validatingadmissionpolicy", "frameworkcontroller-queue-unit", "-o=json"];
    let deadline = Instant::now() + PATIENCE;
    let policy = loop {
        let policy: Value = serde_json::from_str(&kubectl(&get, "").expect("it is there")).expect("JSON");
        if policy["status"]["observedGeneration"] == policy["metadata"]["generation"] {
            break policy;
        }
        assert!(Instant::now() < deadline, "the policy is never checked");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    assert_eq!(policy.pointer("/status/typeChecking/expressionWarnings"), None);
}

/// A rule that the API server had to evaluate at each status write would cost at each status write.
#[test]
fn the_policy_applies_to_creations_only() {
    let [policy, binding]: [Value; 2] =
        serde_saphyr::from_multiple(POLICY).expect("YAML").try_into().expect("two objects");
    let rules = policy["spec"]["matchConstraints"]["resourceRules"].as_array().expect("rules");
    assert_eq!(rules.len(), 1);
    assert_eq!(rules[0]["operations"], json!(["CREATE"]), "the consumer never changes");
    assert_eq!(rules[0]["resources"], json!(["queueunits"]), "not their status");
    assert_eq!(policy["spec"]["failurePolicy"], "Fail");
    assert_eq!(binding["spec"]["validationActions"], json!(["Deny"]));
    assert_eq!(binding["spec"]["policyName"], policy["metadata"]["name"]);
}

#[tokio::test]
async fn kubectl_shows_queue_priority_phase_reason_and_age() {
    let namespace = UnitNamespace::new("unit-columns").await;
    namespace.unit_in("job", Some("Enqueued")).await;
    let condition = json!({
        "type": "Dequeued", "status": "False", "reason": "InsufficientQuota", "message": "no room",
        "lastTransitionTime": "2026-01-02T03:04:05Z",
    });
    namespace.report("job", json!({"conditions": [condition]})).await.expect("a reason");
    namespace.create(&queue("night", json!({"priority": -3}))).await.expect("a Queue");
    let counts = Patch::Merge(json!({"status": {"waiting": 4, "released": 2}}));
    let counted = namespace.queues.patch_status("night", &PatchParams::default(), &counts).await;
    answer(counted).expect("a status of a Queue");
    let cells = |arguments: &[&str]| -> Vec<Vec<String>> {
        let text =
            kubectl(&[&["get", "-n=unit-columns"][..], arguments].concat(), "").expect("kubectl shows");
        text.lines().map(|line| line.split_whitespace().map(str::to_owned).collect()).collect()
    };
    let table = cells(&["qu"]);
    assert_eq!(table[0], ["NAME", "QUEUE", "PRIORITY", "PHASE", "REASON", "AGE"]);
    assert_eq!(table[1][..5], ["job", "default", "100", "Enqueued", "InsufficientQuota"]);
    assert!(table[1][5].ends_with('s'), "an age: {:?}", table[1]);
    let wide = cells(&["queueunits", "-o=wide"]);
    assert_eq!(wide[0][5..7], ["CLASS", "CONSUMER"]);
    assert_eq!(wide[1][5..7], ["high", "job1"]);
    let table = cells(&["queues.queue.k8s.io"]);
    assert_eq!(table[0], ["NAME", "POLICY", "PRIORITY", "WAITING", "RELEASED", "AGE"]);
    assert_eq!(table[1][..5], ["night", "Priority", "-3", "4", "2"]);
    let all = get_all("unit-columns");
    let mut all: Vec<&str> = all.lines().collect();
    all.sort_unstable();
    assert_eq!(all, ["queue.queue.k8s.io/night", "queueunit.queue.k8s.io/job"]);
}

#[test]
fn the_protected_group_needs_its_annotation() {
    installed();
    for manifest in [crd::queue::unit_manifest(), crd::queue::queue_manifest()] {
        let mut definition: Value = serde_saphyr::from_str(&manifest).expect("YAML");
        // The CRD has another name, because an update of a stored CRD need not be approved again.
        let plural = format!("other{}", definition["spec"]["names"]["plural"].as_str().expect("a plural"));
        let kind = format!("Other{}", definition["spec"]["names"]["kind"].as_str().expect("a kind"));
        let list = format!("{kind}List");
        definition["spec"]["names"] =
            json!({"plural": plural, "singular": plural, "kind": kind, "listKind": list});
        definition["metadata"]["name"] = json!(format!("{plural}.queue.k8s.io"));
        let create = ["create", "--dry-run=server", "-f=-"];
        kubectl(&create, &definition.to_string()).expect("as it is shipped");
        definition["metadata"].as_object_mut().expect("metadata").remove("annotations");
        let refusal = kubectl(&create, &definition.to_string()).expect_err("without the annotation");
        assert!(refusal.contains("protected groups must have approval annotation"), "{refusal}");
    }
}
