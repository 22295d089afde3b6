//! The admission policies of `deploy/policies`: users of the API server who lack rights, and the controller's
//! account.

use std::time::{Duration, Instant};

use framework_api::queue::{BOUND_TO_ANNOTATION, ENQUEUED_ANNOTATION, FINALIZER, HELD_ANNOTATION};
use serde_json::{Value, json};

use crate::cluster::kubectl;
use crate::namespace::{TestNamespace, framework, role};
use crate::units::unit;

const ACCOUNT: &str = "system:serviceaccount:frameworkcontroller:frameworkcontroller";
const SLOT: &str = "frameworkcontroller.microsoft.com/slot";

/// A namespace of one test, and the users in it.
struct Fixture {
    namespace: TestNamespace,
    name: &'static str,
}

impl Fixture {
    fn new(name: &'static str) -> Fixture {
        Fixture { namespace: TestNamespace::new(name), name }
    }

    /// Grants a user verbs on a resource of the namespace, and waits until the API server grants them.
    fn grant(&self, user: &str, verbs: &str, resource: &str) {
        let name = format!("{user}-{}", resource.split('.').next().expect("a first word"));
        let (verbs_flag, resource_flag) = (format!("--verb={verbs}"), format!("--resource={resource}"));
        self.namespace.text(&["create", "role", &name, &verbs_flag, &resource_flag]);
        let (role, user_flag) = (format!("--role={name}"), format!("--user={user}"));
        self.namespace.text(&["create", "rolebinding", &name, &role, &user_flag]);
        let verb = verbs.split(',').next().expect("a first verb");
        let as_user = format!("--as={user}");
        await_that(&format!("{user} may {verb} {resource}"), || {
            self.namespace.kubectl(&["auth", "can-i", verb, resource, &as_user], None).is_ok()
        });
    }

    /// Runs kubectl as a user, with an object on its standard input.
    fn user(&self, user: &str, arguments: &[&str], input: &Value) -> Result<String, String> {
        let (namespace, user) = (format!("--namespace={}", self.name), format!("--as={user}"));
        kubectl(&[&[namespace.as_str(), user.as_str()], arguments].concat(), &input.to_string())
    }

    fn create(&self, user: &str, object: &Value) -> Result<String, String> {
        self.user(user, &["create", "-o=name", "-f=-"], object)
    }

    /// Whether it would be created: the answer to a request that stores nothing.
    fn try_create(&self, user: &str, object: &Value) -> Result<String, String> {
        self.user(user, &["create", "--dry-run=server", "-o=name", "-f=-"], object)
    }

    fn patch(&self, user: &str, target: &str, patch: &Value) -> Result<String, String> {
        let patch = format!("--patch={patch}");
        // Custom resources have no strategic merge; only that changes one field of one container.
        let is_custom = target.starts_with("framework/") || target.starts_with("queueunit/");
        let merge = if is_custom { "--type=merge" } else { "--type=strategic" };
        self.user(user, &["patch", target, merge, "-o=name", &patch], &Value::Null)
    }

    /// Stores an object as an administrator; returns its UID.
    fn store(&self, object: &Value) -> String {
        let create = ["--namespace", self.name, "create", "-o=jsonpath={.metadata.uid}", "-f=-"];
        kubectl(&create, &object.to_string()).expect("an administrator may create it")
    }
}

fn await_that(claim: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !holds() {
        assert!(Instant::now() < deadline, "it never came true that {claim}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[track_caller]
fn refused(result: Result<String, String>, words: &str) {
    let refusal = result.expect_err(words);
    assert!(refusal.contains(words), "{words:?} is missing in {refusal}");
}

fn whole_framework(name: &str) -> Value {
    let mut object = framework(name, &[role("worker", 1)]);
    object["apiVersion"] = framework_api::name::API_VERSION.into();
    object["kind"] = framework_api::name::KIND.into();
    object
}

/// An object that its owner controls.
fn owned(kind: &str, name: &str, owner: (&str, &str, &str, &str)) -> Value {
    let (api_version, owner_kind, owner_name, uid) = owner;
    let mut object = bare(kind, name);
    object["metadata"]["ownerReferences"] = json!([
        {"apiVersion": api_version, "kind": owner_kind, "name": owner_name, "uid": uid, "controller": true},
    ]);
    object["metadata"]["labels"] = json!({SLOT: "7", "FC_FRAMEWORK_NAME": "job"});
    object
}

fn bare(kind: &str, name: &str) -> Value {
    let mut object = json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}});
    if kind == "Pod" {
        object["spec"] = json!({"containers": [{"name": "main", "image": "none"}]});
    }
    object
}

/// The Framework `job` of the fixture with its ConfigMap and a Pod, as the controller would create them.
fn objects_of_a_framework(fixture: &Fixture) -> (Value, Value) {
    let uid = fixture.store(&whole_framework("job"));
    let map = owned("ConfigMap", "job-attempt", (framework_api::name::API_VERSION, "Framework", "job", &uid));
    let uid = fixture.store(&map);
    let pod = owned("Pod", "job-worker-0", ("v1", "ConfigMap", "job-attempt", &uid));
    fixture.store(&pod);
    (map, pod)
}

#[test]
fn a_framework_is_only_for_users_who_may_create_pods() {
    let fixture = Fixture::new("policy-framework");
    let (poor, rich) = ("poor-in-pods", "rich-in-pods");
    let frameworks = "frameworks.frameworkcontroller.microsoft.com";
    for user in [poor, rich] {
        fixture.grant(user, "create,get,update,patch,delete", frameworks);
    }
    fixture.grant(rich, "create", "pods");
    let words = "a Framework runs Pods, and user \"poor-in-pods\" may not create Pods in namespace \
                 \"policy-framework\"";
    await_that("the policy is in force", || fixture.try_create(poor, &whole_framework("probe")).is_err());

    refused(fixture.create(poor, &whole_framework("job")), words);
    fixture.create(rich, &whole_framework("job")).expect("who may create Pods");
    let job = "framework/job";
    for (change, spec) in [
        ("a description", json!({"description": "any change of the spec"})),
        ("more retries", json!({"retryPolicy": {"maxRetryCount": 5}})),
        ("a template", json!({"taskRoles": [role("worker", 1), role("miner", 100)]})),
    ] {
        refused(fixture.patch(poor, job, &json!({"spec": spec})), words);
        fixture.patch(rich, job, &json!({"spec": spec})).expect(change);
    }
    let label = json!({"metadata": {"labels": {"team": "a"}}});
    fixture.patch(poor, job, &label).expect("labels run nothing");
    let stop = json!({"spec": {"executionType": "Stop"}});
    fixture.patch(poor, job, &stop).expect("a stop ends Pods and creates none");
    fixture.user(poor, &["delete", job, "--wait=false"], &Value::Null).expect("a deletion creates none");
    // A right elsewhere is none here.
    let elsewhere = Fixture::new("policy-framework-else");
    elsewhere.grant(poor, "create", "pods");
    refused(fixture.create(poor, &whole_framework("other")), words);
}

#[test]
fn the_account_of_the_controller_creates_only_objects_of_frameworks() {
    let fixture = Fixture::new("policy-reach");
    let (map, pod) = objects_of_a_framework(&fixture);
    let (of_pods, of_maps) = ("only Pods of Frameworks", "only ConfigMaps of Frameworks");
    await_that("the policy is in force", || fixture.try_create(ACCOUNT, &bare("Pod", "probe")).is_err());

    let uid = "00000000-0000-4000-8000-000000000000";
    let api = framework_api::name::API_VERSION;
    for (name, owner) in [
        ("job-worker-0", ("apps/v1", "ReplicaSet", "job-attempt", uid)),
        ("job-worker-0", ("v1", "ConfigMap", "job", uid)),
        ("job-worker-0", ("v1", "ConfigMap", "other-attempt", uid)),
        ("job-worker-0", (api, "Framework", "job", uid)),
    ] {
        refused(fixture.try_create(ACCOUNT, &owned("Pod", name, owner)), of_pods);
    }
    let mut uncontrolled = owned("Pod", "job-worker-1", ("v1", "ConfigMap", "job-attempt", uid));
    uncontrolled["metadata"]["ownerReferences"][0]["controller"] = false.into();
    refused(fixture.try_create(ACCOUNT, &uncontrolled), of_pods);
    refused(fixture.try_create(ACCOUNT, &bare("Pod", "job-worker-1")), of_pods);
    refused(fixture.try_create(ACCOUNT, &bare("ConfigMap", "job-attempt")), of_maps);
    refused(
        fixture.try_create(ACCOUNT, &owned("ConfigMap", "other", (api, "Framework", "job", uid))),
        of_maps,
    );

    // The map of slots is the account's own, in its own namespace.
    let slots = bare("ConfigMap", "frameworkcontroller-slots");
    refused(fixture.try_create(ACCOUNT, &slots), of_maps);
    let create = ["--namespace=frameworkcontroller", "--as", ACCOUNT, "create", "--dry-run=server", "-f=-"];
    kubectl(&create, &slots.to_string()).expect("its map of slots");

    for (kind, name, object) in [("pod", "job-worker-0", pod), ("configmap", "job-attempt", map)] {
        fixture.user(ACCOUNT, &["delete", kind, name, "--wait=false"], &Value::Null).expect("its own object");
        let mut object = object;
        object["metadata"]["name"] = name.replace("job", "jab").into();
        object["metadata"]["ownerReferences"][0]["name"] =
            if kind == "pod" { "jab-attempt" } else { "jab" }.into();
        fixture.try_create(ACCOUNT, &object).expect("an object as the controller creates it");
    }
}

#[test]
fn the_account_of_the_controller_changes_no_foreign_object() {
    let fixture = Fixture::new("policy-foreign");
    objects_of_a_framework(&fixture);
    fixture.store(&bare("Pod", "stranger"));
    let mut settings = bare("ConfigMap", "settings");
    settings["data"] = json!({"key": "value"});
    fixture.store(&settings);
    let (of_pods, of_maps) = ("only Pods of Frameworks", "only ConfigMaps of Frameworks");
    await_that("the policy is in force", || fixture.try_create(ACCOUNT, &bare("Pod", "probe")).is_err());

    let image = json!({"spec": {"containers": [{"name": "main", "image": "miner"}]}});
    refused(fixture.patch(ACCOUNT, "pod/stranger", &image), of_pods);
    refused(fixture.patch(ACCOUNT, "configmap/settings", &json!({"data": {"key": "other"}})), of_maps);
    for (object, words) in [("pod/stranger", of_pods), ("configmap/settings", of_maps)] {
        refused(fixture.user(ACCOUNT, &["delete", object, "--wait=false"], &Value::Null), words);
    }
    let nothing_else = "changes nothing but the slot label";
    let (pod, map) = ("pod/job-worker-0", "configmap/job-attempt");
    for (target, change) in [
        (pod, image),
        (pod, json!({"metadata": {"annotations": {"a": "b"}}})),
        (pod, json!({"metadata": {"labels": {"FC_FRAMEWORK_NAME": "other"}}})),
        (pod, json!({"metadata": {"finalizers": ["example.com/stuck"]}})),
        (map, json!({"data": {"a": "b"}})),
        (map, json!({"metadata": {"labels": {"a": "b"}}})),
    ] {
        refused(fixture.patch(ACCOUNT, target, &change), nothing_else);
    }
    for target in [pod, map] {
        fixture
            .patch(ACCOUNT, target, &json!({"metadata": {"labels": {SLOT: null}}}))
            .expect("the slot label");
        fixture
            .patch(ACCOUNT, target, &json!({"metadata": {"labels": {SLOT: "7"}}}))
            .expect("the slot label");
    }
}

#[test]
fn users_change_neither_the_slot_label_nor_fc_labels_of_our_objects() {
    let fixture = Fixture::new("policy-labels");
    objects_of_a_framework(&fixture);
    let mut own = bare("Pod", "own");
    own["metadata"]["labels"] = json!({SLOT: "7", "FC_FRAMEWORK_NAME": "job"});
    fixture.store(&own);
    let user = "labels-pods";
    for resource in ["pods", "configmaps"] {
        fixture.grant(user, "patch,get", resource);
    }
    let labels = |labels: Value| json!({"metadata": {"labels": labels}});
    let (pod, map) = ("pod/job-worker-0", "configmap/job-attempt");
    let dry = |patch: &Value| {
        let patch = format!("--patch={patch}");
        fixture.user(user, &["patch", pod, "--type=merge", "--dry-run=server", &patch], &Value::Null)
    };
    await_that("the policy is in force", || dry(&labels(json!({SLOT: null}))).is_err());

    for target in [pod, map] {
        for (key, value) in [
            (SLOT, json!(null)),
            (SLOT, json!("8")),
            ("FC_FRAMEWORK_NAME", json!("x")),
            ("FC_NEW", json!("x")),
        ] {
            let words = format!("only the controller changes the label {key} of an object of a Framework");
            refused(fixture.patch(user, target, &labels(json!({key: value}))), &words);
        }
        fixture.patch(user, target, &labels(json!({"team": "a"}))).expect("a label of the user");
        fixture
            .patch(user, target, &json!({"metadata": {"annotations": {"a": "b"}}}))
            .expect("an annotation");
    }
    fixture
        .patch(user, "pod/own", &labels(json!({SLOT: null, "FC_FRAMEWORK_NAME": "x"})))
        .expect("no Framework's");
    let clear = format!("{SLOT}-");
    let admin = ["--namespace", "policy-labels", "label", pod, &clear];
    kubectl(&admin, "").expect("an administrator of the cluster may");
}

#[test]
fn users_do_not_set_the_slot_label_of_a_framework_that_is_there() {
    let fixture = Fixture::new("policy-framework-labels");
    let (user, job) = ("labels-frameworks", "framework/job");
    fixture.grant(user, "create,get,update,patch", "frameworks.frameworkcontroller.microsoft.com");
    fixture.grant(user, "create", "pods");
    let labels = |labels: Value| json!({"metadata": {"labels": labels}});
    let slot = || fixture.user(user, &["get", job, "-o=jsonpath={.metadata.labels}"], &Value::Null);
    let has_slot = |number: u8| slot().expect("it is there").contains(&format!("{SLOT}\":\"{number}\""));
    let mut copy = whole_framework("job");
    copy["metadata"]["labels"] = json!({SLOT: "7", "FC_FRAMEWORK_NAME": "x"});
    fixture.create(user, &copy).expect("a copy has the label of another Framework");
    let patch = format!("--patch={}", labels(json!({SLOT: "8"})));
    let dry = ["patch", job, "--type=merge", "--dry-run=server", &patch];
    await_that("the policy is in force", || fixture.user(user, &dry, &Value::Null).is_err());

    let words = format!("only the controller changes the label {SLOT} of a Framework: leave it out");
    refused(fixture.patch(user, job, &labels(json!({SLOT: "8"}))), &words);
    copy["metadata"]["labels"][SLOT] = "8".into();
    let apply = ["apply", "--server-side", "--force-conflicts", "-f=-"];
    refused(fixture.user(user, &apply, &copy), &words);
    fixture.patch(user, job, &labels(json!({"team": "a", "FC_FRAMEWORK_NAME": "y"}))).expect("users' labels");
    fixture.patch(ACCOUNT, job, &labels(json!({SLOT: "9"}))).expect("the controller puts it right");
    fixture.user(user, &apply, &whole_framework("job")).expect("a manifest without the label");
    assert!(has_slot(9), "a merge keeps it");
    fixture.user(user, &["replace", "-f=-"], &whole_framework("job")).expect("a PUT without the label");
    assert!(!has_slot(9), "until the controller puts it back");
    refused(fixture.patch(user, job, &labels(json!({SLOT: "7"}))), &words);
    let overwrite = format!("{SLOT}=8");
    let admin = ["--namespace", "policy-framework-labels", "label", "--overwrite", job, &overwrite];
    kubectl(&admin, "").expect("an administrator of the cluster may");
}

#[test]
fn users_set_no_annotation_that_decides_about_a_queue_unit() {
    let fixture = Fixture::new("policy-annotations");
    let (user, target) = ("annotates-units", "queueunit/job");
    fixture.grant(user, "create,get,update,patch", "queueunits.queue.k8s.io");
    let enqueued = (ENQUEUED_ANNOTATION, "2026-01-02T03:04:05Z");
    let ours = [enqueued, (HELD_ANNOTATION, "{}"), (BOUND_TO_ANNOTATION, "u/f")];
    let with = |annotations: Value| {
        let mut unit = unit("job");
        unit["metadata"]["annotations"] = annotations;
        unit
    };
    let change = |who: &str, annotations: Value| {
        fixture.patch(who, target, &json!({"metadata": {"annotations": annotations}}))
    };
    let words = |key: &str| format!("only the controller sets the annotation {key} of a QueueUnit");
    await_that("the policy is in force", || {
        fixture.try_create(user, &with(json!({ENQUEUED_ANNOTATION: "x"}))).is_err()
    });

    for (key, value) in ours {
        refused(fixture.try_create(user, &with(json!({key: value}))), &words(key));
        fixture.try_create(ACCOUNT, &with(json!({key: value}))).expect("the controller creates it so");
    }
    fixture.create(user, &with(json!({"team": "a"}))).expect("an annotation of the user");
    for (key, value) in ours {
        refused(change(user, json!({key: value})), &words(key));
        change(ACCOUNT, json!({key: value})).expect("the controller sets it");
        for other in [json!(null), json!("x")] {
            refused(change(user, json!({key: other})), &words(key));
        }
    }
    refused(fixture.user(user, &["replace", "-f=-"], &with(json!({}))), &words(ENQUEUED_ANNOTATION));
    change(user, json!({"team": "b", "other": "c"})).expect("annotations of the user");
    fixture.patch(user, target, &json!({"spec": {"priority": 7}})).expect("a priority");
    let clear = format!("{ENQUEUED_ANNOTATION}-");
    let admin = ["--namespace=policy-annotations", "annotate", target, &clear];
    kubectl(&admin, "").expect("an administrator of the cluster may");
}

/// Without it, room is free that the retry of the job counts on.
#[test]
fn users_do_not_remove_the_finalizer_of_a_queue_unit() {
    let fixture = Fixture::new("policy-finalizer");
    let (user, target) = ("frees-units", "queueunit/job");
    fixture.grant(user, "create,get,update,patch,delete", "queueunits.queue.k8s.io");
    let with = |finalizers: Value| json!({"metadata": {"finalizers": finalizers}});
    let mut unit = unit("job");
    unit["metadata"]["finalizers"] = json!([FINALIZER]);
    let words = format!("only the controller removes the finalizer {FINALIZER} of a QueueUnit");
    fixture.create(user, &unit).expect("a copy of a unit");
    let dry = |patch: &Value| {
        let patch = format!("--patch={patch}");
        fixture.user(user, &["patch", target, "--type=merge", "--dry-run=server", &patch], &Value::Null)
    };
    await_that("the policy is in force", || dry(&with(json!(null))).is_err());

    for finalizers in [json!(null), json!([]), json!(["example.com/other"])] {
        refused(fixture.patch(user, target, &with(finalizers)), &words);
    }
    fixture.patch(user, target, &with(json!([FINALIZER, "example.com/other"]))).expect("one of the user");
    fixture.patch(user, target, &with(json!([FINALIZER]))).expect("one of the user");
    fixture.user(user, &["delete", target, "--wait=false"], &Value::Null).expect("a deletion frees nothing");
    refused(fixture.patch(user, target, &with(json!(null))), &words);
    fixture.patch(ACCOUNT, target, &with(json!(null))).expect("the controller removes it");
    let read = || fixture.user(user, &["get", target, "-o=name", "--ignore-not-found"], &Value::Null);
    assert_eq!(read().expect("a user may read it"), "");
}

#[test]
fn a_create_under_an_epoch_that_is_over_is_refused() {
    let fixture = Fixture::new("policy-epoch");
    let policy = include_str!("../../deploy/epoch/policy.yaml");
    let policy = policy.replace("namespace: frameworkcontroller", "namespace: policy-epoch");
    kubectl(&["apply", "--server-side", "-f=-"], &policy).expect("the policy is valid");
    let create = |manager: &str, kind: &str| {
        let manager = format!("--field-manager={manager}");
        let create = ["--namespace=policy-epoch", "create", "--dry-run=server", &manager, "-o=name", "-f=-"];
        kubectl(&create, &bare(kind, "probe").to_string())
    };
    let of = |slot: &str, epoch: u64| format!("frameworkcontroller-slot-{slot}-epoch-{epoch}");
    create(&of("7", 1), "Pod").expect("there is no map yet");
    let mut map = bare("ConfigMap", "frameworkcontroller-slots");
    map["data"] = json!({
        "7": r#"{"owner":"b/y","epoch":200,"next":"a/x","unsettled":true}"#, "8": r#"{"owner":"b/y"}"#,
    });
    fixture.store(&map);
    await_that("the policy sees the map", || create(&of("7", 1), "Pod").is_err());

    let words = "slot 7 was granted again under epoch 200, and this request is of epoch 199";
    for kind in ["Pod", "ConfigMap"] {
        refused(create(&of("7", 199), kind), words);
        for manager in
            [of("7", 200), of("7", 201), of("8", 1), of("9", 1), of("7", 1) + "0000000000000000000"]
        {
            create(&manager, kind).unwrap_or_else(|error| panic!("{manager}: {error}"));
        }
        create("kubectl", kind).expect("others say no epoch");
    }
    let named = ["delete", "validatingadmissionpolicybinding", "frameworkcontroller-epoch"];
    kubectl(&named, "").expect("it is there");
}
