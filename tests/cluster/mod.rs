//! The cluster of the end-to-end tests: a real control plane with `deploy/` installed and the controller
//! beside it, which acts with the rights that `deploy/` grants and no others.
#![allow(dead_code, reason = "each test program uses a part of it")]

pub mod checkers;
pub mod cost;
pub mod halfway;
pub mod history;
pub mod lease;
pub mod plugin;
pub mod queues;
pub mod recording;
pub mod replicas;
pub mod situation;
pub mod snapshots;

use std::fmt::{Debug, Write as _};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use framework_api::queue::{QUEUE_NAME_LABEL, Queue, QueueUnit};
use framework_api::{Framework, State};
use framework_testcluster::{Cluster, Component, shared};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::Resource;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::NamespaceResourceScope;
use kube::runtime::wait::{Condition, await_condition};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

/// How long anything may take that the tests wait for.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// The roles that `deploy/base` binds to the controller's account.
pub const ROLES: [&str; 4] = [
    "frameworkcontroller",
    "frameworkcontroller-priorities",
    "frameworkcontroller-queues",
    "system:auth-delegator",
];

/// Prefix of the annotations that set the fate of a Pod for kwok.
pub const TEST: &str = "test.frameworkcontroller.microsoft.com";

fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| Runtime::new().expect("a runtime starts"))
}

/// Waits for a future on the cluster's own runtime.
pub fn block_on<F: Future>(future: F) -> F::Output {
    runtime().block_on(future)
}

/// A client of the user with all rights. It lives on the cluster's own runtime.
pub fn client() -> kube::Client {
    let _entered = runtime().enter();
    shared().client()
}

/// The cluster with everything of `deploy/` installed, but no controller.
pub fn installed() -> &'static Cluster {
    static INSTALLED: OnceLock<()> = OnceLock::new();
    let cluster = shared();
    INSTALLED.get_or_init(|| {
        let deploy = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy");
        kubectl(&["apply", "--server-side", "-k", deploy]);
        for role in ROLES {
            let (name, role) = (format!("test-{role}"), format!("--clusterrole={role}"));
            kubectl(&["create", "clusterrolebinding", &name, &role, "--user=controller"]);
        }
        // Its rights in the namespace of its Leases, which a controller without sharding lists, too.
        let role = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/base/role.yaml");
        kubectl(&["apply", "--server-side", "--namespace=default", "-f", role]);
        let bind = ["create", "rolebinding", "test-controller", "--namespace=default"];
        kubectl(&[&bind[..], &["--role=frameworkcontroller", "--user=controller"]].concat());
        kubectl(&["wait", "--for=condition=Established", "crd/frameworks.frameworkcontroller.microsoft.com"]);
        await_our_kinds_by(&client());
        // The garbage collector discovers a new kind within half a minute, or when it starts: until then
        // nothing that is deleted in the foreground goes.
        let restarted = cluster.stop(Component::ControllerManager);
        restarted.and_then(|()| cluster.launch(Component::ControllerManager)).expect("it starts");
    });
    cluster
}

/// Waits until the kinds of `deploy/crds` are served: a new resource, and each of an API server that was
/// started again, is refused with 429 until its cache is filled.
pub fn await_our_kinds_by(client: &kube::Client) {
    let deadline = Instant::now() + PATIENCE;
    await_kind::<Framework>(client, deadline);
    await_kind::<Queue>(client, deadline);
    await_kind::<QueueUnit>(client, deadline);
}

fn await_kind<K>(client: &kube::Client, deadline: Instant)
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + DeserializeOwned + Clone + Debug,
{
    let api: Api<K> = Api::namespaced(client.clone(), "default");
    while let Err(error) = block_on(api.list(&ListParams::default())) {
        assert!(Instant::now() < deadline, "{} are not served: {error}", K::plural(&()));
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The cluster with the controller running.
pub fn with_controller() -> &'static Cluster {
    static STARTED: OnceLock<u32> = OnceLock::new();
    let cluster = installed();
    STARTED.get_or_init(|| start_controller("controller", ""));
    cluster
}

/// Starts a controller with further lines in its config file; returns its pid. It ends with the cluster.
/// `FRAMEWORK_CONTROLLER` names another program than the one built with the tests.
/// Unless those lines say otherwise, it may send as much as it likes.
pub fn start_controller(name: &'static str, config: &str) -> u32 {
    start_program(name, &program(), config)
}

/// The controller's program.
pub fn program() -> PathBuf {
    let named = std::env::var_os("FRAMEWORK_CONTROLLER").map(PathBuf::from);
    named.unwrap_or_else(|| env!("CARGO_BIN_EXE_frameworkcontroller").into())
}

/// The same with a program that is the controller, or becomes it.
pub fn start_program(name: &'static str, program: &Path, config: &str) -> u32 {
    start_program_with(name, program, &[], config)
}

/// The same with arguments before those of the controller.
pub fn start_program_with(name: &'static str, program: &Path, first: &[String], config: &str) -> u32 {
    let cluster = installed();
    let kubeconfig = cluster.kubeconfig_for("controller").expect("the user exists");
    // Tests read metrics without a token; the rights to read them have a test of their own.
    let mut text = format!("kubeConfigFilePath: {}\nmetricsAuthorization: false\n", kubeconfig.display());
    if !config.contains("kubeClientQps") {
        text.push_str("kubeClientQps: 2000\nkubeClientBurst: 2000\n");
    }
    let defaults = framework_api::pod_failure::DEFAULT_CONFIG;
    let rules = defaults.find("\npodFailureSpec:").expect("the default config has rules");
    let rules = if config.contains("podFailureSpec:") { "" } else { &defaults[rules..] };
    write!(text, "{config}\n{rules}").expect("a string takes it");
    let path = cluster.dir().join(format!("{name}.yaml"));
    std::fs::write(&path, text).expect("the config file is written");
    let arguments =
        ["--config".to_owned(), path.display().to_string(), "--metrics-address=127.0.0.1:0".to_owned()];
    situation::hosted(name);
    cluster.host(name, program, &[first, &arguments].concat(), cluster.dir()).expect("the controller starts")
}

/// The log of a hosted controller so far.
pub fn log_of(name: &str) -> String {
    let path: PathBuf = installed().dir().join(format!("{name}.log"));
    std::fs::read_to_string(path).unwrap_or_default()
}

/// The output of kubectl; a failure fails the test.
pub fn kubectl(arguments: &[&str]) -> String {
    let output = shared().kubectl(arguments).expect("kubectl runs");
    assert!(output.status.success(), "kubectl {arguments:?}: {}", output.stderr);
    output.stdout
}

/// Creates the objects of a manifest, as a user would.
pub fn apply(namespace: &str, manifest: &str) {
    let arguments = ["apply", "--namespace", namespace, "-f", "-"];
    let output = shared().kubectl_as("admin", &arguments, manifest).expect("kubectl runs");
    assert!(output.status.success(), "{}\n{manifest}", output.stderr);
}

/// A fresh namespace, ready for Pods.
pub fn namespace(name: &str) -> String {
    block_on(with_controller().namespace(name)).expect("the namespace gets ready");
    name.to_owned()
}

/// The Frameworks of a namespace.
pub fn frameworks(namespace: &str) -> Api<Framework> {
    Api::namespaced(client(), namespace)
}

/// The Pods of a namespace.
pub fn pods(namespace: &str) -> Api<Pod> {
    Api::namespaced(client(), namespace)
}

/// The ConfigMaps of a namespace.
pub fn config_maps(namespace: &str) -> Api<ConfigMap> {
    Api::namespaced(client(), namespace)
}

/// A Framework as the tests write it.
#[derive(Clone)]
pub struct Manifest(Value);

/// A Framework that starts at once, with no TaskRoles yet.
pub fn manifest(name: &str) -> Manifest {
    Manifest(json!({
        "apiVersion": "frameworkcontroller.microsoft.com/v1",
        "kind": "Framework",
        "metadata": { "name": name },
        "spec": { "executionType": "Start", "taskRoles": [] },
    }))
}

impl Manifest {
    /// Adds a TaskRole whose Pods have these annotations (without the prefix).
    pub fn role(mut self, name: &str, tasks: u32, annotations: &[(&str, &str)]) -> Self {
        let annotations: serde_json::Map<String, Value> =
            annotations.iter().map(|(key, value)| (format!("{TEST}/{key}"), json!(value))).collect();
        let pod = json!({
            "metadata": { "annotations": annotations },
            "spec": { "restartPolicy": "Never", "containers": [{ "name": "main", "image": "busybox" }] },
        });
        let role = json!({ "name": name, "taskNumber": tasks, "task": { "pod": pod } });
        self.0["spec"]["taskRoles"].as_array_mut().expect("a list").push(role);
        self
    }

    /// The last TaskRole, for changes that have no builder of their own.
    pub fn last_role(mut self, change: impl FnOnce(&mut Value)) -> Self {
        change(self.0["spec"]["taskRoles"].as_array_mut().expect("a list").last_mut().expect("a TaskRole"));
        self
    }

    /// A field of the spec that has no builder of its own.
    pub fn field(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.0["spec"][name] = value.into();
        self
    }

    /// Completion policy of the last TaskRole.
    pub fn policy(self, min_failed: i32, min_succeeded: i32) -> Self {
        self.last_role(|role| {
            role["frameworkAttemptCompletionPolicy"] =
                json!({ "minFailedTaskCount": min_failed, "minSucceededTaskCount": min_succeeded });
        })
    }

    /// Retry policy of the Tasks of the last TaskRole.
    pub fn task_retry(self, fancy: bool, max: i32) -> Self {
        let policy = json!({ "fancyRetryPolicy": fancy, "maxRetryCount": max });
        self.last_role(|role| role["task"]["retryPolicy"] = policy)
    }

    /// Retry policy of the Framework.
    pub fn retry(mut self, fancy: bool, max: i32) -> Self {
        self.0["spec"]["retryPolicy"] = json!({ "fancyRetryPolicy": fancy, "maxRetryCount": max });
        self
    }

    /// A number in the spec, such as a deadline.
    pub fn set(mut self, field: &str, value: i64) -> Self {
        self.0["spec"][field] = json!(value);
        self
    }

    /// Waits in this queue of its namespace.
    pub fn queue(mut self, name: &str) -> Self {
        self.0["metadata"]["labels"][QUEUE_NAME_LABEL] = name.into();
        self
    }

    /// The object itself.
    pub fn object(&self) -> Framework {
        serde_json::from_value(self.0.clone()).expect("a Framework")
    }

    /// Its text, as a user would have it in a file.
    pub fn text(&self) -> String {
        self.0.to_string()
    }

    /// Creates it.
    pub fn create(&self, namespace: &str) -> Framework {
        block_on(frameworks(namespace).create(&PostParams::default(), &self.object()))
            .expect("it is accepted")
    }
}

/// Asks again and again until there is an answer.
pub fn until<T>(what: &str, mut is: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = is() {
            return found;
        }
        assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// As `await_condition`, and begins again when a watch fails. That says nothing about the object: an API
/// server refuses or ends watches when the definition of a kind has changed, and when it has just started.
pub async fn await_object<K>(api: Api<K>, name: &str, is: impl Condition<K> + Copy) -> Option<K>
where
    K: Resource + DeserializeOwned + Clone + Debug + Send + 'static,
{
    let deadline = Instant::now() + PATIENCE;
    loop {
        match await_condition(api.clone(), name, is).await {
            Ok(object) => return object,
            // The output of a test that fails shows it.
            Err(error) => println!("the watch of {name} begins again: {error}"),
        }
        assert!(Instant::now() < deadline, "no watch of {name} lasts");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Waits until a Framework is as asked, and returns it.
pub fn wait(namespace: &str, name: &str, what: &str, is: impl Fn(&Framework) -> bool) -> Framework {
    let condition = |seen: Option<&Framework>| seen.is_some_and(&is);
    let waited = block_on(async {
        tokio::time::timeout(PATIENCE, await_object(frameworks(namespace), name, condition)).await
    });
    waited.ok().flatten().unwrap_or_else(|| {
        let situation = situation::situation(namespace);
        panic!("{name} is not {what} after {PATIENCE:?}:\n{situation}")
    })
}

/// Waits until a Framework is Completed.
pub fn completed(namespace: &str, name: &str) -> Framework {
    wait(namespace, name, "Completed", |framework| state(framework) == Some(State::Completed))
}

/// Waits until so many Tasks of a Framework run.
pub fn running(namespace: &str, name: &str, tasks: i32) -> Framework {
    wait(namespace, name, "running", |framework| {
        let counts = framework.status.as_ref().and_then(|status| status.task_counts);
        counts.is_some_and(|counts| counts.running == tasks)
    })
}

/// State of a Framework.
pub fn state(framework: &Framework) -> Option<State> {
    framework.status.as_ref().map(|status| status.state)
}

/// Completion code and phrase of a Framework's current attempt.
pub fn code(framework: &Framework) -> (i32, String) {
    let end = framework.status.as_ref().and_then(|status| status.attempt_status.completion_status.as_ref());
    end.map(|end| (end.code, end.phrase.clone())).expect("the attempt has ended")
}

/// Changes `spec.executionType` by JSON patch, as the manual does.
pub fn execute(namespace: &str, name: &str, kind: &str) {
    let patch = json!([{ "op": "replace", "path": "/spec/executionType", "value": kind }]).to_string();
    kubectl(&["patch", "framework", name, "--namespace", namespace, "--type=json", "-p", &patch]);
}

/// Deletes a Framework in the foreground, and does not wait.
pub fn delete(namespace: &str, name: &str) {
    let foreground = ["--cascade=foreground", "--wait=false"];
    kubectl(&[&["delete", "framework", name, "--namespace", namespace], &foreground[..]].concat());
}

/// Changes the number of Tasks of the first TaskRole by JSON patch.
pub fn task_number(namespace: &str, name: &str, number: u32) {
    let patch =
        format!(r#"[{{"op": "replace", "path": "/spec/taskRoles/0/taskNumber", "value": {number}}}]"#);
    kubectl(&["patch", "fw", name, "--namespace", namespace, "--type=json", "-p", &patch]);
}

/// Changes a spec by merge patch.
pub fn merge(namespace: &str, name: &str, spec: Value) {
    let patch = Patch::Merge(json!({ "spec": spec }));
    block_on(frameworks(namespace).patch(name, &PatchParams::default(), &patch)).expect("it is accepted");
}

/// Deletes a Pod as another user would.
pub fn delete_pod(namespace: &str, name: &str) {
    block_on(pods(namespace).delete(name, &DeleteParams::default())).expect("it is there");
}

/// Asserts that nothing of a Framework is left but itself.
pub fn assert_nothing_is_left(namespace: &str, name: &str) {
    let selected = ListParams::default().labels(&format!("FC_FRAMEWORK_NAME={name}"));
    let left = block_on(pods(namespace).list(&selected)).expect("a list").items;
    assert!(left.is_empty(), "Pods of {name} are left over: {left:#?}");
    let left = block_on(config_maps(namespace).list(&selected)).expect("a list").items;
    assert!(left.is_empty(), "ConfigMaps of {name} are left over: {left:#?}");
}
