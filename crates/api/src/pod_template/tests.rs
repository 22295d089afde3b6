//! Which templates are kept, and which are dropped before they cost anything.

use super::*;

fn template(spec: Value) -> PodTemplate {
    json!({ "metadata": { "labels": { "a": "b" } }, "spec": spec }).into()
}

fn containers(count: usize, container: Value) -> Value {
    json!({ "containers": vec![container; count] })
}

#[test]
fn a_large_pod_that_kubernetes_runs_is_within_the_limits() {
    let env: Vec<Value> =
        (0..300).map(|n| json!({ "name": format!("V{n}"), "value": "{{FC_POD_NAME}}" })).collect();
    let mounts: Vec<Value> = (0..40).map(|n| json!({ "name": format!("v{n}"), "mountPath": "/x" })).collect();
    let container = json!({
        "name": "main", "image": "busybox", "env": env, "volumeMounts": mounts,
        "args": vec!["x".repeat(100); 500], "resources": { "limits": { "cpu": 1 } },
    });
    let mut spec = containers(10, container);
    spec["volumes"] =
        (0..200).map(|n| json!({ "name": format!("v{n}"), "configMap": { "name": "c" } })).collect();
    let template = template(spec.clone());
    assert_eq!(template.excess(), None);
    assert_eq!(template.read().unwrap()["spec"], spec);
    assert!(template.rendered_bytes() > spec.to_string().len());
}

#[test]
fn a_template_beyond_a_limit_is_dropped_and_names_it() {
    let nested = (0..70).fold(json!(0), |inner, _| json!([inner]));
    let beyond = [
        (template(json!({ "volumes": vec![json!({}); 400_000] })), MAX_OBJECTS, "objects"),
        (template(containers(1_001, Value::Null)), MAX_CONTAINERS, "containers"),
        (template(json!({ "x": vec![0; 60_000] })), MAX_VALUES, "values"),
        (template(json!("{{FC_POD_NAME}}".repeat(10_001))), MAX_PLACEHOLDERS, "placeholders"),
        (template(nested), MAX_DEPTH, "levels of nesting"),
    ];
    for (template, most, of) in beyond {
        assert_eq!(template.excess(), Some(Excess { most, of }));
        assert_eq!(template.read(), Err(Excess { most, of }));
        assert_eq!(template.rendered_bytes(), 0);
        let shown = serde_json::to_string(&template).unwrap();
        assert!(
            shown.starts_with(&format!("{{\"omitted\":\"the template has more than {most} {of}")),
            "{shown}"
        );
    }
}

#[test]
fn init_containers_count_with_the_others() {
    let mut spec = containers(600, json!({}));
    assert_eq!(template(spec.clone()).excess(), None);
    spec["initContainers"] = spec["containers"].clone();
    assert_eq!(template(spec).excess().unwrap().of, "containers");
}

#[test]
fn a_template_is_written_again_as_it_was_read() {
    let json = r#"{"spec":{"b":1,"a":[1.50,"é"]}}"#;
    let read: PodTemplate = serde_json::from_str(json).unwrap();
    assert_eq!(serde_json::to_string(&read).unwrap(), json);
    let value: Value = serde_json::from_str(json).unwrap();
    assert_eq!(serde_json::from_value::<PodTemplate>(value.clone()).unwrap().read().unwrap(), value);
    assert_eq!(serde_json::to_value(&read).unwrap(), value);
}

#[test]
fn an_error_names_the_path_of_the_field() {
    #[derive(Debug, Deserialize)]
    struct Part {
        #[expect(dead_code, reason = "only its type matters")]
        spec: std::collections::BTreeMap<String, u8>,
    }
    let error = template(json!({ "volumes": "x" })).decode::<Part>().unwrap_err();
    assert!(error.starts_with("spec.volumes: "), "{error}");
}
