//! Requests of the controller of QueueUnits as they go over the wire.

use http::Method;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time as MetaTime;
use serde_json::{Value, json};

use framework_api::name::SLOT_LABEL;
use framework_api::queue::{
    self, BOUND_TO_ANNOTATION, DEQUEUED, ENQUEUED_ANNOTATION, FINALIZER, HELD_ANNOTATION,
    NAMESPACE_SLOT_LABEL, OVERTAKEN, Phase, QUEUE_NAME_LABEL, Reason,
};
use framework_core::truncate::truncate;
use framework_message::{Key, Slot};
use framework_queueing::{NamedKind, QueueRequest, UNGUARDED, UnitCreation, UnitStatus};

use super::call::{Call, JSON, JSON_PATCH, MERGE_PATCH, Target};
use super::engine::framework_at;
use super::job_lifetime;
use super::resume::{label_templates, resume};

/// The weight of the message of a unit, in bytes of JSON.
const MOST_MESSAGE: usize = 8_192;

/// Renders a request about a QueueUnit, a Queue or a job: its method, path and body. It never fails.
pub fn render(request: &QueueRequest) -> Call {
    match request {
        QueueRequest::CreateUnit(creation) => create(creation),
        QueueRequest::DeleteUnit { unit, uid } => one(unit).delete(uid, None, false),
        QueueRequest::GetUnit { unit } => one(unit).get(),
        QueueRequest::GetFramework { framework } => framework_at(&framework.namespace, &framework.name).get(),
        QueueRequest::ListUnits { namespace, after, limit } => {
            units(namespace).list(*limit, after.as_deref())
        }
        QueueRequest::PutStatus { unit, uid, resource_version, status: standing } => {
            put_status(unit, guard(uid, *resource_version), standing)
        }
        QueueRequest::PatchQueue { queue, uid, counts } => {
            let target = api("queues").objects(&queue.namespace, "queues").segment(&queue.name);
            let count = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
            let status = json!({"waiting": count(counts.waiting), "released": count(counts.released)});
            patch(target.status("queues/status"), json!({"uid": &**uid}), "status", status)
        }
        QueueRequest::RemoveFinalizer { unit, uid, resource_version, finalizers } => {
            let mut metadata = guard(uid, *resource_version);
            metadata["finalizers"] = finalizers.others().collect();
            patch(one(unit), metadata, "spec", json!({}))
        }
        QueueRequest::ReturnCapacity { unit, uid, resource_version, held } => {
            let mut metadata = guard(uid, *resource_version);
            metadata["annotations"] = json!({HELD_ANNOTATION: json!(held.to_list()).to_string()});
            patch(one(unit), metadata, "spec", json!({}))
        }
        QueueRequest::BindUnit { unit, uid, resource_version, framework } => {
            let mut metadata = guard(uid, *resource_version);
            metadata["annotations"] = json!({BOUND_TO_ANNOTATION: format!("{uid}/{framework}")});
            patch(one(unit), metadata, "spec", json!({}))
        }
        QueueRequest::ResumeJob { row, job, with, templates } => {
            let body = resume(row, with, templates).to_string();
            job_lifetime::declared(row, job).call(Method::PATCH, "patch", JSON_PATCH, body.into_bytes())
        }
        QueueRequest::LabelTemplates { row, job, uid, resource_version, labels, templates } => {
            let body = label_templates(uid, *resource_version, labels, templates).to_string();
            job_lifetime::declared(row, job).call(Method::PATCH, "patch", JSON_PATCH, body.into_bytes())
        }
        QueueRequest::DeleteJob { row, job, uid, resource_version } => {
            job_lifetime::delete(row, job, uid, *resource_version)
        }
        QueueRequest::GetChild { job } => job_lifetime::get_child(job),
        QueueRequest::Fail { row, job, uid, resource_version, place, condition } => {
            job_lifetime::fail(row.as_deref(), job, (uid, *resource_version), *place, condition)
        }
    }
}

fn guard(uid: &str, resource_version: u128) -> Value {
    if Some(resource_version) == UNGUARDED {
        return json!({"uid": uid});
    }
    json!({"uid": uid, "resourceVersion": resource_version.to_string()})
}

/// A status write carries no spec: the API server keeps spec and metadata of the stored unit.
fn put_status(unit: &Key, mut metadata: Value, standing: &UnitStatus) -> Call {
    let target = one(unit).status("queueunits/status");
    // Only a patch may leave out the version, and only in a build whose rules tests can switch off.
    if metadata.get("resourceVersion").is_none() {
        return patch(target, metadata, "status", status(standing));
    }
    metadata["name"] = json!(&*unit.name);
    metadata["namespace"] = json!(&*unit.namespace);
    let body = json!({
        "apiVersion": queue::API_VERSION,
        "kind": queue::UNIT_KIND,
        "metadata": metadata,
        "status": status(standing),
    });
    target.call(Method::PUT, "update", JSON, body.to_string().into_bytes())
}

fn patch(target: Target, metadata: Value, part: &str, content: Value) -> Call {
    let body = json!({"metadata": metadata, part: content});
    target.call(Method::PATCH, "patch", MERGE_PATCH, body.to_string().into_bytes())
}

fn api(resource: &'static str) -> Target {
    Target::at(&format!("/apis/{}", queue::API_VERSION), resource)
}

fn units(namespace: &str) -> Target {
    api("queueunits").objects(namespace, "queueunits")
}

fn one(unit: &Key) -> Target {
    units(&unit.namespace).segment(&unit.name)
}

fn create(creation: &UnitCreation) -> Call {
    let UnitCreation { unit, kind: of, job, uid, queue, class, priority, requests, enqueued } = creation;
    let (api_version, kind) = (of.api_version(), of.kind());
    let (namespace, name, uid): (&str, &str, &str) = (&job.namespace, &job.name, uid);
    let mut spec = json!({"queue": &**queue, "resource": requests.to_list()});
    if let Some(class) = class {
        spec["priorityClassName"] = json!(&**class);
    }
    if let Some(priority) = priority {
        spec["priority"] = json!(priority);
    }
    spec["consumerRef"] = json!({
        "apiVersion": api_version, "kind": kind, "name": name, "namespace": namespace, "uid": uid,
    });
    // Both sides of the unit may watch it by the slot that they own. A Job has the one side only.
    let mut labels = json!({
        QUEUE_NAME_LABEL: spec["queue"], NAMESPACE_SLOT_LABEL: Slot::of(namespace).to_string(),
    });
    if *of == NamedKind::Framework {
        labels[SLOT_LABEL] = json!(Slot::of(uid).to_string());
    }
    let body = json!({
        "apiVersion": queue::API_VERSION,
        "kind": queue::UNIT_KIND,
        "metadata": {
            "name": &*unit.name,
            "namespace": namespace,
            "labels": labels,
            "annotations": {ENQUEUED_ANNOTATION: enqueued.to_string()},
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

/// The status as the API server stores it. A merge patch replaces all conditions, so both are always sent.
fn status(standing: &UnitStatus) -> Value {
    let time = |time: framework_api::Time| json!(MetaTime(time.timestamp()));
    let reason = standing.reason.unwrap_or(Reason::Waiting);
    let dequeued = standing.phase == Some(Phase::Dequeued);
    // A quota may lack hundreds of resources with long names. The schema takes 32,768 characters.
    let message = truncate(&standing.message, MOST_MESSAGE);
    let mut conditions = vec![json!({
        "type": DEQUEUED,
        "status": if dequeued { "True" } else { "False" },
        "reason": reason.as_str(),
        "message": message,
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
    json!({"phase": standing.phase, "message": message, "conditions": conditions})
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use framework_api::job_kind::{JobKindRow, Suspend, built_in};
    use framework_api::queue::{CONSUMER_LABEL, RESUMED_BY_ANNOTATION};
    use framework_queueing::{Object, PodLabels, QueueCounts, Reply, Resumption, TemplateMetadata};

    use super::*;

    fn rendered(request: &QueueRequest) -> (String, Value) {
        let call = render(request);
        let body = serde_json::from_slice(&call.body).unwrap_or_default();
        (format!("{} {} {}", call.verb, call.resource, call.uri), body)
    }

    fn resumption(has_annotations: bool) -> Resumption {
        Resumption {
            uid: "u".into(),
            resource_version: 7,
            queue: "q".into(),
            unit: "unit".into(),
            has_annotations,
        }
    }

    #[test]
    fn every_change_is_guarded_by_the_version_it_was_decided_from() {
        let (unit, uid): (Key, Arc<str>) = (Key::new("team", "a"), "u".into());
        let resource_version = 7;
        let standing = UnitStatus { phase: Some(Phase::Dequeued), ..UnitStatus::default() };
        let changes = [
            QueueRequest::PutStatus {
                unit: unit.clone(),
                uid: Arc::clone(&uid),
                resource_version,
                status: standing,
            },
            QueueRequest::RemoveFinalizer {
                unit: unit.clone(),
                uid: Arc::clone(&uid),
                resource_version,
                finalizers: [FINALIZER, "a.b/c"].into_iter().collect(),
            },
            QueueRequest::BindUnit {
                unit: unit.clone(),
                uid: Arc::clone(&uid),
                resource_version,
                framework: "f".into(),
            },
        ];
        for change in &changes {
            let (line, body) = rendered(change);
            assert_eq!(body["metadata"]["uid"], "u", "{line}");
            assert_eq!(body["metadata"]["resourceVersion"], "7", "{line}");
            assert!(change.is_write());
        }
        let (_, body) = rendered(&changes[1]);
        assert_eq!(body["metadata"]["finalizers"], json!(["a.b/c"]));
        let (_, body) = rendered(&changes[2]);
        assert_eq!(body["metadata"]["annotations"], json!({BOUND_TO_ANNOTATION: "u/f"}));
        let (line, body) = rendered(&QueueRequest::DeleteUnit { unit: unit.clone(), uid: Arc::clone(&uid) });
        assert_eq!(body["preconditions"], json!({"uid": "u"}), "{line}");
        let counts = QueueCounts { waiting: 3, released: 2 };
        let (line, body) = rendered(&QueueRequest::PatchQueue { queue: unit, uid, counts });
        assert!(
            line.starts_with(
                "patch queues/status /apis/queue.k8s.io/v1alpha1/namespaces/team/queues/a/status?"
            )
        );
        assert_eq!(body, json!({"metadata": {"uid": "u"}, "status": {"waiting": 3, "released": 2}}));
    }

    #[test]
    fn a_long_message_is_cut_wherever_it_is_written() {
        let message = "x".repeat(10 * MOST_MESSAGE);
        let status = UnitStatus { phase: Some(Phase::Enqueued), message, ..UnitStatus::default() };
        let (unit, uid) = (Key::new("team", "a"), "u".into());
        let (_, body) = rendered(&QueueRequest::PutStatus { unit, uid, resource_version: 7, status });
        let bytes = |json: &Value| json.as_str().unwrap().len();
        let written = [&body["status"]["message"], &body["status"]["conditions"][0]["message"]].map(bytes);
        assert!(
            written.iter().all(|bytes| (MOST_MESSAGE / 2..MOST_MESSAGE + 32).contains(bytes)),
            "{written:?}"
        );
    }

    #[test]
    fn an_unreadable_version_still_guards_the_writes_of_the_shipped_program() {
        let (unit, uid) = (Key::new("team", "a"), "u".into());
        let standing = UnitStatus { phase: Some(Phase::Dequeued), ..UnitStatus::default() };
        let (line, body) =
            rendered(&QueueRequest::PutStatus { unit, uid, resource_version: 0, status: standing });
        assert_eq!(body["metadata"].get("resourceVersion").is_none(), UNGUARDED.is_some(), "{line}");
    }

    #[test]
    fn a_job_set_is_resumed_by_a_guarded_patch_that_labels_each_template() {
        let place = |index| format!("/spec/replicatedJobs/{index}/template/spec/template");
        let metadata =
            [TemplateMetadata::Missing, TemplateMetadata::WithoutLabels, TemplateMetadata::WithLabels];
        let templates = [0, 1, 2].map(|index| (place(index), metadata[index])).into();
        let row = built_in().into_iter().find(|row| row.kind == "JobSet").unwrap();
        let (row, job, with) = (Arc::new(row), Key::new("team", "set"), resumption(false));
        let (line, body) = rendered(&QueueRequest::ResumeJob { row, job, with, templates });
        assert!(line.contains("/apis/jobset.x-k8s.io/v1alpha2/namespaces/team/jobsets/set?"), "{line}");
        let at = |index| place(index) + "/metadata";
        let label = |name: &str| format!("{}/labels/{}", at(2), name.replace('/', "~1"));
        let labels = json!({QUEUE_NAME_LABEL: "q", CONSUMER_LABEL: "u"});
        let expected = json!([
            {"op": "replace", "path": "/metadata/uid", "value": "u"},
            {"op": "replace", "path": "/metadata/resourceVersion", "value": "7"},
            {"op": "replace", "path": "/spec/suspend", "value": false},
            {"op": "add", "path": "/metadata/annotations", "value": {RESUMED_BY_ANNOTATION: "unit"}},
            {"op": "add", "path": at(0), "value": {"labels": labels}},
            {"op": "add", "path": at(1) + "/labels", "value": labels},
            {"op": "add", "path": label(QUEUE_NAME_LABEL), "value": "q"},
            {"op": "add", "path": label(CONSUMER_LABEL), "value": "u"},
        ]);
        assert_eq!(body, expected);
    }

    #[test]
    fn a_job_that_waits_by_an_annotation_is_resumed_by_that_annotation() {
        let name = "scheduling.x-k8s.io/suspend";
        let row = built_in().into_iter().find(|row| row.kind == "PyTorchJob").unwrap();
        let row = Arc::new(JobKindRow { suspend: Suspend::Annotation(name.to_owned()), ..row });
        // Its annotations are there, so that the note of the unit must not replace them.
        let (job, with) = (Key::new("team", "train"), resumption(true));
        let (line, body) = rendered(&QueueRequest::ResumeJob { row, job, with, templates: Vec::new() });
        assert!(line.contains("/apis/kubeflow.org/v1/namespaces/team/pytorchjobs/train?"), "{line}");
        let at = |name: &str| format!("/metadata/annotations/{}", name.replace('/', "~1"));
        let expected = json!([
            {"op": "replace", "path": "/metadata/uid", "value": "u"},
            {"op": "replace", "path": "/metadata/resourceVersion", "value": "7"},
            {"op": "replace", "path": at(name), "value": "false"},
            {"op": "add", "path": at(RESUMED_BY_ANNOTATION), "value": "unit"},
        ]);
        assert_eq!(body, expected);
    }

    #[test]
    fn a_job_set_gets_labels_by_a_guarded_patch_that_does_not_resume_it() {
        let row = built_in().into_iter().find(|row| row.kind == "JobSet").unwrap();
        let place = "/spec/replicatedJobs/0/template/spec/template";
        let (line, body) = rendered(&QueueRequest::LabelTemplates {
            row: Arc::new(row),
            job: Key::new("team", "train"),
            uid: "set".into(),
            resource_version: 7,
            labels: PodLabels { queue: "q".into(), job: "train".into() },
            templates: vec![(place.to_owned(), TemplateMetadata::WithoutLabels)],
        });
        assert!(line.contains("/apis/jobset.x-k8s.io/v1alpha2/namespaces/team/jobsets/train?"), "{line}");
        let labels = json!({QUEUE_NAME_LABEL: "q", CONSUMER_LABEL: "train"});
        let expected = json!([
            {"op": "replace", "path": "/metadata/uid", "value": "set"},
            {"op": "replace", "path": "/metadata/resourceVersion", "value": "7"},
            {"op": "add", "path": format!("{place}/metadata/labels"), "value": labels},
        ]);
        assert_eq!(body, expected);
    }

    #[test]
    fn the_framework_of_a_unit_is_read_whatever_its_labels() {
        let request = QueueRequest::GetFramework { framework: Key::new("team", "train") };
        assert!(!request.is_write());
        let (line, _) = rendered(&request);
        let path = "/apis/frameworkcontroller.microsoft.com/v1/namespaces/team/frameworks/train?";
        assert!(line.starts_with(&format!("get frameworks {path}")), "{line}");
        let stored = json!({"metadata": {"namespace": "team", "name": "train", "uid": "u"}}).to_string();
        let reply = crate::reply::queueing::success(&request, stored.as_bytes());
        assert!(matches!(reply, Ok(Reply::Object(Object::Framework(uid))) if *uid == *"u"));
    }

    #[test]
    fn a_list_is_consistent_and_goes_on_where_the_page_before_ended() {
        let page = |after: Option<&str>| {
            let after = after.map(Arc::from);
            let request = QueueRequest::ListUnits { namespace: "team".into(), after, limit: 500 };
            assert!(!request.is_write());
            rendered(&request).0
        };
        let (first, second) = (page(None), page(Some("abc")));
        assert!(first.starts_with("list queueunits /apis/queue.k8s.io/v1alpha1/namespaces/team/queueunits?"));
        assert!(first.ends_with("&limit=500") && !first.contains("resourceVersion"), "{first}");
        assert_eq!(second, first + "&continue=abc");
    }
}
