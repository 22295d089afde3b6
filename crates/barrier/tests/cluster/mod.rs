//! A real API server with our CRD, and Frameworks whose status the test writes as the controller would.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use framework_access::{Directions, client};
use framework_barrier::settings::{DEFAULT_MOUNT, Settings};
use framework_barrier::{Error, run};
use framework_testcluster::audit::{Mark, Record};
use framework_testcluster::{Cluster, shared};
use serde_json::{Value, json};

/// How long anything may take that the tests wait for.
pub const PATIENCE: Duration = Duration::from_secs(120);
/// The time between two looks at the condition that a test waits for.
pub const PAUSE: Duration = Duration::from_millis(50);
const GROUP: &str = "/apis/frameworkcontroller.microsoft.com/v1";
const TIME: &str = "2026-01-01T00:00:00Z";

/// The shared cluster, with the CRD.
pub fn cluster() -> &'static Cluster {
    static INSTALLED: OnceLock<()> = OnceLock::new();
    INSTALLED.get_or_init(|| {
        let crds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/crds");
        kubectl(&["apply", "--server-side", "-f", crds.to_str().expect("UTF-8")], "");
        // A new resource is refused until its cache is filled. A LIST with a limit would pass before.
        await_answer(&format!("{GROUP}/frameworks"));
    });
    shared()
}

/// Waits until a GET of this path succeeds.
fn await_answer(path: &str) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let output = shared().kubectl(&["get", "--raw", path]).expect("kubectl runs");
        if output.status.success() {
            return;
        }
        assert!(Instant::now() < deadline, "{path}: {}", output.stderr);
        std::thread::sleep(PAUSE);
    }
}

/// The output of kubectl; a failure fails the test.
pub fn kubectl(arguments: &[&str], input: &str) -> String {
    let output = shared().kubectl_as("admin", arguments, input).expect("kubectl runs");
    assert!(output.status.success(), "kubectl {arguments:?}: {}", output.stderr);
    output.stdout
}

/// A Framework `train` of one server and two workers, in a namespace of its own.
pub struct Job {
    /// Its namespace.
    pub namespace: String,
    begun: Mark,
}

/// A Task in the status: its Pod's IP, and whether a scale-down removes it.
#[derive(Clone, Copy)]
pub struct Task(pub &'static str, pub bool);

/// A Task whose Pod has this IP; empty: none yet.
pub fn at(ip: &'static str) -> Task {
    Task(ip, false)
}

impl Job {
    /// Creates it, without a status.
    pub fn create(namespace: &str) -> Job {
        let begun = cluster().audit().mark().expect("the audit log is there");
        if namespace != "default" {
            kubectl(&["create", "namespace", namespace], "");
        }
        let pod = json!({"spec": {"containers": [{"name": "main", "image": "busybox"}]}});
        let role =
            |name: &str, number: i32| json!({"name": name, "taskNumber": number, "task": {"pod": pod}});
        let framework = json!({
            "apiVersion": "frameworkcontroller.microsoft.com/v1",
            "kind": "Framework",
            "metadata": {"name": "train", "namespace": namespace},
            "spec": {"taskRoles": [role("server", 1), role("worker", 2)]},
        });
        kubectl(&["create", "-f", "-"], &framework.to_string());
        // A barrier asks the API server's cache, and ends if that knows no such Framework.
        await_answer(&format!("{GROUP}/namespaces/{namespace}/frameworks/train?resourceVersion=0"));
        Job { namespace: namespace.to_owned(), begun }
    }

    /// Writes the status that the controller would write for these Tasks, its counts included.
    pub fn status(&self, servers: &[Task], workers: &[Task]) {
        let mut status = status(servers, workers);
        let there: Vec<&Task> = servers.iter().chain(workers).filter(|task| !task.1).collect();
        let addressed = there.iter().filter(|task| !task.0.is_empty()).count();
        status["tasks"] = format!("0/{}", there.len()).into();
        status["taskCounts"] = json!({
            "total": there.len(), "pending": there.len(), "running": 0, "succeeded": 0, "failed": 0,
            "addressed": addressed,
        });
        self.write(&status);
    }

    /// Writes a status.
    pub fn write(&self, status: &Value) {
        let patch = json!([{"op": "add", "path": "/status", "value": status}]).to_string();
        let object = ["patch", "fw", "train", "--namespace", &self.namespace, "--subresource=status"];
        kubectl(&[&object[..], &["--type=json", "-p", &patch]].concat(), "");
    }

    /// Settings for it that tests have the time for.
    pub fn settings(&self) -> Settings {
        Settings {
            namespace: self.namespace.clone(),
            name: "train".to_owned(),
            interval: Duration::from_millis(200),
            timeout: PATIENCE,
            mount: DEFAULT_MOUNT.into(),
            directions: Directions {
                kubeconfig_file: Some(cluster().kubeconfig_path().to_owned()),
                ..Directions::default()
            },
        }
    }

    /// Runs a barrier with these settings as the program does, but writes into `places`.
    pub async fn wait(settings: &Settings, places: &[PathBuf]) -> Result<(), Error> {
        let config = framework_access::find(&settings.directions).await?;
        let client = client::connect(config, "frameworkbarrier/test")?;
        run(settings, client, fastrand::Rng::new(), places).await
    }

    /// The GETs of barriers in its namespace so far: those that asked for a table, and those for all of it.
    pub fn gets(&self) -> (Vec<Record>, Vec<Record>) {
        let records = cluster().audit().since(self.begun).expect("the audit log can be read");
        let ours = |record: &Record| {
            record.namespace == self.namespace && record.user_agent.starts_with("frameworkbarrier/")
        };
        let ours: Vec<Record> = records.into_iter().filter(ours).collect();
        assert!(
            ours.iter().all(|one| (one.verb.as_str(), one.name.as_str()) == ("get", "train")),
            "{ours:#?}"
        );
        ours.into_iter().partition(|record| record.request_uri.contains("includeObject=None"))
    }

    /// Waits until barriers have looked so often.
    pub async fn looked(&self, times: usize) {
        let deadline = Instant::now() + PATIENCE;
        while self.gets().0.len() < times {
            assert!(Instant::now() < deadline, "not even {times} looks: {:#?}", self.gets());
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// A status of these Tasks, as a controller writes it that knows no counts.
pub fn status(servers: &[Task], workers: &[Task]) -> Value {
    let retried = json!({"totalRetriedCount": 0, "accountableRetriedCount": 0, "retryDelaySec": null});
    let task = |(index, Task(ip, leaving)): (usize, &Task)| {
        json!({
            "index": index, "instanceUID": "t", "startTime": TIME, "state": "AttemptPreparing",
            "transitionTime": TIME, "deletionPending": leaving, "retryPolicyStatus": retried,
            "attemptStatus": {
                "id": 0, "startTime": TIME, "podName": "p",
                "podIP": if ip.is_empty() { Value::Null } else { (*ip).into() },
            },
        })
    };
    let role = |name: &str, tasks: &[Task]| {
        let tasks: Vec<Value> = tasks.iter().enumerate().map(task).collect();
        json!({"name": name, "instanceUID": "r", "taskStatuses": tasks})
    };
    json!({
        "startTime": TIME, "state": "AttemptPreparing", "transitionTime": TIME, "retryPolicyStatus": retried,
        "attemptStatus": {
            "id": 0, "startTime": TIME, "configMapName": "train-attempt",
            "taskRoleStatuses": [role("server", servers), role("worker", workers)],
        },
    })
}
