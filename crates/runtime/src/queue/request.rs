//! The requests of the desk. Each write carries what keeps it from hitting anything else than it means.

use std::sync::Arc;

use framework_api::queue::{
    self, ConsumerKind, DEQUEUED, FINALIZER, OVERTAKEN, Phase, QUEUE_NAME_LABEL, Reason,
};
use framework_queue::Ask;
use http::Method;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time as MetaTime;
use serde_json::{Value, json};

use super::object::UnitStanding;
use crate::event::Key;
use crate::request::{Call, JSON, MERGE_PATCH, Target};

/// A request of the desk.
#[derive(Clone, Debug)]
pub enum Request {
    /// POST of the unit of a job, owned by it.
    CreateUnit {
        /// The kind of the job.
        kind: ConsumerKind,
        /// Its name.
        job: Key,
        /// Its UID.
        uid: Arc<str>,
        /// In which queue.
        queue: Arc<str>,
        /// Names its priority.
        class: Option<Arc<str>>,
        /// What it asks for.
        ask: Ask,
    },
    /// DELETE of a unit, guarded by its UID.
    DeleteUnit {
        /// Its name.
        unit: Key,
        /// Guard.
        uid: Arc<str>,
    },
    /// GET of a unit, after a conflict or a reply that never came.
    GetUnit {
        /// Its name.
        unit: Key,
    },
    /// Merge patch of a unit's status, guarded by UID and resourceVersion.
    PatchStatus {
        /// Its name.
        unit: Key,
        /// Guard.
        uid: Arc<str>,
        /// Guard: what was decided was decided from this version.
        resource_version: u128,
        /// The whole status.
        standing: UnitStanding,
    },
    /// Merge patch that takes our finalizer from a unit, guarded by UID and resourceVersion.
    LetGo {
        /// Its name.
        unit: Key,
        /// Guard.
        uid: Arc<str>,
        /// Guard.
        resource_version: u128,
        /// The finalizers that stay.
        finalizers: Vec<String>,
    },
    /// Merge patch that lets a suspended Job begin, guarded by UID and resourceVersion. Its Pods get the
    /// label, because what they use is counted by it.
    ResumeJob {
        /// Its name.
        job: Key,
        /// Guard.
        uid: Arc<str>,
        /// Guard.
        resource_version: u128,
        /// The label.
        queue: Arc<str>,
    },
}

impl Request {
    /// Whether it changes anything.
    pub fn is_write(&self) -> bool {
        !matches!(self, Request::GetUnit { .. })
    }
}

/// Renders a request.
pub fn render(request: &Request) -> Call {
    match request {
        Request::CreateUnit { kind, job, uid, queue, class, ask } => {
            create(*kind, job, uid, queue, class.as_deref(), ask)
        }
        Request::DeleteUnit { unit, uid } => one(unit).delete(uid, None, false),
        Request::GetUnit { unit } => one(unit).get(),
        Request::PatchStatus { unit, uid, resource_version, standing } => {
            let mut target = one(unit);
            target.path.push_str("/status");
            target.resource = "queueunits/status";
            patch(target, guard(uid, *resource_version), "status", status(standing))
        }
        Request::LetGo { unit, uid, resource_version, finalizers } => {
            let mut metadata = guard(uid, *resource_version);
            metadata["finalizers"] = json!(finalizers);
            patch(one(unit), metadata, "spec", json!({}))
        }
        Request::ResumeJob { job, uid, resource_version, queue } => {
            let path = format!("/apis/batch/v1/namespaces/{}/jobs/{}", job.namespace, job.name);
            let labels = json!({"metadata": {"labels": {QUEUE_NAME_LABEL: &**queue}}});
            let spec = json!({"suspend": false, "template": labels});
            patch(Target { path, resource: "jobs" }, guard(uid, *resource_version), "spec", spec)
        }
    }
}

fn guard(uid: &str, resource_version: u128) -> Value {
    json!({"uid": uid, "resourceVersion": resource_version.to_string()})
}

fn patch(target: Target, metadata: Value, part: &str, content: Value) -> Call {
    let body = json!({"metadata": metadata, part: content});
    target.call(Method::PATCH, "patch", MERGE_PATCH, body.to_string().into_bytes())
}

fn units(namespace: &str) -> Target {
    let path = format!("/apis/{}/namespaces/{namespace}/queueunits", queue::API_VERSION);
    Target { path, resource: "queueunits" }
}

fn one(unit: &Key) -> Target {
    let mut target = units(&unit.namespace);
    target.path.push('/');
    target.path.push_str(&unit.name);
    target
}

fn create(of: ConsumerKind, job: &Key, uid: &str, own: &str, class: Option<&str>, ask: &Ask) -> Call {
    let (api_version, kind) = (of.api_version(), of.kind());
    let (namespace, name): (&str, &str) = (&job.namespace, &job.name);
    let mut spec = json!({
        "consumerRef": {
            "apiVersion": api_version, "kind": kind, "name": name, "namespace": namespace, "uid": uid,
        },
        "queue": own,
        "resource": ask.to_list(),
    });
    if let Some(class) = class {
        spec["priorityClassName"] = class.into();
    }
    let body = json!({
        "apiVersion": queue::API_VERSION,
        "kind": queue::UNIT_KIND,
        "metadata": {
            "name": of.unit_name(name),
            "namespace": namespace,
            "labels": {QUEUE_NAME_LABEL: own},
            "finalizers": [FINALIZER],
            "ownerReferences": [{
                "apiVersion": api_version, "kind": kind, "name": name, "uid": uid,
                "controller": true, "blockOwnerDeletion": false,
            }],
        },
        "spec": spec,
    });
    units(namespace).call(Method::POST, "create", JSON, body.to_string().into_bytes())
}

/// The status as the API server stores it. Conditions are a whole in a merge patch: both are always said.
fn status(standing: &UnitStanding) -> Value {
    let time = |time: framework_api::Time| json!(MetaTime(time.timestamp()));
    let reason = standing.reason.unwrap_or(Reason::Waiting);
    let dequeued = standing.phase == Some(Phase::Dequeued);
    let mut conditions = vec![json!({
        "type": DEQUEUED,
        "status": if dequeued { "True" } else { "False" },
        "reason": reason.as_str(),
        "message": standing.message,
        "lastTransitionTime": standing.since.map(time),
    })];
    if let Some(overtaken) = standing.overtaken {
        let reason = if overtaken.reserved { Reason::CapacityReserved } else { Reason::Overtaken };
        conditions.push(json!({
            "type": OVERTAKEN,
            "status": "True",
            "reason": reason.as_str(),
            "message": "others that wait behind it were released, because it did not fit",
            "lastTransitionTime": time(overtaken.since),
        }));
    }
    json!({"phase": standing.phase, "message": standing.message, "conditions": conditions})
}
