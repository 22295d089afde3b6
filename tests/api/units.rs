//! A namespace of a real cluster with the CRDs and the policy of queueing, and the objects of tests in it.

use std::fmt::Debug;
use std::time::{Duration, Instant};

use framework_api::queue::{Queue, QueueUnit};
use kube::api::{Api, ApiResource, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::cluster::installed;

/// The policy as it is shipped.
pub const POLICY: &str = include_str!("../../deploy/base/queue_unit_policy.yaml");
/// How long anything may take.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// A namespace of one test.
pub struct UnitNamespace {
    /// Its units.
    pub units: Api<DynamicObject>,
    /// Its Queues.
    pub queues: Api<DynamicObject>,
}

/// The API server's answer to a request: the object, or why not.
pub type Answer = Result<Value, String>;

/// The object, or why there is none.
pub fn answer(result: Result<DynamicObject, kube::Error>) -> Answer {
    match result {
        Ok(object) => Ok(serde_json::to_value(object).expect("an object is plain data")),
        Err(kube::Error::Api(status)) => Err(status.message.clone()),
        Err(error) => panic!("{error}"),
    }
}

impl UnitNamespace {
    /// Makes the namespace.
    pub async fn new(name: &str) -> UnitNamespace {
        let cluster = installed();
        cluster.namespace(name).await.expect("a namespace");
        let api = |resource: ApiResource| Api::namespaced_with(cluster.client(), name, &resource);
        let namespace = UnitNamespace {
            units: api(ApiResource::erase::<QueueUnit>(&())),
            queues: api(ApiResource::erase::<Queue>(&())),
        };
        let deadline = Instant::now() + PATIENCE;
        // A new resource is refused with 429 until its cache is filled, and a policy comes into force later.
        while namespace.units.list(&ListParams::default()).await.is_err()
            || namespace.queues.list(&ListParams::default()).await.is_err()
            || namespace
                .try_create(&with("probe", "/consumerRef/namespace", json!("elsewhere")))
                .await
                .is_ok()
        {
            assert!(Instant::now() < deadline, "units, queues and the policy never came into force");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        namespace
    }

    fn of(&self, object: &Value) -> &Api<DynamicObject> {
        if object["kind"] == "Queue" { &self.queues } else { &self.units }
    }

    /// Creates a unit or a Queue.
    pub async fn create(&self, object: &Value) -> Answer {
        let typed = serde_json::from_value(object.clone()).expect("an object");
        answer(self.of(object).create(&PostParams::default(), &typed).await)
    }

    /// Whether it would be created.
    pub async fn try_create(&self, object: &Value) -> Answer {
        let typed = serde_json::from_value(object.clone()).expect("an object");
        let dry = PostParams { dry_run: true, ..PostParams::default() };
        answer(self.of(object).create(&dry, &typed).await)
    }

    /// Changes a unit's spec by a merge patch: null takes a field away.
    pub async fn change(&self, name: &str, spec: Value) -> Answer {
        let patch = json!({"spec": spec});
        answer(self.units.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await)
    }

    /// Changes a unit's status by a merge patch, as the controller does.
    pub async fn report(&self, name: &str, status: Value) -> Answer {
        let patch = json!({"status": status});
        answer(self.units.patch_status(name, &PatchParams::default(), &Patch::Merge(&patch)).await)
    }

    /// Makes a unit and brings it into a phase.
    pub async fn unit_in(&self, name: &str, phase: Option<&str>) {
        self.create(&with(name, "/priorityClassName", json!("high"))).await.expect("a unit");
        let steps: &[&str] = match phase {
            None => &[],
            Some("Enqueued") => &["Enqueued"],
            Some(_) => &["Enqueued", "Dequeued"],
        };
        for step in steps {
            self.report(name, json!({"phase": step})).await.expect("a step forward");
        }
    }
}

/// A unit that is accepted.
pub fn unit(name: &str) -> Value {
    json!({
        "apiVersion": "queue.k8s.io/v1alpha1",
        "kind": "QueueUnit",
        "metadata": {"name": name},
        "spec": {
            "consumerRef": {"apiVersion": "batch/v1", "kind": "Job", "name": "job1"},
            "queue": "default",
            "priority": 100,
            "resource": {"cpu": 40},
        },
    })
}

/// A Queue.
pub fn queue(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "queue.k8s.io/v1alpha1", "kind": "Queue", "metadata": {"name": name}, "spec": spec})
}

/// Such a unit with one place of its spec changed.
pub fn with(name: &str, place: &str, value: Value) -> Value {
    let mut unit = unit(name);
    put(&mut unit["spec"], place, value);
    unit
}

/// Sets a place of an object, or takes it away if the value is null.
fn put(object: &mut Value, place: &str, value: Value) {
    let (parent, field) = place.rsplit_once('/').expect("a place begins with /");
    let parent = object.pointer_mut(parent).expect(place).as_object_mut().expect(place);
    // A name of a resource may have a slash.
    let field = field.replace("~1", "/");
    if value.is_null() { drop(parent.remove(&field)) } else { drop(parent.insert(field, value)) }
}

/// Asserts that it is refused with these words; `what` names the case.
pub fn refused(what: &dyn Debug, answer: Answer, words: &str) {
    let refusal = answer.expect_err(&format!("{what:?} is accepted"));
    assert!(refusal.contains(words), "{what:?}: {words:?} is missing in\n{refusal}");
}
