//! The manual's section Container EnvironmentVariable: the variables of Pod, ConfigMap and containers.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Container;
use serde_json::json;

use crate::cluster::{self, block_on, manifest, namespace, running};

#[test]
fn containers_annotations_labels_and_placeholders_name_the_task() {
    let ns = namespace("environment");
    let who = "{{FC_FRAMEWORK_NAMESPACE}}/{{FC_FRAMEWORK_NAME}} {{FC_TASKROLE_NAME}} {{FC_TASK_INDEX}} \
               {{FC_CONFIGMAP_NAME}} {{FC_POD_NAME}}";
    manifest("env")
        .role("w", 2, &[])
        .last_role(|role| {
            role["task"]["pod"]["spec"]["initContainers"] = json!([{ "name": "init", "image": "busybox" }]);
            role["task"]["pod"]["spec"]["containers"][0]["env"] = json!([{ "name": "MINE", "value": who }]);
        })
        .create(&ns);
    let framework = running(&ns, "env", 2);
    let status = framework.status.as_ref().expect("a status");
    let attempt = &status.attempt_status;
    let task = status.task("w", 1).expect("the Task");
    let pod = block_on(cluster::pods(&ns).get("env-w-1")).expect("the Pod is there");
    let pod_uid = pod.metadata.uid.clone().expect("a uid");
    let map_uid = attempt.config_map_uid.clone().expect("a uid");

    let expected: BTreeMap<&str, String> = BTreeMap::from([
        ("FC_FRAMEWORK_NAMESPACE", ns.clone()),
        ("FC_FRAMEWORK_NAME", "env".to_owned()),
        ("FC_TASKROLE_NAME", "w".to_owned()),
        ("FC_TASK_INDEX", "1".to_owned()),
        ("FC_CONFIGMAP_NAME", "env-attempt".to_owned()),
        ("FC_POD_NAME", "env-w-1".to_owned()),
        ("FC_FRAMEWORK_UID", framework.metadata.uid.clone().expect("a uid")),
        ("FC_FRAMEWORK_ATTEMPT_ID", "0".to_owned()),
        ("FC_FRAMEWORK_ATTEMPT_INSTANCE_UID", format!("0_{map_uid}")),
        ("FC_CONFIGMAP_UID", map_uid.clone()),
        ("FC_TASKROLE_UID", status.task_roles()[0].instance_uid.clone()),
        ("FC_TASK_UID", task.instance_uid.clone()),
        ("FC_TASK_ATTEMPT_ID", "0".to_owned()),
    ]);
    assert_eq!(attempt.instance_uid.as_deref(), Some(format!("0_{map_uid}").as_str()));
    assert_eq!(task.attempt_status.instance_uid.as_deref(), Some(format!("0_{pod_uid}").as_str()));

    let annotations = pod.metadata.annotations.clone().expect("annotations");
    let labels = pod.metadata.labels.clone().expect("labels");
    for (variable, value) in &expected {
        assert_eq!(annotations.get(*variable), Some(value), "annotation {variable}");
    }
    for variable in ["FC_FRAMEWORK_NAME", "FC_TASKROLE_NAME", "FC_TASK_INDEX"] {
        assert_eq!(labels.get(variable), expected.get(variable), "label {variable}");
    }
    let slot = framework_api::name::slot(framework.metadata.uid.as_deref().expect("a uid")).to_string();
    assert_eq!(labels.get(framework_api::name::SLOT_LABEL), Some(&slot));

    let spec = pod.spec.expect("a spec");
    for container in spec.containers.iter().chain(spec.init_containers.iter().flatten()) {
        hears(container, &expected);
    }
    let mine = spec.containers[0].env.as_ref().and_then(|env| env.last()).expect("the user's own, last");
    assert_eq!(mine.value.as_deref(), Some("environment/env w 1 env-attempt env-w-1"));

    let map = block_on(cluster::config_maps(&ns).get("env-attempt")).expect("the ConfigMap is there");
    let owner = &map.metadata.owner_references.as_ref().expect("an owner")[0];
    assert_eq!(
        (owner.kind.as_str(), owner.controller, owner.block_owner_deletion),
        ("Framework", Some(true), Some(true))
    );
    assert_eq!(map.metadata.finalizers, Some(vec!["foregroundDeletion".to_owned()]));
    let owner = &pod.metadata.owner_references.as_ref().expect("an owner")[0];
    assert_eq!((owner.kind.as_str(), owner.uid.as_str()), ("ConfigMap", map_uid.as_str()));
    cluster::execute(&ns, "env", "Stop");
    cluster::completed(&ns, "env");
}

/// Asserts that a container gets the variables; the values that only its Pod can know are left to the
/// kubelet.
fn hears(container: &Container, expected: &BTreeMap<&str, String>) {
    let env = container.env.clone().expect("variables");
    for (variable, value) in expected {
        let found = env.iter().find(|entry| entry.name == *variable);
        assert_eq!(
            found.and_then(|entry| entry.value.as_ref()),
            Some(value),
            "{variable} in {}",
            container.name
        );
    }
    let uid = env.iter().find(|entry| entry.name == "FC_POD_UID").and_then(|entry| entry.value_from.as_ref());
    let path = uid.and_then(|from| from.field_ref.as_ref()).map(|field| field.field_path.as_str());
    assert_eq!(path, Some("metadata.uid"));
    let instance = env.iter().find(|entry| entry.name == "FC_TASK_ATTEMPT_INSTANCE_UID");
    assert_eq!(instance.and_then(|entry| entry.value.as_deref()), Some("0_$(FC_POD_UID)"));
    assert_eq!(container.termination_message_policy.as_deref(), Some("FallbackToLogsOnError"));
}
