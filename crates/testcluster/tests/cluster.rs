//! The promises of the test cluster, on a real control plane.

use std::collections::BTreeMap;
use std::pin::pin;
use std::time::Duration;

use framework_testcluster::{Cluster, audit, pod, shared};
use futures::TryStreamExt;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodStatus};
use kube::api::{Api, DeleteParams, PostParams, WatchEvent, WatchParams};
use serde_json::json;
use tokio::time::{Instant, sleep};

const DEADLINE: Duration = Duration::from_secs(30);

/// A Pod in a namespace of its own.
struct Subject {
    pods: Api<Pod>,
    namespace: String,
    /// The version of the Pod as it was created.
    version: String,
}

impl Subject {
    /// Creates the Pod `p` with two containers in the namespace `name`.
    async fn create(cluster: &Cluster, name: &str, annotations: &[(&str, &str)]) -> Subject {
        cluster.namespace(name).await.unwrap();
        let pods: Api<Pod> = Api::namespaced(cluster.client(), name);
        let annotations: BTreeMap<_, _> = annotations.iter().copied().collect();
        let pod = serde_json::from_value(json!({
            "metadata": { "name": "p", "annotations": annotations },
            "spec": {
                "restartPolicy": "Never",
                "containers": [{ "name": "main", "image": "none" }, { "name": "side", "image": "none" }],
            },
        }))
        .unwrap();
        let created = pods.create(&PostParams::default(), &pod).await.unwrap();
        let version = created.metadata.resource_version.unwrap();
        Subject { pods, namespace: name.to_owned(), version }
    }

    async fn get(&self) -> Option<Pod> {
        self.pods.get_opt("p").await.unwrap()
    }

    /// Polls the Pod until the condition holds; `None` is a Pod that is gone.
    async fn wait(&self, what: &str, condition: impl Fn(Option<&Pod>) -> bool) -> Option<Pod> {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let pod = self.get().await;
            if condition(pod.as_ref()) {
                return pod;
            }
            assert!(
                Instant::now() < deadline,
                "not in time: {what}; the Pod is {:?}",
                pod.map(|pod| pod.status)
            );
            sleep(Duration::from_millis(20)).await;
        }
    }

    async fn wait_phase(&self, phase: &str) -> PodStatus {
        let pod = self.wait(phase, |pod| pod.is_some_and(|pod| phase_of(pod) == phase)).await;
        pod.unwrap().status.unwrap()
    }

    /// The first status with this phase since the creation, however soon another one followed.
    async fn first(&self, phase: &str) -> PodStatus {
        let seconds = DEADLINE.as_secs() as u32;
        let only = WatchParams::default().fields("metadata.name=p").timeout(seconds);
        let mut events = pin!(self.pods.watch(&only, &self.version).await.unwrap());
        loop {
            match events.try_next().await.unwrap() {
                Some(WatchEvent::Modified(pod)) if phase_of(&pod) == phase => return pod.status.unwrap(),
                Some(WatchEvent::Error(error)) => panic!("the Pod cannot be followed: {error:?}"),
                Some(_) => {}
                None => panic!("not in time: {phase}"),
            }
        }
    }

    async fn delete(&self, parameters: &DeleteParams) {
        self.pods.delete("p", parameters).await.unwrap();
    }
}

fn phase_of(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

fn container<'a>(status: &'a PodStatus, name: &str) -> &'a ContainerStatus {
    let statuses = status.container_statuses.as_ref().unwrap();
    statuses.iter().find(|status| status.name == name).unwrap()
}

#[tokio::test]
async fn a_pod_ends_with_the_exit_code_of_its_annotation() {
    let annotations =
        [(pod::EXIT_CODE, "3"), (pod::REASON, "OOMKilled"), (pod::MESSAGE, "said \"so\"\nand left")];
    let status = Subject::create(shared(), "exit-code", &annotations).await.wait_phase("Failed").await;
    let ended = container(&status, "main").state.as_ref().unwrap().terminated.as_ref().unwrap();
    assert_eq!(ended.exit_code, 3);
    assert_eq!(ended.reason.as_deref(), Some("OOMKilled"));
    assert_eq!(ended.message.as_deref(), Some("said \"so\"\nand left"));
    assert!(ended.started_at.is_some() && ended.started_at <= ended.finished_at);
    let beside = container(&status, "side").state.as_ref().unwrap().terminated.as_ref().unwrap();
    assert_eq!((beside.exit_code, beside.reason.as_deref()), (0, Some("Completed")));
}

#[tokio::test]
async fn an_annotation_can_name_a_container() {
    let side = format!("{}.side", pod::EXIT_CODE);
    let status = Subject::create(shared(), "by-name", &[(&side, "7")]).await.wait_phase("Failed").await;
    let code = |name| container(&status, name).state.as_ref().unwrap().terminated.as_ref().unwrap().exit_code;
    assert_eq!((code("main"), code("side")), (0, 7));
}

#[tokio::test]
async fn a_signal_gives_its_exit_code() {
    let status = Subject::create(shared(), "signal", &[(pod::SIGNAL, "9")]).await.wait_phase("Failed").await;
    let ended = container(&status, "main").state.as_ref().unwrap().terminated.as_ref().unwrap();
    assert_eq!((ended.exit_code, ended.signal, ended.reason.as_deref()), (137, Some(9), Some("Error")));
}

#[tokio::test]
async fn a_pod_with_a_run_duration_succeeds_after_it() {
    let annotations = [(pod::START_DELAY, "200ms"), (pod::RUN_DURATION, "1500ms")];
    let began = Instant::now();
    let subject = Subject::create(shared(), "run-duration", &annotations).await;
    let running = subject.first("Running").await;
    assert!(began.elapsed() >= Duration::from_millis(200));
    assert!(running.pod_ip.is_some() && running.start_time.is_some());
    assert!(container(&running, "main").state.as_ref().unwrap().running.is_some());
    subject.wait_phase("Succeeded").await;
    assert!(began.elapsed() >= Duration::from_millis(1700));
}

#[tokio::test]
async fn an_end_can_be_meant_for_one_attempt_of_one_task() {
    let annotations = [(pod::EXIT_CODE, "200"), (pod::ONLY_TASK_INDEX, "1"), (pod::ONLY_TASK_ATTEMPT, "0")];
    for (index, attempt, phase) in [("1", "0", "Failed"), ("0", "0", "Succeeded"), ("1", "1", "Succeeded")] {
        let task = [("FC_TASK_INDEX", index), ("FC_TASK_ATTEMPT_ID", attempt)];
        let namespace = format!("only-{index}-{attempt}");
        Subject::create(shared(), &namespace, &[&annotations[..], &task].concat())
            .await
            .wait_phase(phase)
            .await;
    }
}

#[tokio::test]
async fn a_pod_can_fail_as_a_whole_after_it_ran() {
    let annotations =
        [(pod::POD_REASON, "Evicted"), (pod::POD_MESSAGE, "The node was low on resource: memory.")];
    let subject = Subject::create(shared(), "evicted", &annotations).await;
    let status = subject.wait_phase("Failed").await;
    assert_eq!(status.reason.as_deref(), Some("Evicted"));
    assert_eq!(status.message.as_deref(), Some("The node was low on resource: memory."));
    assert!(status.container_statuses.is_none(), "{:?}", status.container_statuses);
    assert!(status.pod_ip.is_some(), "it had been running");
}

#[tokio::test]
async fn a_pod_can_be_refused_by_its_node() {
    let annotations = [(pod::NEVER_START, "true"), (pod::POD_REASON, "OutOfcpu")];
    let status = Subject::create(shared(), "refused", &annotations).await.wait_phase("Failed").await;
    assert_eq!(status.reason.as_deref(), Some("OutOfcpu"));
    assert!(status.container_statuses.is_none() && status.pod_ip.is_none());
}

#[tokio::test]
async fn a_pod_runs_until_it_is_deleted_and_is_gone_promptly() {
    let subject =
        Subject::create(shared(), "forever", &[(pod::EXIT_CODE, "1"), (pod::RUN_DURATION, "forever")]).await;
    subject.wait_phase("Running").await;
    // A grace period that no test waits for.
    subject.delete(&DeleteParams::default().grace_period(3600)).await;
    subject.wait("the Pod is gone", |pod| pod.is_none()).await;
}

#[tokio::test]
async fn a_hanging_pod_stays_until_it_is_force_deleted() {
    let subject = Subject::create(shared(), "hanging", &[(pod::HANG_TERMINATING, "true")]).await;
    subject.wait_phase("Running").await;
    subject.delete(&DeleteParams::default()).await;
    // Another Pod comes and goes meanwhile: kwok had its chance.
    let other = Subject::create(shared(), "hanging-other", &[]).await;
    other.wait_phase("Running").await;
    other.delete(&DeleteParams::default()).await;
    other.wait("the other Pod is gone", |pod| pod.is_none()).await;
    let pod = subject.get().await.expect("it hangs");
    assert!(pod.metadata.deletion_timestamp.is_some());
    subject.delete(&DeleteParams::default().grace_period(0)).await;
    assert!(subject.get().await.is_none());
}

#[tokio::test]
async fn a_pod_that_never_starts_is_bound_and_pending() {
    let subject = Subject::create(shared(), "never", &[(pod::NEVER_START, "true")]).await;
    subject.wait("the Pod is bound", |pod| pod.unwrap().spec.as_ref().unwrap().node_name.is_some()).await;
    let other = Subject::create(shared(), "never-other", &[]).await;
    other.wait_phase("Running").await;
    assert_eq!(phase_of(&subject.get().await.unwrap()), "Pending");
}

#[tokio::test]
async fn the_audit_log_names_the_creator_of_a_pod() {
    let cluster = shared();
    let mark = cluster.audit().mark().unwrap();
    let subject = Subject::create(cluster, "audited", &[]).await;
    subject.wait_phase("Running").await;
    let started = ("patch".to_owned(), "pods".to_owned(), "status".to_owned());
    let deadline = Instant::now() + DEADLINE;
    // Others see a write before its record is there.
    let (records, counts) = loop {
        let mut records: Vec<audit::Record> = cluster.audit().since(mark).unwrap();
        records.retain(|record| record.namespace == subject.namespace);
        let counts = audit::count(&records, "kwok");
        if counts.contains_key(&started) {
            break (records, counts);
        }
        assert!(Instant::now() < deadline, "its start is not recorded: {counts:?}");
        sleep(Duration::from_millis(20)).await;
    };
    let created = records.iter().find(|record| record.verb == "create" && record.resource == "pods").unwrap();
    assert_eq!((created.code, created.user.as_str(), created.subresource.as_str()), (201, "admin", ""));
    assert_eq!(created.request_object.as_ref().unwrap()["metadata"]["name"], "p");
    assert!(created.resource_version().is_some());
    assert_eq!(counts.get(&started), Some(&1), "{counts:?}");
}

#[tokio::test]
async fn kubectl_works_for_the_admin_and_obeys_rbac_for_others() {
    let cluster = shared();
    let version = cluster.kubectl(&["version"]).unwrap();
    assert!(version.stdout.contains("Client Version: v1.36.3"), "{version:?}");
    assert!(version.stdout.contains("Server Version: v1.36.3"), "{version:?}");
    let refused = cluster.kubectl_as("controller", &["get", "pods"], "").unwrap();
    assert!(
        !refused.status.success() && refused.stderr.contains("User \"controller\" cannot list"),
        "{refused:?}"
    );
    let manifest = "{apiVersion: v1, kind: ConfigMap, metadata: {name: from-stdin}, data: {a: b}}";
    let applied = cluster.kubectl_as("admin", &["apply", "-f", "-"], manifest).unwrap();
    assert_eq!(applied.stdout.trim(), "configmap/from-stdin created", "{applied:?}");
}

#[tokio::test]
async fn a_user_nobody_named_is_an_error() {
    let error = shared().kubeconfig_for("nobody").unwrap_err().to_string();
    assert!(error.contains("no user \"nobody\""), "{error}");
}
