//! The components that narrow the controller's rights, on a real API server that enforces them. The program
//! runs as its own account, with the arguments and the config file of the Deployment. No request of it is
//! refused.

use framework_api::queue::QUEUE_NAME_LABEL;
use framework_api::{Framework, State};
use framework_programs::workspace::root;
use framework_testcluster::running::Running;
use framework_testcluster::{Cluster, Component, Options};
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};

use crate::cluster::{Manifest, await_our_kinds_by, block_on, manifest, until};
use crate::program;

/// The account of the controller.
pub const ACCOUNT: &str = "system:serviceaccount:frameworkcontroller:frameworkcontroller";

/// The overlay that docs/operations.md shows for one namespace.
fn shown() -> &'static str {
    let page = include_str!("../../docs/operations.md");
    let section = page.split("\n## Narrower permissions\n").nth(1).expect("the section");
    section.split("```yaml\n").nth(1).and_then(|block| block.split("```").next()).expect("an overlay")
}

/// A cluster with an overlay installed, and the namespaces `team-a` and `team-b`.
pub struct Installed {
    pub cluster: Cluster,
    objects: Vec<Value>,
}

impl Installed {
    pub fn start(overlay: &str) -> Installed {
        let cluster = Cluster::start(Options::default()).expect("a cluster of its own");
        let directory = tempfile::tempdir().expect("a directory");
        // A path relative to the overlay: kustomize takes no other one.
        let up = "../".repeat(directory.path().components().count() - 1);
        let text = overlay.replace("path/to/", &format!("{up}{}/", root().display()));
        std::fs::write(directory.path().join("kustomization.yaml"), text).expect("the file is written");
        let kubectl = |arguments: &[&str], input: &str| kubectl(&cluster, arguments, input);
        let rendered = kubectl(&["kustomize", directory.path().to_str().expect("UTF-8")], "");
        for name in ["team-a", "team-b"] {
            block_on(cluster.namespace(name)).expect("the namespace gets ready");
        }
        let crds = root().join("deploy/crds");
        kubectl(&["apply", "--server-side", "-f", crds.to_str().expect("UTF-8")], "");
        await_our_kinds_by(&block_on(async { cluster.client() }));
        kubectl(&["apply", "--server-side", "-f=-"], &rendered);
        // The garbage collector discovers a new kind within half a minute, or when it starts.
        let restarted = cluster.stop(Component::ControllerManager);
        restarted.and_then(|()| cluster.launch(Component::ControllerManager)).expect("it starts");
        Installed { cluster, objects: serde_saphyr::from_multiple(&rendered).expect("YAML") }
    }

    fn object(&self, kind: &str) -> &Value {
        self.objects.iter().find(|object| object["kind"] == kind).expect(kind)
    }

    /// Starts the controller as its account, in the way of the Deployment.
    pub fn controller(&self) -> Running {
        let directory = tempfile::tempdir().expect("a directory");
        let file = self.object("ConfigMap")["data"]["frameworkcontroller.yaml"].as_str().expect("a file");
        std::fs::write(directory.path().join("frameworkcontroller.yaml"), file).expect("it is written");
        let token =
            kubectl(&self.cluster, &["create", "token", "frameworkcontroller", "-n=frameworkcontroller"], "");
        let admin = std::fs::read_to_string(self.cluster.kubeconfig_path()).expect("a kubeconfig");
        let mut kubeconfig: Value = serde_saphyr::from_str(&admin).expect("YAML");
        kubeconfig["users"][0]["user"] = json!({"token": token.trim()});
        kubeconfig["contexts"][0]["context"]["namespace"] = json!("frameworkcontroller");
        let path = directory.path().join("kubeconfig");
        std::fs::write(&path, kubeconfig.to_string()).expect("it is written");
        let pod = &self.object("Deployment")["spec"]["template"]["spec"];
        let arguments = pod["containers"][0]["args"].as_array().expect("arguments");
        let arguments = arguments.iter().map(|argument| argument.as_str().expect("text"));
        let arguments: Vec<String> =
            arguments.map(|argument| argument.replace("/etc/frameworkcontroller/", "")).collect();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        program::start_in(directory, &arguments, &[("KUBECONFIG", path.as_os_str())])
    }

    pub fn create(&self, namespace: &str, manifest: &Manifest, queue: Option<&str>) {
        let mut framework = manifest.object();
        framework.metadata.labels =
            queue.map(|queue| [(QUEUE_NAME_LABEL.to_owned(), queue.to_owned())].into());
        let api = self.frameworks(namespace);
        block_on(api.create(&PostParams::default(), &framework)).expect("it is accepted");
    }

    pub fn frameworks(&self, namespace: &str) -> Api<Framework> {
        Api::namespaced(block_on(async { self.cluster.client() }), namespace)
    }

    pub fn succeeds(&self, namespace: &str, name: &str) {
        let api = self.frameworks(namespace);
        until(&format!("{name} is completed"), || {
            let status = block_on(api.get(name)).expect("it is there").status?;
            (status.state == State::Completed).then(|| {
                let completion = status.attempt_status.completion_status.expect("a completion");
                assert_eq!(completion.code, 0, "{name}");
            })
        });
    }

    /// The requests of the controller that the API server refused for want of a right.
    fn forbidden(&self) -> Vec<String> {
        let records = self.cluster.audit().records().expect("an audit log");
        let refused = records.into_iter().filter(|record| record.user == ACCOUNT && record.code == 403);
        refused.map(|record| format!("{} {}", record.verb, record.request_uri)).collect()
    }
}

fn kubectl(cluster: &Cluster, arguments: &[&str], input: &str) -> String {
    let output = cluster.kubectl_as("admin", arguments, input).expect("kubectl runs");
    assert!(output.status.success(), "{arguments:?}: {}", output.stderr);
    output.stdout
}

pub fn ends(name: &str) -> Manifest {
    manifest(name).role("w", 2, &[("exit-code", "0")])
}

pub fn stop(mut program: Running) -> String {
    program.terminate();
    let (code, log) = program.end();
    assert_eq!(code, Some(0), "{log}");
    assert!(!log.contains("a watch failed") && !log.contains("waiting problem="), "{log}");
    log
}

#[test]
fn a_controller_of_one_namespace_leaves_the_others_alone() {
    let installed = Installed::start(shown());
    let queue = "{apiVersion: queue.k8s.io/v1alpha1, kind: Queue, metadata: {name: q}, spec: {}}";
    kubectl(&installed.cluster, &["apply", "--namespace=team-a", "-f=-"], queue);
    installed.create("team-b", &ends("other"), None);
    let mut program = installed.controller();
    program.says("started");
    installed.create("team-a", &ends("first"), None);
    installed.create("team-a", &ends("queued"), Some("q"));
    installed.succeeds("team-a", "first");
    installed.succeeds("team-a", "queued");
    let other = block_on(installed.frameworks("team-b").get("other")).expect("it is there");
    assert!(other.status.is_none(), "{:?}", other.status);
    let maps = kubectl(&installed.cluster, &["get", "configmaps", "-n=team-b", "-o=name"], "");
    assert!(!maps.contains("other"), "{maps}");
    stop(program);
    assert_eq!(installed.forbidden(), [""; 0]);
}

#[test]
fn a_controller_without_queues_needs_no_right_on_their_kinds() {
    let overlay = shown().replace("[path/to/deploy/namespaced]", "[path/to/deploy/without-queues]");
    let overlay = overlay.split("patches:").next().expect("its beginning");
    let installed = Installed::start(overlay);
    let may = ["auth", "can-i", "--list", &format!("--as={ACCOUNT}"), "-n=team-a"];
    let rights = kubectl(&installed.cluster, &may, "");
    for kind in ["queue", "resourcequotas", "jobs", "jobsets", "priorityclasses"] {
        assert!(!rights.contains(kind), "a right on {kind}: {rights}");
    }
    let program = installed.controller();
    for namespace in ["team-a", "team-b"] {
        installed.create(namespace, &ends("queued"), Some("q"));
        installed.succeeds(namespace, "queued");
    }
    let log = stop(program);
    let note = "queueing is off: a Framework that names a queue starts at once";
    assert_eq!(log.matches(note).count(), 1, "{log}");
    assert_eq!(installed.forbidden(), [""; 0]);
}
