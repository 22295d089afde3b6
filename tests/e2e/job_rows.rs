//! The rows of operators on the real API server, at the same time. Each job waits for quota, is resumed with
//! labels for its Pods, and returns its capacity with its last Pod. The test plays the operators.
//!
//! MPIJobs are there in both versions that have a row, of the same CRD. The real CRDs have one version each,
//! and the test runs once with each of them.
//!
//! Job, JobSet and TrainJob have tests of their own. PyTorchJob has one that begins without its CRD; its row
//! is here if the CRDs are real.

use framework_api::queue::{CONSUMER_LABEL, Phase, QUEUE_NAME_LABEL};
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind};
use serde_json::{Value, json};

use crate::cluster::{self, apply, block_on, client, completed, pods, running, until};
use crate::job_crds::{self, Served};
use crate::job_kinds::{controller, operate, requests, spec, template};
use crate::queue::{furnish, gang, stands, unit, waits_while_held};

const TF_JOB: Served = Served::new("kubeflow.org", "v1", "TFJob", "tfjobs");
const PYTORCH_JOB: Served = Served::new("kubeflow.org", "v1", "PyTorchJob", "pytorchjobs");
const XGBOOST_JOB: Served = Served::new("kubeflow.org", "v1", "XGBoostJob", "xgboostjobs");
const PADDLE_JOB: Served = Served::new("kubeflow.org", "v1", "PaddleJob", "paddlejobs");
const JAX_JOB: Served = Served::new("kubeflow.org", "v1", "JAXJob", "jaxjobs");
pub const MPI_JOB: Served = Served::new("kubeflow.org", "v2beta1", "MPIJob", "mpijobs").also("v1");
const RAY_JOB: Served = Served::new("ray.io", "v1", "RayJob", "rayjobs");
const SPARK_APPLICATION: Served =
    Served::new("sparkoperator.k8s.io", "v1beta2", "SparkApplication", "sparkapplications");
const WORKFLOW: Served = Served::new("argoproj.io", "v1alpha1", "Workflow", "workflows").without_status();

/// Serves the kinds of this test before the controller starts: it looks for others ever more seldom.
pub fn install() {
    let kinds = [TF_JOB, XGBOOST_JOB, PADDLE_JOB, JAX_JOB, MPI_JOB, RAY_JOB, SPARK_APPLICATION, WORKFLOW];
    kinds.iter().for_each(Served::install);
    if job_crds::are_real() {
        PYTORCH_JOB.install();
    }
}

/// A job of a kind, which requests one Pod more than its operator creates.
struct Life {
    kind: Served,
    spec: Value,
    annotations: Value,
    requests: &'static [&'static str],
    /// Where its spec says whether it waits.
    suspend: &'static str,
    /// Where its spec has the labels that its operator gives to a Pod, for each Pod.
    labels: Vec<String>,
    /// Whether these are in Pod templates, which get a label with the UID of the job, too.
    has_templates: bool,
    /// Its status once it has finished.
    ended: Value,
}

/// The two roles of a job, of one and of two Pods.
fn with_roles(kind: Served, field: &str, [first, second]: [&str; 2]) -> Life {
    let replicas = json!({
        first: {"replicas": 1, "template": template("1")},
        second: {"replicas": 2, "template": template("500m")},
    });
    Life {
        kind,
        spec: json!({"runPolicy": {"suspend": true}, field: replicas}),
        annotations: Value::Null,
        requests: &["cpu: 2", "pods: 3"],
        suspend: "/runPolicy/suspend",
        labels: [first, second].map(|role| format!("/{field}/{role}/template/metadata/labels")).into(),
        has_templates: true,
        ended: json!({"conditions": [{"type": "Succeeded", "status": "True"}]}),
    }
}

/// A job whose Pods are not known from it. Its user labels them.
fn by_annotation(kind: Served, mut spec: Value, labels: &str, ended: Value) -> Life {
    let resources = json!({"cpu": "2", "pods": "2"}).to_string();
    spec["suspend"] = json!(true);
    Life {
        kind,
        spec,
        annotations: json!({"frameworkcontroller.microsoft.com/queue-resource": resources}),
        requests: &["cpu: 2", "pods: 2"],
        suspend: "/suspend",
        labels: vec![labels.to_owned()],
        has_templates: false,
        ended,
    }
}

fn spark_application() -> Life {
    let spec = json!({
        "type": "Python", "sparkVersion": "4.0.0", "mainApplicationFile": "local:///a.py",
        "driver": {"labels": {QUEUE_NAME_LABEL: "q"}}, "executor": {},
    });
    let ended = json!({"applicationState": {"state": "COMPLETED"}, "driverInfo": {}});
    by_annotation(SPARK_APPLICATION, spec, "/driver/labels", ended)
}

fn workflow() -> Life {
    let spec = json!({"podMetadata": {"labels": {QUEUE_NAME_LABEL: "q"}}});
    by_annotation(WORKFLOW, spec, "/podMetadata/labels", json!({"phase": "Succeeded"}))
}

fn ray_job() -> Life {
    let group = json!({
        "groupName": "a", "rayStartParams": {}, "replicas": 1, "minReplicas": 0, "maxReplicas": 1,
        "template": template("1"),
    });
    let head = json!({"rayStartParams": {}, "template": template("1")});
    let cluster = json!({"headGroupSpec": head, "workerGroupSpecs": [group]});
    let of_groups = ["headGroupSpec", "workerGroupSpecs/0"];
    Life {
        kind: RAY_JOB,
        spec: json!({"suspend": true, "entrypoint": "true", "rayClusterSpec": cluster}),
        annotations: Value::Null,
        requests: &["cpu: 2500m", "memory: 200Mi", "pods: 3"],
        suspend: "/suspend",
        labels: of_groups.map(|group| format!("/rayClusterSpec/{group}/template/metadata/labels")).into(),
        has_templates: true,
        ended: json!({"jobDeploymentStatus": "Complete"}),
    }
}

fn lives() -> Vec<Life> {
    let mut lives = vec![
        with_roles(TF_JOB, "tfReplicaSpecs", ["PS", "Worker"]),
        with_roles(XGBOOST_JOB, "xgbReplicaSpecs", ["Master", "Worker"]),
        with_roles(PADDLE_JOB, "paddleReplicaSpecs", ["Master", "Worker"]),
        with_roles(JAX_JOB, "jaxReplicaSpecs", ["Coordinator", "Worker"]),
        with_roles(MPI_JOB.as_installed(), "mpiReplicaSpecs", ["Launcher", "Worker"]),
        ray_job(),
        spark_application(),
        workflow(),
    ];
    lives.push(if job_crds::are_real() {
        with_roles(PYTORCH_JOB, "pytorchReplicaSpecs", ["Master", "Worker"])
    } else {
        with_roles(MPI_JOB.in_the_second_version(), "mpiReplicaSpecs", ["Launcher", "Worker"])
    });
    lives
}

impl Life {
    fn namespace(&self) -> String {
        self.kind.namespace()
    }

    fn unit(&self) -> String {
        format!("{}-train", self.kind.kind.to_lowercase())
    }

    fn jobs(&self) -> Api<DynamicObject> {
        self.kind.jobs(&self.namespace())
    }

    fn is_suspended(&self) -> bool {
        spec(&self.jobs(), "train").pointer(self.suspend) == Some(&json!(true))
    }

    /// How many Pods its operator creates.
    fn pods(&self) -> u32 {
        u32::try_from(self.labels.len()).expect("a few")
    }

    /// A Framework of the same queue takes its room first.
    fn is_preceded(&self) {
        furnish(&self.namespace(), self.pods() + 2);
        gang(&self.namespace(), "first", 2);
    }

    fn begin(&self) -> DynamicObject {
        let ns = &self.namespace();
        running(ns, "first", 2);
        self.kind.create_annotated(ns, "train", &self.spec, &self.annotations)
    }

    fn waits(&self) {
        let found = stands(&self.namespace(), &self.unit(), Phase::Enqueued, "InsufficientQuota");
        assert_eq!(requests(&found), self.requests, "{}", self.kind.kind);
        assert!(self.is_suspended(), "{}", self.kind.kind);
    }

    /// Its operator creates Pods once it is resumed.
    fn is_resumed(&self, job: &DynamicObject) {
        let ns = &self.namespace();
        until("it goes on", || (!self.is_suspended()).then_some(()));
        let stored = spec(&self.jobs(), "train");
        let owner = self.owner_of_pods(job);
        for (index, labels) in self.labels.iter().enumerate() {
            let labels = stored.pointer(labels).unwrap_or_else(|| panic!("no {labels} in {stored}"));
            assert_eq!(labels[QUEUE_NAME_LABEL], "q", "{stored}");
            if self.has_templates {
                assert_eq!(labels[CONSUMER_LABEL].as_str(), job.metadata.uid.as_deref(), "{stored}");
            }
            let template = json!({"metadata": {"labels": labels}, "spec": template("500m")["spec"]});
            operate(ns, &format!("train-{index}"), &owner, &template);
        }
    }

    /// The job, or a ConfigMap that plays the RayCluster between a RayJob and its Pods.
    fn owner_of_pods(&self, job: &DynamicObject) -> DynamicObject {
        if self.kind.kind != RAY_JOB.kind {
            return job.clone();
        }
        let ns = &self.namespace();
        apply(ns, r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cluster"}}"#);
        let kind = GroupVersionKind::gvk("", "v1", "ConfigMap");
        let kind = ApiResource::from_gvk_with_plural(&kind, "configmaps");
        block_on(Api::namespaced_with(client(), ns, &kind).get("cluster")).expect("it is there")
    }

    /// The room beside its request is free: none of its Pods counts twice.
    fn counts_once(&self) {
        gang(&self.namespace(), "beside", 1);
        running(&self.namespace(), "beside", 1);
    }

    /// It has finished: the quota that it did not use returns. The rest is held as long as its Pods use it,
    /// beside one Pod of each of two Frameworks.
    fn ends(&self) {
        let ns = &self.namespace();
        self.kind.set_status(ns, "train", &self.ended);
        gang(ns, "second", 1);
        running(ns, "second", 1);
        gang(ns, "third", self.pods());
        waits_while_held(ns, "third", self.pods() + 2);
    }

    fn returns_the_rest(&self) {
        let ns = &self.namespace();
        for index in 0..self.labels.len() {
            let name = format!("train-{index}");
            block_on(pods(ns).delete(&name, &DeleteParams::default())).expect("it is there");
        }
        running(ns, "third", self.pods().cast_signed());
        block_on(self.jobs().delete("train", &DeleteParams::default())).expect("it is there");
        until("its unit is gone", || unit(ns, &self.unit()).is_none().then_some(()));
    }
}

#[test]
fn a_job_of_each_operator_waits_is_resumed_and_returns_its_capacity() {
    let _controller = controller();
    let lives = lives();
    lives.iter().for_each(Life::is_preceded);
    let jobs: Vec<_> = lives.iter().map(Life::begin).collect();
    lives.iter().for_each(Life::waits);
    for life in &lives {
        cluster::execute(&life.namespace(), "first", "Stop");
    }
    for (life, job) in lives.iter().zip(&jobs) {
        completed(&life.namespace(), "first");
        life.is_resumed(job);
    }
    lives.iter().for_each(Life::counts_once);
    lives.iter().for_each(Life::ends);
    lives.iter().for_each(Life::returns_the_rest);
}
