//! A Pod leaves its Node when the Node is drained or tainted, or when the Pod is evicted. Its attempt ends as
//! that of any Pod that others delete: PodExternalDeleted, a transient failure. Deletion of the Node is
//! different.

use framework_testcluster::shared;
use serde_json::json;

use crate::cluster::{self, code, completed, kubectl, manifest, namespace, running};

/// The input of kubectl as an administrator.
fn kubectl_with(arguments: &[&str], input: &str) {
    let output = shared().kubectl_as("admin", arguments, input).expect("kubectl runs");
    assert!(output.status.success(), "kubectl {arguments:?}: {}", output.stderr);
}

/// A Node for the Pods of one test: others do not tolerate its taint.
fn node(name: &str) {
    let room = json!({ "cpu": "10", "memory": "10Gi", "pods": "10" });
    let node = json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": { "kwok.x-k8s.io/node": "fake" },
            "labels": { "kubernetes.io/hostname": name, "type": "kwok" },
        },
        "spec": { "taints": [{ "key": "only", "value": name, "effect": "NoSchedule" }] },
        "status": { "capacity": room, "allocatable": room },
    });
    kubectl_with(&["create", "-f", "-"], &node.to_string());
    kubectl(&["wait", "--for=condition=Ready", "--timeout=60s", &format!("node/{name}")]);
}

/// Runs a Framework whose Pod is on that Node, and has its Pod removed by others.
fn assert_ends_as_deleted(name: &str, remove: impl FnOnce(&str)) {
    assert_ends_as(&[(-101, "PodExternalDeleted")], name, remove);
}

fn assert_ends_as(expected: &[(i32, &str)], name: &str, remove: impl FnOnce(&str)) {
    let ns = namespace(name);
    node(name);
    let toleration = json!([{ "key": "only", "operator": "Equal", "value": name, "effect": "NoSchedule" }]);
    manifest("job")
        .role("a", 1, &[])
        .last_role(|role| {
            let spec = &mut role["task"]["pod"]["spec"];
            spec["nodeSelector"] = json!({ "kubernetes.io/hostname": name });
            spec["tolerations"] = toleration;
        })
        .create(&ns);
    running(&ns, "job", 1);
    remove(&ns);
    let ended = completed(&ns, "job");
    let (code, phrase) = code(&ended);
    assert!(expected.contains(&(code, &phrase)), "{code} {phrase}");
    cluster::assert_nothing_is_left(&ns, "job");
    kubectl(&["delete", "node", name, "--ignore-not-found"]);
}

#[test]
fn draining_a_node_ends_its_tasks_as_deleted_by_others() {
    assert_ends_as_deleted("drained", |_| {
        kubectl(&["drain", "drained", "--ignore-daemonsets", "--timeout=60s"]);
    });
}

/// Deletes a Node, and waits until Kubernetes has deleted its Pods. The cluster's own controller manager does
/// not do this: other tests bind Pods to Nodes that do not exist.
fn delete_node(name: &str) {
    let cluster = shared();
    let program = cluster.programs().join("kube-controller-manager");
    let kubeconfig = format!("--kubeconfig={}", cluster.kubeconfig_path().display());
    let only = "--controllers=pod-garbage-collector-controller";
    let arguments = [only, &kubeconfig, "--leader-elect=false", "--secure-port=0"].map(str::to_owned);
    kubectl(&["delete", "node", name]);
    let collector = cluster.host("pod-collector", &program, &arguments, cluster.dir()).expect("it starts");
    kubectl(&["wait", "--for=delete", "--timeout=120s", "pod/job-a-0", "--namespace", name]);
    cluster.kill_hosted(collector).expect("it was running");
}

#[test]
fn deleting_a_node_ends_its_tasks_with_a_transient_failure() {
    // Kubernetes marks the Pod as failed and then deletes it: the controller may see both at once.
    let ends = [(-1008, "PodNodeDeleted"), (-101, "PodExternalDeleted")];
    assert_ends_as(&ends, "removed", |_| delete_node("removed"));
}

#[test]
fn a_taint_that_evicts_ends_the_tasks_of_its_node_as_deleted_by_others() {
    assert_ends_as_deleted("tainted", |_| {
        kubectl(&["taint", "node", "tainted", "leave=now:NoExecute"]);
    });
}

#[test]
fn an_evicted_pod_ends_its_task_as_deleted_by_others() {
    assert_ends_as_deleted("evicted", |ns| {
        let path = format!("/api/v1/namespaces/{ns}/pods/job-a-0/eviction");
        let eviction = json!({
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": { "name": "job-a-0", "namespace": ns },
        });
        kubectl_with(&["create", "--raw", &path, "-f", "-"], &eviction.to_string());
    });
}
