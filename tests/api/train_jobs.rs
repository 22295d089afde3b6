//! The API server's treatment of the TTL and the deadline of TrainJobs, by the policies of
//! `deploy/train-jobs`: on a CRD that has the fields, and on one that prunes them.

use std::sync::Once;
use std::time::{Duration, Instant};

use framework_testcluster::shared;
use serde_json::{Value, json};

use crate::cluster::{install, installed, kubectl};

const TTL: &str = "ttlSecondsAfterFinished";
const DEADLINE: &str = "activeDeadlineSeconds";

/// The CRD of a version whose TrainJobs have these fields beside the reference to their runtime.
fn version(name: &str, storage: bool, mut fields: Value) -> Value {
    fields["runtimeRef"] = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let status = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "name": name, "served": true, "storage": storage, "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {
            "type": "object",
            "properties": {"spec": {"type": "object", "properties": fields}, "status": status},
        }},
    })
}

/// The policies in force, on a kind whose version `v1alpha1` has the fields. `v1beta1` prunes them.
fn in_force() {
    static IN_FORCE: Once = Once::new();
    IN_FORCE.call_once(|| {
        installed();
        let seconds = json!({"type": "integer"});
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "trainjobs.trainer.kubeflow.org"},
            "spec": {
                "group": "trainer.kubeflow.org", "scope": "Namespaced",
                "names": {"kind": "TrainJob", "plural": "trainjobs"},
                "versions": [
                    version("v1alpha1", true, json!({TTL: seconds, DEADLINE: seconds})),
                    version("v1beta1", false, json!({})),
                ],
            },
        });
        install("trainjobs.trainer.kubeflow.org", &definition.to_string());
        for file in ["policy", "short_ttl_policy", "cluster_role"] {
            let path = format!("{}/deploy/train-jobs/{file}.yaml", env!("CARGO_MANIFEST_DIR"));
            kubectl(&["apply", "--server-side", "-f", &path], "").expect("it is accepted");
        }
        let deadline = Instant::now() + Duration::from_secs(120);
        let probe = job("v1alpha1", "probe", json!({}), json!({TTL: -1})).to_string();
        while try_create(&probe).is_ok() || !warned(&short("v1alpha1")).contains("Warning") {
            assert!(Instant::now() < deadline, "the policies never came into force");
            std::thread::sleep(Duration::from_millis(100));
        }
    });
}

fn job(version: &str, name: &str, annotations: Value, spec: Value) -> Value {
    let mut named = serde_json::Map::new();
    for (annotation, value) in annotations.as_object().expect("annotations") {
        named.insert(format!("frameworkcontroller.microsoft.com/{annotation}"), value.clone());
    }
    json!({
        "apiVersion": format!("trainer.kubeflow.org/{version}"), "kind": "TrainJob",
        "metadata": {"name": name, "annotations": named}, "spec": spec,
    })
}

fn short(version: &str) -> String {
    job(version, "short", json!({TTL: "59"}), json!({})).to_string()
}

fn try_create(object: &str) -> Result<String, String> {
    kubectl(&["create", "--dry-run=server", "-o=name", "-f=-"], object)
}

/// The answer of the API server to a client that creates an object.
fn warned(object: &str) -> String {
    let output = shared().kubectl_as("admin", &["create", "--dry-run=server", "-f=-"], object);
    output.expect("kubectl runs").stderr
}

#[test]
fn values_of_a_train_job_are_within_bounds_or_refused() {
    in_force();
    for (annotations, spec) in [
        (json!({}), json!({})),
        (json!({}), json!({TTL: 0, DEADLINE: 1})),
        (json!({}), json!({TTL: 2_147_483_647, DEADLINE: 3_153_600_000_i64})),
        (json!({TTL: "0", DEADLINE: "1"}), json!({})),
        (json!({TTL: "2147483647", DEADLINE: "3153600000"}), json!({})),
    ] {
        let object = job("v1alpha1", "job", annotations, spec).to_string();
        try_create(&object).unwrap_or_else(|refusal| panic!("{object}: {refusal}"));
    }
    for (annotations, spec, words) in [
        (json!({}), json!({TTL: -1}), "spec.ttlSecondsAfterFinished: give 0 to 2147483647"),
        (json!({}), json!({TTL: 2_147_483_648_i64}), "spec.ttlSecondsAfterFinished: give 0 to 2147483647"),
        (json!({}), json!({DEADLINE: 0}), "spec.activeDeadlineSeconds: give 1 to 3153600000"),
        (json!({}), json!({DEADLINE: 3_153_600_001_i64}), "spec.activeDeadlineSeconds: give 1 to 3153600000"),
        (json!({TTL: "-1"}), json!({}), "the annotation frameworkcontroller.microsoft.com/ttlSeconds"),
        (
            json!({TTL: "2147483648"}),
            json!({}),
            "the annotation frameworkcontroller.microsoft.com/ttlSeconds",
        ),
        (json!({TTL: ""}), json!({}), "the annotation frameworkcontroller.microsoft.com/ttlSeconds"),
        (
            json!({DEADLINE: "0"}),
            json!({}),
            "the annotation frameworkcontroller.microsoft.com/activeDeadline",
        ),
        (
            json!({DEADLINE: "1h"}),
            json!({}),
            "the annotation frameworkcontroller.microsoft.com/activeDeadline",
        ),
    ] {
        let object = job("v1alpha1", "job", annotations, spec).to_string();
        let refusal = try_create(&object).expect_err(&object);
        assert!(refusal.contains(words), "{object}: {refusal}");
    }
}

#[test]
fn ttl_and_deadline_of_a_train_job_are_fixed_when_it_is_created() {
    in_force();
    let (texts, numbers) = (json!({TTL: "60", DEADLINE: "60"}), json!({TTL: 60, DEADLINE: 60}));
    let both = job("v1alpha1", "fixed", texts, numbers);
    kubectl(&["create", "-f=-"], &both.to_string()).expect("it is accepted");
    let none = job("v1alpha1", "free", json!({}), json!({}));
    kubectl(&["create", "-f=-"], &none.to_string()).expect("it is accepted");
    let patch = |name: &str, patch: Value| {
        let patch = format!("--patch={patch}");
        kubectl(&["patch", "trainjobs.v1alpha1.trainer.kubeflow.org", name, "--type=merge", &patch], "")
    };
    let annotated = |name: &str, value: Value| {
        let annotation = format!("frameworkcontroller.microsoft.com/{name}");
        json!({"metadata": {"annotations": {annotation: value}}})
    };
    for name in [TTL, DEADLINE] {
        let other: (&str, [Value; 2]) = ("fixed", [Value::Null, json!(61)]);
        for (job, values) in [other, ("free", [json!(1), json!(61)])] {
            for value in values {
                let refusal = patch(job, json!({"spec": {name: value}})).expect_err(name);
                assert!(refusal.contains(&format!("spec.{name} is fixed")), "{refusal}");
                let text = value.as_i64().map_or(Value::Null, |seconds| seconds.to_string().into());
                let refusal = patch(job, annotated(name, text)).expect_err(name);
                assert!(refusal.contains("are fixed when the TrainJob is created"), "{refusal}");
            }
        }
    }
    for name in ["fixed", "free"] {
        let other = json!({"metadata": {"annotations": {"example.com/a": "b"}}, "spec": {"runtimeRef": {}}});
        patch(name, other).expect("other fields may change");
    }
}

#[test]
fn a_short_ttl_of_a_train_job_is_warned_of_and_accepted() {
    in_force();
    let field = job("v1alpha1", "short", json!({TTL: "3600"}), json!({TTL: 5})).to_string();
    assert!(warned(&field).contains("ttlSecondsAfterFinished is 5 seconds"), "{}", warned(&field));
    assert!(warned(&short("v1alpha1")).contains("ttlSecondsAfterFinished is 59 seconds"));
    for object in [
        job("v1alpha1", "long", json!({TTL: "60"}), json!({})),
        job("v1alpha1", "long", json!({TTL: "5"}), json!({TTL: 60})),
        job("v1alpha1", "long", json!({}), json!({})),
    ] {
        assert_eq!(warned(&object.to_string()), "");
    }
}

#[test]
fn the_policies_hold_on_a_crd_that_prunes_the_fields() {
    in_force();
    let object = job("v1beta1", "pruned", json!({DEADLINE: "0"}), json!({}));
    let refusal = try_create(&object.to_string()).expect_err("out of bounds");
    assert!(refusal.contains("activeDeadlineSeconds: give 1 to"), "{refusal}");
    assert!(warned(&short("v1beta1")).contains("ttlSecondsAfterFinished is 59 seconds"));
    let object = job("v1beta1", "pruned", json!({TTL: "3600", DEADLINE: "7200"}), json!({}));
    try_create(&object.to_string()).expect("it is accepted");
}
