//! The thinnest path through everything: a process, a real API server, two Tasks that succeed.

use framework_testcluster::{pod, shared};
use serde_json::{Value, json};

use crate::cluster::installed;
use crate::cluster::lease::Alone;
use crate::program;

#[test]
fn two_tasks_run_to_completion_and_nothing_is_left_over() {
    let _alone = Alone::wait();
    let cluster = installed();
    let mut program = program::start(cluster.kubeconfig_path(), "");
    program.says("started");
    let framework = json!({
        "apiVersion": "frameworkcontroller.microsoft.com/v1",
        "kind": "Framework",
        "metadata": {"name": "smoke", "namespace": "default"},
        "spec": {"taskRoles": [{"name": "worker", "taskNumber": 2, "task": {"pod": {
            "metadata": {"annotations": {pod::EXIT_CODE: "0"}},
            "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "none"}]},
        }}}]},
    });
    kubectl(&["apply", "--server-side", "-f=-"], &framework.to_string());

    let wait = ["wait", "--for=jsonpath={.status.state}=Completed", "fw/smoke", "--timeout=60s"];
    let waited = cluster.kubectl(&wait).expect("kubectl runs");
    assert!(waited.status.success(), "{}\n{}", waited.stderr, program.log());
    let framework: Value = serde_json::from_str(&kubectl(&["get", "fw", "smoke", "-o=json"], "")).unwrap();
    let status = framework["status"].clone();
    let end = &status["attemptStatus"]["completionStatus"];
    assert_eq!((&end["code"], &end["phrase"]), (&json!(0), &json!("Succeeded")), "{status:#}");
    let tasks = status["attemptStatus"]["taskRoleStatuses"][0]["taskStatuses"].as_array().expect("Tasks");
    let states: Vec<&Value> = tasks.iter().map(|task| &task["state"]).collect();
    assert_eq!(states, ["Completed", "Completed"], "{status:#}");
    assert_eq!(kubectl(&["get", "pods", "--no-headers"], ""), "");
    let maps = kubectl(&["get", "configmaps", "-o=name"], "");
    assert!(!maps.contains("smoke-attempt"), "{maps}");

    program.terminate();
    let (code, log) = program.end();
    assert_eq!(code, Some(0), "{log}");
    assert!(!log.contains("panicked"), "{log}");
}

fn kubectl(arguments: &[&str], input: &str) -> String {
    let output = shared().kubectl_as("admin", arguments, input).expect("kubectl runs");
    assert!(output.status.success(), "{arguments:?}: {}", output.stderr);
    output.stdout
}
