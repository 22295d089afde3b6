//! The manual's section ExecutionType: its two examples, step by step.

use framework_api::State;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::Api;

use crate::cluster::{
    self, apply, block_on, code, completed, execute, kubectl, namespace, running, state, wait,
};

/// The manifest of both examples; they differ in name, executionType and ServiceAccount.
fn example(name: &str, execution: &str, account: &str) -> String {
    format!(
        r#"
apiVersion: frameworkcontroller.microsoft.com/v1
kind: Framework
metadata:
  name: {name}
spec:
  executionType: {execution}
  retryPolicy:
    fancyRetryPolicy: false
    maxRetryCount: 0
  taskRoles:
  - name: a
    taskNumber: 4
    frameworkAttemptCompletionPolicy:
      minFailedTaskCount: 4
      minSucceededTaskCount: 1
    task:
      retryPolicy:
        fancyRetryPolicy: false
        maxRetryCount: 0
      podGracefulDeletionTimeoutSec: 600
      pod:
        spec:
          restartPolicy: Never
          {account}
          containers:
          - name: ubuntu
            image: ubuntu:trusty
            command: ["sh", "-c", "printenv && sleep infinity"]
"#
    )
}

#[test]
fn a_framework_waits_for_what_depends_on_it_before_it_starts() {
    let ns = namespace("prestart");
    apply(&ns, &example("prestart", "Create", "serviceAccountName: prestart"));
    let created =
        wait(&ns, "prestart", "AttemptCreationPending", |f| state(f) == Some(State::AttemptCreationPending));
    let uid = created.metadata.uid.expect("a uid");
    apply(
        &ns,
        &format!(
            "apiVersion: v1
kind: ServiceAccount
metadata:
  name: prestart
  ownerReferences:
  - apiVersion: frameworkcontroller.microsoft.com/v1
    kind: Framework
    name: prestart
    uid: {uid}
    controller: true
    blockOwnerDeletion: true
"
        ),
    );
    execute(&ns, "prestart", "Start");
    running(&ns, "prestart", 4);
    let pod = block_on(cluster::pods(&ns).get("prestart-a-3")).expect("the Pod is there");
    assert_eq!(pod.spec.and_then(|spec| spec.service_account_name).as_deref(), Some("prestart"));

    kubectl(&[
        "delete",
        "framework",
        "prestart",
        "--namespace",
        &ns,
        "--cascade=foreground",
        "--timeout=60s",
    ]);
    kubectl(&["wait", "--for=delete", "serviceaccount/prestart", "--namespace", &ns, "--timeout=60s"]);
    let accounts: Api<ServiceAccount> = Api::namespaced(cluster::client(), &ns);
    assert!(block_on(accounts.get_opt("prestart")).expect("an answer").is_none());
    cluster::assert_nothing_is_left(&ns, "prestart");
}

#[test]
fn a_stopped_framework_stays_to_be_archived_until_it_is_deleted() {
    let ns = namespace("poststop");
    apply(&ns, &example("poststop", "Start", ""));
    running(&ns, "poststop", 4);
    execute(&ns, "poststop", "Stop");
    let stopped = completed(&ns, "poststop");
    assert_eq!(code(&stopped), (-210, "StopFrameworkRequested".to_owned()));
    let attempt = stopped.status.expect("a status").attempt_status;
    assert_eq!(attempt.completion_status.expect("it ended").trigger, None);
    cluster::assert_nothing_is_left(&ns, "poststop");
    kubectl(&["wait", "--for=condition=Failed", "fw/poststop", "--namespace", &ns, "--timeout=60s"]);
    kubectl(&[
        "delete",
        "framework",
        "poststop",
        "--namespace",
        &ns,
        "--cascade=foreground",
        "--timeout=60s",
    ]);
    assert!(block_on(cluster::frameworks(&ns).get_opt("poststop")).expect("an answer").is_none());
}

#[test]
fn a_framework_that_is_created_to_stop_ends_without_a_pod() {
    let ns = namespace("born-stopped");
    apply(&ns, &example("born", "Stop", ""));
    assert_eq!(code(&completed(&ns, "born")), (-210, "StopFrameworkRequested".to_owned()));
    cluster::assert_nothing_is_left(&ns, "born");
}

#[test]
fn a_framework_that_is_stopped_before_it_starts_ends_without_a_pod() {
    let ns = namespace("never-started");
    apply(&ns, &example("waits", "Create", ""));
    wait(&ns, "waits", "AttemptCreationPending", |f| state(f) == Some(State::AttemptCreationPending));
    execute(&ns, "waits", "Stop");
    let stopped = completed(&ns, "waits");
    assert_eq!(code(&stopped), (-210, "StopFrameworkRequested".to_owned()));
    let status = stopped.status.expect("a status");
    assert!(status.attempt_status.config_map_uid.is_none(), "nothing was created for it");
}
