//! A user's template becomes the Pod and the ConfigMap that the contract describes.

use expect_test::expect;
use proptest::prelude::*;

use super::*;

const ATTEMPT: AttemptContext<'static> = AttemptContext {
    framework_namespace: "team",
    framework_name: "job",
    framework_uid: "fw-uid",
    attempt_id: 2,
    config_map_name: "job-attempt",
    queue: None,
};

const CONTEXT: PodContext<'static> = PodContext {
    attempt: ATTEMPT,
    attempt_instance_uid: "2_cm-uid",
    config_map_uid: "cm-uid",
    task_role_name: "worker",
    task_role_uid: "role-uid",
    task_index: 7,
    task_uid: "task-uid",
    task_attempt_id: 3,
    pod_name: "job-worker-7",
};

/// The thirteen variables that a Pod gets by value.
const VARIABLES: [(&str, &str); 13] = [
    ("FC_FRAMEWORK_NAMESPACE", "team"),
    ("FC_FRAMEWORK_NAME", "job"),
    ("FC_TASKROLE_NAME", "worker"),
    ("FC_TASK_INDEX", "7"),
    ("FC_CONFIGMAP_NAME", "job-attempt"),
    ("FC_POD_NAME", "job-worker-7"),
    ("FC_FRAMEWORK_UID", "fw-uid"),
    ("FC_FRAMEWORK_ATTEMPT_ID", "2"),
    ("FC_FRAMEWORK_ATTEMPT_INSTANCE_UID", "2_cm-uid"),
    ("FC_CONFIGMAP_UID", "cm-uid"),
    ("FC_TASKROLE_UID", "role-uid"),
    ("FC_TASK_UID", "task-uid"),
    ("FC_TASK_ATTEMPT_ID", "3"),
];

fn render(template: Value) -> Value {
    render_pod(template, &CONTEXT)
}

/// The environment of every container, without the user's own.
fn our_env() -> Vec<Value> {
    let mut env: Vec<Value> =
        VARIABLES.iter().map(|(name, value)| json!({ "name": name, "value": value })).collect();
    env.push(json!({ "name": "FC_POD_UID", "valueFrom": { "fieldRef": { "fieldPath": "metadata.uid" } } }));
    env.push(json!({ "name": "FC_TASK_ATTEMPT_INSTANCE_UID", "value": "3_$(FC_POD_UID)" }));
    env
}

#[test]
fn a_config_map_says_which_attempt_it_stands_for() {
    expect![[r#"
        {
          "apiVersion": "v1",
          "kind": "ConfigMap",
          "metadata": {
            "annotations": {
              "FC_CONFIGMAP_NAME": "job-attempt",
              "FC_FRAMEWORK_ATTEMPT_ID": "2",
              "FC_FRAMEWORK_NAME": "job",
              "FC_FRAMEWORK_NAMESPACE": "team",
              "FC_FRAMEWORK_UID": "fw-uid"
            },
            "finalizers": [
              "foregroundDeletion"
            ],
            "labels": {
              "FC_FRAMEWORK_NAME": "job",
              "frameworkcontroller.microsoft.com/slot": "209"
            },
            "name": "job-attempt",
            "namespace": "team",
            "ownerReferences": [
              {
                "apiVersion": "frameworkcontroller.microsoft.com/v1",
                "blockOwnerDeletion": true,
                "controller": true,
                "kind": "Framework",
                "name": "job",
                "uid": "fw-uid"
              }
            ]
          }
        }"#]]
    .assert_eq(&serde_json::to_string_pretty(&render_config_map(&ATTEMPT)).unwrap());
}

#[test]
fn a_pod_says_which_task_attempt_it_stands_for() {
    let pod = render(json!({ "spec": { "containers": [{ "name": "main" }] } }));
    assert_eq!((&pod["apiVersion"], &pod["kind"]), (&json!("v1"), &json!("Pod")));
    let metadata = &pod["metadata"];
    assert_eq!((&metadata["name"], &metadata["namespace"]), (&json!("job-worker-7"), &json!("team")));
    let annotations: Map<String, Value> =
        VARIABLES.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
    assert_eq!(metadata["annotations"], Value::Object(annotations));
    assert_eq!(
        metadata["labels"],
        json!({
            "FC_FRAMEWORK_NAME": "job", "FC_TASKROLE_NAME": "worker", "FC_TASK_INDEX": "7",
            name::SLOT_LABEL: name::slot("fw-uid").to_string(),
        })
    );
    let owner = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "name": "job-attempt", "uid": "cm-uid",
        "controller": true, "blockOwnerDeletion": true,
    });
    assert_eq!(metadata["ownerReferences"], json!([owner]));
    let container =
        json!({ "name": "main", "env": our_env(), "terminationMessagePolicy": "FallbackToLogsOnError" });
    assert_eq!(pod["spec"], json!({ "containers": [container] }));
}

#[test]
fn the_other_fields_of_the_template_stay() {
    let other = json!({ "apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u" });
    let pod = render(json!({
        "metadata": {
            "name": "mine", "namespace": "mine", "generateName": "g",
            "labels": { "a": "b", "FC_TASK_INDEX": "mine" },
            "annotations": { "c": "d", "FC_POD_NAME": "mine" },
            "ownerReferences": [other],
        },
        "spec": { "nodeName": "n", "containers": [] },
    }));
    let metadata = &pod["metadata"];
    assert_eq!((&metadata["name"], &metadata["namespace"]), (&json!("job-worker-7"), &json!("team")));
    assert_eq!((&metadata["generateName"], &metadata["labels"]["a"]), (&json!("g"), &json!("b")));
    assert_eq!(
        (&metadata["annotations"]["c"], &metadata["labels"]["FC_TASK_INDEX"]),
        (&json!("d"), &json!("7"))
    );
    assert_eq!(metadata["annotations"]["FC_POD_NAME"], "job-worker-7");
    let owners = metadata["ownerReferences"].as_array().unwrap();
    assert_eq!((owners.len(), &owners[0], &owners[1]["uid"]), (2, &other, &json!("cm-uid")));
    assert_eq!(pod["spec"], json!({ "nodeName": "n", "containers": [] }));
}

#[test]
fn each_of_the_six_placeholders_is_replaced_anywhere() {
    for (name, value) in &VARIABLES[..6] {
        let mark = format!("{{{{{name}}}}}");
        let pod = render(json!({
            "metadata": { "labels": { format!("k-{mark}"): format!("v-{mark}-{mark}") } },
            "spec": { "x": [[{ mark.clone(): format!("a{mark}") }]], "n": 1, "b": true },
        }));
        assert_eq!(pod["metadata"]["labels"][format!("k-{value}")], format!("v-{value}-{value}"));
        assert_eq!(pod["spec"]["x"], json!([[{ *value: format!("a{value}") }]]));
    }
}

#[test]
fn other_braces_stay() {
    let text =
        |text: &str| render(json!({ "spec": { "x": text } }))["spec"]["x"].as_str().unwrap().to_owned();
    for (name, _) in &VARIABLES[6..] {
        assert_eq!(text(&format!("{{{{{name}}}}}")), format!("{{{{{name}}}}}"), "not a placeholder");
    }
    for same in [
        "{{FC_POD_UID}}",
        "{{fc_pod_name}}",
        "{{ FC_POD_NAME }}",
        "{FC_POD_NAME}",
        "{{FC_POD_NAME",
        "{{",
        "}}",
    ] {
        assert_eq!(text(same), same);
    }
    assert_eq!(text("{{{FC_POD_NAME}}}"), "{job-worker-7}");
    assert_eq!(text("{{{{FC_TASK_INDEX}}{{FC_X}}"), "{{7{{FC_X}}");
    assert_eq!(text("é{{FC_TASK_INDEX}}é"), "é7é");
}

#[test]
fn a_replaced_value_is_not_read_again() {
    let attempt =
        AttemptContext { framework_name: "{{FC_TASK_INDEX}}", framework_namespace: "{{FC_", ..ATTEMPT };
    let context = PodContext { attempt, task_role_name: "TASK_INDEX}}", ..CONTEXT };
    let template =
        json!({ "spec": { "x": "{{FC_FRAMEWORK_NAME}} {{FC_FRAMEWORK_NAMESPACE}}{{FC_TASKROLE_NAME}}" } });
    assert_eq!(render_pod(template, &context)["spec"]["x"], "{{FC_TASK_INDEX}} {{FC_TASK_INDEX}}");
}

#[test]
fn every_container_gets_our_variables_before_its_own() {
    let own = json!({ "name": "OWN", "value": "$(FC_TASK_INDEX)/{{FC_TASK_INDEX}}" });
    let pod = render(json!({ "spec": {
        "initContainers": [{ "name": "init", "terminationMessagePolicy": "" }],
        "containers": [{ "name": "a", "env": [own] },
                       { "name": "b", "env": null, "terminationMessagePolicy": "File" }],
    } }));
    let spec = &pod["spec"];
    let mut with_own = our_env();
    with_own.push(json!({ "name": "OWN", "value": "$(FC_TASK_INDEX)/7" }));
    assert_eq!(spec["initContainers"][0]["env"], json!(our_env()));
    assert_eq!(spec["containers"][0]["env"], json!(with_own));
    assert_eq!(spec["containers"][1]["env"], json!(our_env()));
    assert_eq!(spec["initContainers"][0]["terminationMessagePolicy"], "FallbackToLogsOnError");
    assert_eq!(spec["containers"][0]["terminationMessagePolicy"], "FallbackToLogsOnError");
    assert_eq!(spec["containers"][1]["terminationMessagePolicy"], "File", "a set one stays");
}

#[test]
fn a_template_that_makes_no_sense_is_passed_on() {
    for template in [json!(null), json!("x"), json!([1]), json!(3)] {
        assert_eq!(render(template.clone()), template);
    }
    let pod =
        render(json!({ "metadata": "x", "spec": { "containers": { "a": 1 }, "initContainers": ["x", 1] } }));
    assert_eq!(
        pod,
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": "x",
            "spec": { "containers": { "a": 1 }, "initContainers": ["x", 1] },
        })
    );
    let pod = render(json!({
        "metadata": { "labels": 1, "annotations": "x", "ownerReferences": {} },
        "spec": { "containers": [{ "env": "x" }] },
    }));
    let metadata = &pod["metadata"];
    assert_eq!((&metadata["labels"], &metadata["annotations"]), (&json!(1), &json!("x")));
    assert_eq!(
        (&metadata["ownerReferences"], &pod["spec"]["containers"][0]["env"]),
        (&json!({}), &json!("x"))
    );
    assert_eq!(metadata["name"], "job-worker-7");
}

/// A Framework with one Task, and its status once the ConfigMap's UID is recorded.
fn running() -> (Framework, FrameworkStatus) {
    let framework = json!({
        "apiVersion": name::API_VERSION, "kind": name::KIND,
        "metadata": { "name": "job", "namespace": "team", "uid": "fw-uid" },
        "spec": { "taskRoles": [{
            "name": "worker", "taskNumber": 1, "task": { "pod": { "spec": { "x": "{{FC_TASK_INDEX}}" } } },
        }] },
    });
    let retries = json!({ "totalRetriedCount": 0, "accountableRetriedCount": 0, "retryDelaySec": null });
    let now = "2026-01-02T03:04:05Z";
    let task = json!({
        "index": 0, "instanceUID": "task-uid", "startTime": now, "state": "AttemptCreationPending",
        "transitionTime": now, "retryPolicyStatus": retries,
        "attemptStatus": { "id": 3, "startTime": now, "podName": "job-worker-0" },
    });
    let status = json!({
        "startTime": now, "state": "AttemptPreparing", "transitionTime": now, "retryPolicyStatus": retries,
        "attemptStatus": {
            "id": 2, "startTime": now, "instanceUID": "2_cm-uid", "configMapName": "job-attempt",
            "configMapUID": "cm-uid",
            "taskRoleStatuses": [{ "name": "worker", "instanceUID": "role-uid", "taskStatuses": [task] }],
        },
    });
    (serde_json::from_value(framework).unwrap(), serde_json::from_value(status).unwrap())
}

#[test]
fn the_objects_of_an_attempt_follow_from_spec_and_status() {
    let (framework, mut status) = running();
    assert_eq!(config_map_of(&framework, &status), render_config_map(&ATTEMPT));
    let template = framework.spec.task_roles[0].task.pod.read().unwrap();
    let context = PodContext { task_index: 0, pod_name: "job-worker-0", ..CONTEXT };
    assert_eq!(pod_of(&framework, &status, "worker", 0), Some(Ok(render_pod(template, &context))));
    assert_eq!(pod_of(&framework, &status, "worker", 1), None, "no such Task");
    assert_eq!(pod_of(&framework, &status, "worker", -1), None, "no such Task");
    assert_eq!(pod_of(&framework, &status, "server", 0), None, "no such TaskRole");
    status.attempt_status.config_map_uid = None;
    assert_eq!(pod_of(&framework, &status, "worker", 0), None, "nobody to own it");
}

fn any_text() -> impl Strategy<Value = String> {
    let field = prop_oneof![
        Just("metadata"),
        Just("spec"),
        Just("containers"),
        Just("initContainers"),
        Just("env"),
        Just("labels"),
        Just("annotations"),
        Just("ownerReferences"),
        Just("name"),
        Just("terminationMessagePolicy"),
        Just("{{FC_TASK_INDEX}}"),
        Just("{{FC_POD_NAME}}-{{"),
    ];
    prop_oneof![4 => field.prop_map(str::to_owned), 1 => "[{}FC_a\"\\\\é]{0,8}"]
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        any_text().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 5, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(any_text(), inner, 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// A template with the usual fields, each of which may hold anything.
fn any_template() -> impl Strategy<Value = Value> {
    let containers = proptest::collection::vec(any_json(), 0..3).prop_map(Value::from);
    (any_json(), any_json(), prop_oneof![containers, any_json()], any_json()).prop_map(
        |(metadata, labels, containers, env)| {
            json!({
                "metadata": { "labels": labels, "annotations": metadata },
                "spec": { "containers": [{ "env": env }, {}], "initContainers": containers },
            })
        },
    )
}

proptest! {
    #[test]
    fn rendering_any_template_gives_json(template in prop_oneof![any_json(), any_template()]) {
        let pod = render_pod(template.clone(), &CONTEXT);
        let text = serde_json::to_string(&pod).unwrap();
        prop_assert_eq!(&serde_json::from_str::<Value>(&text).unwrap(), &pod);
        prop_assert_eq!(pod.is_object(), template.is_object());
        let _ = template::check(&template.into());
    }

    #[test]
    fn no_placeholder_is_left(template in any_template()) {
        let text = render_pod(template, &CONTEXT).to_string();
        for (name, _) in &VARIABLES[..6] {
            let mark = format!("{{{{{name}}}}}");
            prop_assert!(!text.contains(&mark), "{} in {}", mark, text);
        }
    }

    #[test]
    fn the_users_variables_stay_after_ours(own in proptest::collection::vec(any_json(), 0..4)) {
        let template = json!({ "spec": { "containers": [{ "env": own }] } });
        let pod = render_pod(template, &CONTEXT);
        let env = pod["spec"]["containers"][0]["env"].as_array().unwrap();
        let (ours, users) = env.split_at(15);
        prop_assert_eq!(ours.to_vec(), our_env());
        prop_assert_eq!(users.len(), own.len());
        let variables = variables(&CONTEXT);
        let mut replaced = own;
        replaced.iter_mut().for_each(|own| Placeholders::new(&variables).replace(own));
        prop_assert_eq!(users, replaced.as_slice());
    }
}
