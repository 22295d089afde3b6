//! Manifests as users bring them, with all that surrounds a Framework: Services, an init container with the
//! barrier, GPUs, the scheduler of another project.

use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, PostParams};
use serde_json::json;

use crate::cluster::lease::{Shared, namespace};
use crate::cluster::{
    self, apply, assert_nothing_is_left, block_on, code, completed, execute, kubectl, pods, running, until,
    wait,
};

fn controller() -> Shared {
    Shared::controller("scenarios", "retryBackoffShortRunSec: 0")
}

/// The Pods of a namespace in the order of their names.
fn all(namespace: &str) -> Vec<Pod> {
    block_on(pods(namespace).list(&ListParams::default())).expect("a list").items
}

/// Lets a Pod end with this code.
fn end(namespace: &str, pod: &str, code: u8) {
    let code = format!("{}/exit-code={code}", cluster::TEST);
    let duration = format!("{}/run-duration=100ms", cluster::TEST);
    kubectl(&["annotate", "--overwrite", "pod", pod, "--namespace", namespace, &code, &duration]);
}

#[test]
fn a_stateful_service_keeps_its_names_and_restarts_tasks_that_end() {
    let _controller = controller();
    let ns = namespace("stateful-service");
    apply(&ns, include_str!("../data/scenarios/stateful_service.yaml"));
    running(&ns, "store", 3);
    let names = |all: &[Pod]| -> Vec<String> {
        let spec = |pod: &Pod| pod.spec.clone().expect("a spec");
        let name = |pod: &Pod| format!("{:?}.{:?}", spec(pod).hostname, spec(pod).subdomain);
        assert!(all.iter().all(|pod| spec(pod).active_deadline_seconds.is_none()), "the field is misspelled");
        all.iter().map(name).collect()
    };
    let before = all(&ns);
    let expected = [0, 1, 2].map(|index| format!("Some(\"shard-{index}\").Some(\"store\")"));
    assert_eq!(names(&before), expected);
    until("an Event about the misspelled field", || {
        let field = ["--field-selector=reason=UnknownFieldIgnored", "--no-headers"];
        let events = kubectl(&[&["get", "events", "--namespace", &ns], &field[..]].concat());
        events.contains("ActiveDeadlineSeconds").then_some(())
    });

    for (pod, code) in [("store-shard-0", 0), ("store-shard-2", 1)] {
        end(&ns, pod, code);
    }
    wait(&ns, "store", "running again", |framework| {
        let status = framework.status.as_ref();
        let all = status.map(|status| status.all_tasks().map(|task| task.attempt_status.id).collect());
        let running = status.and_then(|status| status.task_counts).map(|counts| counts.running);
        all == Some(vec![1, 0, 1]) && running == Some(3)
    });
    let after = all(&ns);
    assert_eq!(names(&after), expected);
    assert_eq!(after[1].metadata.uid, before[1].metadata.uid, "the one between them ran on");
    execute(&ns, "store", "Stop");
    assert_eq!(code(&completed(&ns, "store")).0, -210);
    assert_nothing_is_left(&ns, "store");
}

#[test]
fn parameter_servers_are_stopped_when_all_workers_have_succeeded() {
    let _controller = controller();
    let ns = namespace("parameter-servers");
    apply(&ns, include_str!("../data/scenarios/parameter_servers.yaml"));
    running(&ns, "digits", 5);
    for pod in all(&ns) {
        let spec = pod.spec.expect("a spec");
        assert_eq!(spec.service_account_name.as_deref(), Some("addresses"));
        assert_eq!(spec.init_containers.map(|all| all.len()), Some(1));
        let limits = spec.containers[0].resources.as_ref().and_then(|resources| resources.limits.as_ref());
        assert_eq!(limits.map(|limits| limits["nvidia.com/gpu"].0.as_str()), Some("1"));
    }
    for index in 0..3 {
        end(&ns, &format!("digits-worker-{index}"), 0);
    }
    let ended = completed(&ns, "digits");
    assert_eq!(code(&ended).0, 0);
    let status = ended.status.expect("a status");
    let codes: Vec<i32> = status
        .all_tasks()
        .filter_map(|task| task.attempt_status.completion_status.as_ref().map(|end| end.code))
        .collect();
    assert_eq!(codes, [-220, -220, 0, 0, 0]);
    assert_nothing_is_left(&ns, "digits");
}

#[test]
fn pods_for_another_scheduler_wait_for_it_with_their_orders() {
    let _controller = controller();
    let ns = namespace("gang-scheduler");
    let both = include_str!("../data/scenarios/gang_scheduler.yaml");
    let (class, framework) = both.split_once("\n---\n").expect("two documents");
    apply(&ns, class);
    // A Pod is refused as long as the API server's own watch has not shown it the class.
    let probe: Pod = serde_json::from_value(json!({
        "metadata": {"name": "probe"},
        "spec": {"priorityClassName": "gang", "containers": [{"name": "main", "image": "busybox"}]},
    }))
    .expect("a Pod");
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    until("Pods may name the class", || block_on(pods(&ns).create(&dry, &probe)).is_ok().then_some(()));
    apply(&ns, framework);
    wait(&ns, "gang", "preparing", |framework| {
        let tasks = framework.status.iter().flat_map(|status| status.all_tasks());
        tasks.filter(|task| task.state == framework_api::State::AttemptPreparing).count() == 2
    });
    for pod in all(&ns) {
        let order = &pod.metadata.annotations.expect("annotations")["scheduler.example.com/order"];
        assert!(order.ends_with("\ngroup: {name: \"gang\", members: 2}"), "{order}");
        let spec = pod.spec.expect("a spec");
        assert_eq!(spec.scheduler_name.as_deref(), Some("gang-scheduler"));
        assert_eq!((spec.priority, spec.node_name), (Some(500), None));
    }
    execute(&ns, "gang", "Stop");
    assert_eq!(code(&completed(&ns, "gang")).0, -210);
    assert_nothing_is_left(&ns, "gang");
}
