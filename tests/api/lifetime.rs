//! The API server's treatment of `ttlSecondsAfterFinished` and `activeDeadlineSeconds`, by the objects that
//! `deploy/` installs, with no controller running: refusals, their words, and warnings.

use std::time::{Duration, Instant};

use framework_testcluster::{Output, shared};
use serde_json::{Value, json};

use crate::cluster::{self, install, installed};
use crate::namespace::{self, TestNamespace, framework, role};

const TTL: &str = "ttlSecondsAfterFinished";
const DEADLINE: &str = "activeDeadlineSeconds";
const TTL_BOUNDS: &str = "give 0 to 2147483647 seconds, counted from the Framework's completion (0 deletes it \
                          at once); leave it out for the controller's frameworkCompletedRetainSec";
const DEADLINE_BOUNDS: &str = "give 1 to 3153600000 seconds, counted from the Framework's creation (3153600000 \
                               are 100 years); leave it out for no limit";
const TTL_FIXED: &str = "spec.ttlSecondsAfterFinished: Forbidden: ttlSecondsAfterFinished is fixed when the Framework is created: it \
     cannot be added, changed or removed later; to be rid of the Framework, delete it; for another value, \
     recreate it";
const DEADLINE_FIXED: &str = "spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds is fixed when the Framework is created: it \
     cannot be added, changed or removed later; to end the Framework now, set executionType to Stop; for another \
     value, recreate it";

/// A Framework with these fields in its spec.
fn with(name: &str, fields: &[(&str, Value)]) -> Value {
    let mut object = framework(name, &[role("worker", 1)]);
    for (field, value) in fields {
        object["spec"][*field] = value.clone();
    }
    object
}

#[test]
fn values_within_bounds_are_stored_as_given() {
    let namespace = TestNamespace::new("lifetime-bounds");
    for (index, (field, value)) in [
        (TTL, json!(0)),
        (TTL, json!(59)),
        (TTL, json!(2_147_483_647)),
        (DEADLINE, json!(1)),
        (DEADLINE, json!(86_400)),
        (DEADLINE, json!(3_153_600_000_i64)),
    ]
    .into_iter()
    .enumerate()
    {
        let stored = namespace.create(&with(&format!("job{index}"), &[(field, value.clone())])).unwrap();
        assert_eq!(stored["spec"][field], value);
        serde_json::from_value::<framework_api::Framework>(stored).expect("our own types read it");
    }
    let stored = namespace.create(&with("unset", &[])).unwrap();
    assert_eq!((stored["spec"].get(TTL), stored["spec"].get(DEADLINE)), (None, None), "no default");
    namespace.create(&with("both", &[(TTL, json!(60)), (DEADLINE, json!(60))])).unwrap();
    namespace
        .create(&with("null", &[(TTL, Value::Null), (DEADLINE, Value::Null)]))
        .expect("null is left out");
}

#[test]
fn values_out_of_bounds_are_refused_and_the_message_gives_the_bounds() {
    let namespace = TestNamespace::new("lifetime-refused");
    let integer = |field: &str| format!("spec.{field} in body must be of type int");
    let cases = [
        (TTL, json!(-1), TTL_BOUNDS.to_owned()),
        (TTL, json!(-2_147_483_649_i64), TTL_BOUNDS.to_owned()),
        (TTL, json!(2_147_483_648_i64), TTL_BOUNDS.to_owned()),
        (TTL, json!(i64::MAX), TTL_BOUNDS.to_owned()),
        (TTL, json!(1.5), integer(TTL)),
        (TTL, json!("60"), integer(TTL)),
        (DEADLINE, json!(0), DEADLINE_BOUNDS.to_owned()),
        (DEADLINE, json!(-1), DEADLINE_BOUNDS.to_owned()),
        (DEADLINE, json!(3_153_600_001_i64), DEADLINE_BOUNDS.to_owned()),
        (DEADLINE, json!(i64::MAX), DEADLINE_BOUNDS.to_owned()),
        (DEADLINE, json!(1e30), integer(DEADLINE)),
        (DEADLINE, json!("1h"), integer(DEADLINE)),
    ];
    for (field, value, words) in cases {
        let refusal =
            namespace.create(&with("job", &[(field, value.clone())])).expect_err(&format!("{value}"));
        // The rest of the message, up to the words, differs from version to version of Kubernetes.
        let named = refusal.contains(&format!("spec.{field}: Invalid value: "));
        assert!(named && refusal.contains(&words), "{field} {value}: {words:?} is missing in\n{refusal}");
    }
    assert_eq!(namespace.names(), Vec::<String>::new());
}

/// The changes that a user may try to make to one of the fields of an existing Framework: a JSON patch each.
fn attempts(field: &str) -> [(&'static str, Value); 4] {
    let path = format!("/spec/{field}");
    [
        ("set", json!([{"op": "add", "path": path, "value": 100}])),
        ("lower", json!([{"op": "add", "path": path, "value": 7}])),
        ("remove", json!([{"op": "remove", "path": path}])),
        ("null", json!([{"op": "add", "path": path, "value": null}])),
    ]
}

#[test]
fn neither_field_is_added_changed_or_removed_by_a_patch() {
    let namespace = TestNamespace::new("lifetime-patch");
    for (field, fixed) in [(TTL, TTL_FIXED), (DEADLINE, DEADLINE_FIXED)] {
        let without = format!("without{}", field.to_lowercase());
        let having = format!("with{}", field.to_lowercase());
        namespace.create(&with(&without, &[])).unwrap();
        namespace.create(&with(&having, &[(field, json!(60))])).unwrap();
        for (what, patch) in attempts(field) {
            let refusal = namespace.patch(&having, &patch).expect_err(what);
            assert!(refusal.contains(fixed), "{what}: {refusal}");
        }
        for (what, patch) in &attempts(field)[..2] {
            let refusal = namespace.patch(&without, patch).expect_err(what);
            assert!(refusal.contains(fixed), "{what}: {refusal}");
        }
        let same = json!([
            {"op": "test", "path": format!("/spec/{field}"), "value": 60},
            {"op": "replace", "path": format!("/spec/{field}"), "value": 60},
            {"op": "add", "path": "/spec/description", "value": "other fields may change"},
        ]);
        namespace.patch(&having, &same).expect("it stays as it is");
        let null = json!([{"op": "add", "path": format!("/spec/{field}"), "value": null}]);
        namespace.patch(&without, &null).expect("null is as good as left out");
        let refusal = namespace.patch(&without, &attempts(field)[0].1).expect_err("null, then a value");
        assert!(refusal.contains(fixed), "{refusal}");
    }
}

#[test]
fn neither_field_is_added_changed_or_removed_by_apply_or_replace() {
    let namespace = TestNamespace::new("lifetime-apply");
    for (verb, arguments) in [
        ("apply", &["apply", "-o=json", "-f=-"][..]),
        ("serverside", &["apply", "--server-side", "-o=json", "-f=-"]),
        ("replace", &["replace", "-o=json", "-f=-"]),
    ] {
        for (field, fixed) in [(TTL, TTL_FIXED), (DEADLINE, DEADLINE_FIXED)] {
            let name = format!("{verb}{}", field.to_lowercase());
            let create = if verb == "replace" { &["create", "-o=json", "-f=-"] } else { arguments };
            let mut object = with(&name, &[(field, json!(60))]);
            namespace.object(create, &object).unwrap();
            object["spec"]["description"] = "the same again".into();
            namespace.object(arguments, &object).unwrap_or_else(|refusal| panic!("{verb}: {refusal}"));
            for (what, change) in [("change", json!(61)), ("null", Value::Null)] {
                object["spec"][field] = change;
                let refusal = namespace.object(arguments, &object).expect_err(&format!("{verb} {what}"));
                assert!(refusal.contains(fixed), "{verb} {what}: {refusal}");
            }
            let refusal =
                namespace.object(arguments, &with(&name, &[])).expect_err(&format!("{verb} without it"));
            assert!(refusal.contains(fixed), "{verb} without it: {refusal}");

            let bare = format!("bare{name}");
            namespace.object(create, &with(&bare, &[])).unwrap();
            let later = with(&bare, &[(field, json!(60))]);
            let refusal = namespace.object(arguments, &later).expect_err(&format!("{verb} adds it"));
            assert!(refusal.contains(fixed), "{verb} adds it: {refusal}");
        }
    }
}

#[test]
fn values_stored_under_an_older_schema_do_not_block_other_writes() {
    const GROUP: &str = "lifetime.test.microsoft.com";
    let name = framework_api::crd::NAME.replace(framework_api::name::GROUP, GROUP);
    let today = framework_api::crd::manifest().replace(framework_api::name::GROUP, GROUP);
    let mut before: Value = serde_saphyr::from_str(&today).unwrap();
    let spec = "/spec/versions/0/schema/openAPIV3Schema/properties/spec";
    let spec = before.pointer_mut(spec).unwrap();
    spec.as_object_mut().unwrap().remove("x-kubernetes-validations").expect("rules of the spec");
    for field in [TTL, DEADLINE] {
        spec["properties"][field] = json!({"type": "integer"});
    }
    let namespace = TestNamespace::with_group("lifetime-stored", GROUP);
    install(&name, &before.to_string());
    namespace.create(&with("odd", &[(TTL, json!(-5)), (DEADLINE, json!(0))])).unwrap();

    install(&name, &today);
    await_until("the rules come into force", || {
        let dry = ["create", "--dry-run=server", "-o=json", "-f=-"];
        namespace.object(&dry, &with("fresh", &[(TTL, json!(-5))])).is_err()
    });
    namespace
        .put_status("odd", &serde_json::to_value(namespace::status("odd")).unwrap())
        .expect("a status write");
    let edit = json!([{"op": "add", "path": "/spec/description", "value": "x"}]);
    namespace.patch("odd", &edit).expect("an unrelated edit");
    let refusal = namespace.patch("odd", &attempts(TTL)[0].1).expect_err("it is fixed all the same");
    assert!(refusal.contains(TTL_FIXED), "{refusal}");
}

fn await_until(what: &str, mut is: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is() {
        assert!(Instant::now() < deadline, "{what}: not within a minute");
    }
}

/// Runs kubectl in the namespace `default`; it must succeed.
fn kubectl(arguments: &[&str], object: &Value) -> Output {
    let mut object = object.clone();
    object["apiVersion"] = framework_api::name::API_VERSION.into();
    object["kind"] = framework_api::name::KIND.into();
    let output = shared().kubectl_as("admin", arguments, &object.to_string()).expect("kubectl runs");
    assert!(output.status.success(), "{}", output.stderr);
    output
}

#[test]
fn a_short_ttl_is_warned_of_when_the_framework_is_created_and_never_later() {
    let namespace = TestNamespace::new("lifetime-warning");
    let create = ["create", "--namespace=lifetime-warning", "-f=-"];
    let dry = [&create[..], &["--dry-run=server"]].concat();
    await_until("the policy comes into force", || {
        kubectl(&dry, &with("probe", &[(TTL, json!(0))])).stderr.contains("Warning")
    });
    for seconds in [0, 5, 59] {
        let name = format!("short{seconds}");
        let output = kubectl(&create, &with(&name, &[(TTL, json!(seconds))]));
        let words = format!(
            "Warning: Validation failed for ValidatingAdmissionPolicy 'frameworkcontroller-short-ttl' with binding \
             'frameworkcontroller-short-ttl': spec.ttlSecondsAfterFinished is {seconds} seconds: so soon after its \
             end the Framework is deleted with its status, perhaps before anybody has read it; give 60 or more, or \
             collect the history"
        );
        assert_eq!(output.stderr.trim(), words);
        assert!(output.stdout.contains(&format!("{name} created")), "{}", output.stdout);
    }
    for (name, fields) in [
        ("minute", &[(TTL, json!(60))][..]),
        ("kept", &[]),
        ("null", &[(TTL, Value::Null)]),
        ("deadline", &[(DEADLINE, json!(1))]),
    ] {
        assert_eq!(kubectl(&create, &with(name, fields)).stderr, "", "{name}");
    }

    let edit = with("short5", &[(TTL, json!(5)), ("description", json!("x"))]);
    let apply = ["apply", "--server-side", "--force-conflicts", "--namespace=lifetime-warning", "-f=-"];
    assert_eq!(kubectl(&apply, &edit).stderr, "", "it is no news");
    let mut object = namespace.get("short5");
    object["status"] = serde_json::to_value(namespace::status("short5")).unwrap();
    let write = ["replace", "--subresource=status", "--namespace=lifetime-warning", "-f=-"];
    assert_eq!(kubectl(&write, &object).stderr, "", "as the controller does");
}

#[test]
fn the_expressions_of_the_policy_are_right_by_the_schema() {
    installed();
    let get = ["get", "validatingadmissionpolicy", "frameworkcontroller-short-ttl", "-o=json"];
    let mut policy = Value::Null;
    await_until("the policy is checked", || {
        policy = serde_json::from_str(&cluster::kubectl(&get, "").expect("it is there")).expect("JSON");
        policy["status"]["observedGeneration"] == policy["metadata"]["generation"]
    });
    assert_eq!(policy.pointer("/status/typeChecking/expressionWarnings"), None);
}

/// A rule that the API server had to evaluate at each status write would cost at each status write.
#[test]
fn the_warning_policy_applies_to_creations_only_and_refuses_nothing() {
    let text = include_str!("../../deploy/base/short_ttl_policy.yaml");
    let [policy, binding]: [Value; 2] =
        serde_saphyr::from_multiple(text).expect("YAML").try_into().expect("two objects");
    let rules = &policy["spec"]["matchConstraints"]["resourceRules"];
    assert_eq!(rules.as_array().expect("rules").len(), 1);
    assert_eq!(rules[0]["operations"], json!(["CREATE"]));
    assert_eq!(rules[0]["resources"], json!(["frameworks"]), "not their status");
    assert_eq!(policy["spec"]["failurePolicy"], "Ignore");
    assert_eq!(binding["spec"]["validationActions"], json!(["Warn"]));
    assert_eq!(binding["spec"]["policyName"], policy["metadata"]["name"]);
}
