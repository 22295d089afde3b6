//! Frameworks. Metadata is read apart from spec and status: a bad object is reported and hides no other, and
//! an object that is known by its version need not be decoded.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta, OwnerReference};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use framework_api::{Framework, FrameworkSpec, FrameworkStatus, name, unset};
use framework_engine::object::{Content, Form, FrameworkObject, Unreadable};
use framework_message::{Key, Slot};

use super::few;
use super::meta::Meta;
use super::resource::{Read, Resource, Wire};
use super::time::time;

/// The names of a Framework, and the rest as text: only the names of our own echo are read.
#[derive(Clone, Debug)]
pub struct FrameworkText {
    /// Its key.
    pub key: Key,
    /// `metadata.uid`.
    pub uid: Arc<str>,
    /// `metadata.resourceVersion`.
    pub resource_version: u128,
    /// The slot that its label names, if it names one.
    pub label: Option<Slot>,
    wire: FrameworkWire,
}

#[derive(Clone, Debug, Deserialize)]
struct FrameworkWire {
    metadata: Box<RawValue>,
    #[serde(default)]
    spec: Option<Box<RawValue>>,
    #[serde(default)]
    status: Option<Box<RawValue>>,
}

impl Wire for FrameworkObject {
    // One of them may take more than a megabyte.
    const RESOURCE: Resource = Resource::new(name::GROUP, "v1", name::KIND, "frameworks").in_pages_of(40);

    fn read(json: &RawValue) -> Result<Read<Self>, serde_json::Error> {
        let Read { resource_version, slot, object, unowned } = FrameworkText::read(json)?;
        Ok(Read { resource_version, slot, object: object.map(FrameworkText::decoded), unowned })
    }
}

impl Wire for FrameworkText {
    const RESOURCE: Resource = FrameworkObject::RESOURCE;

    fn read(json: &RawValue) -> Result<Read<Self>, serde_json::Error> {
        let wire: FrameworkWire = serde_json::from_str(json.get())?;
        let meta: Meta = serde_json::from_str(wire.metadata.get())?;
        let text = FrameworkText {
            key: Key::new(&meta.namespace, &meta.name),
            uid: meta.uid.as_str().into(),
            resource_version: meta.version(),
            label: meta.labelled_slot(),
            wire,
        };
        Ok(Read { slot: text.label, ..Read::of(meta.resource_version, text) })
    }
}

impl FrameworkText {
    /// The length of its status.
    pub fn status_bytes(&self) -> usize {
        self.wire.status.as_ref().map_or(0, |raw| raw.get().len())
    }

    /// Decodes the rest; a compressed status stays compressed.
    pub fn decoded(self) -> FrameworkObject {
        let bytes = self.status_bytes();
        let FrameworkText { key, uid, resource_version, wire, .. } = self;
        let content = wire.content();
        FrameworkObject {
            key,
            uid,
            resource_version,
            stored_bytes: stored_bytes(&wire.metadata, wire.spec.as_deref()),
            form: Form { compressed: is_compressed(&content), bytes },
            ignored: wire.ignored(&content),
            content,
        }
    }
}

impl FrameworkWire {
    /// Spec and status; a compressed status stays compressed.
    fn content(&self) -> Result<Content, Unreadable> {
        let framework = Arc::new(self.framework().map_err(|reason| Unreadable::from(&*reason))?);
        let status = self.status.as_deref().map(|status| part("status", status)).transpose();
        match status {
            Ok(status) => Ok((framework, status.map(Arc::new))),
            Err(reason) => Err(Unreadable {
                reason: reason.into(),
                framework: Some(framework),
                conditions: self.conditions(),
            }),
        }
    }

    fn framework(&self) -> Result<Framework, String> {
        let spec: FrameworkSpec = part("spec", self.spec.as_deref().ok_or("spec: missing")?)?;
        Ok(Framework { metadata: metadata(&self.metadata)?, spec, status: None })
    }

    /// The fields of a readable spec that count as not set.
    fn ignored(&self, content: &Result<Content, Unreadable>) -> Option<String> {
        let (Some(json), Ok((framework, _))) = (&self.spec, content) else { return None };
        unset::out_of_bounds(&framework.spec, json.get())
    }

    /// The conditions of a status whose rest cannot be read.
    fn conditions(&self) -> Option<Vec<Condition>> {
        #[derive(Deserialize)]
        struct Status {
            #[serde(default)]
            conditions: Vec<Condition>,
        }
        let status: Status = serde_json::from_str(self.status.as_deref()?.get()).ok()?;
        Some(status.conditions)
    }
}

/// The metadata, without managedFields: they are most of its size, and no rule reads them. Users may write
/// times into them that our calendar does not have.
fn metadata(raw: &RawValue) -> Result<ObjectMeta, String> {
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct Metadata {
        name: Option<String>,
        generate_name: Option<String>,
        namespace: Option<String>,
        uid: Option<String>,
        resource_version: Option<String>,
        generation: Option<i64>,
        #[serde(deserialize_with = "time")]
        creation_timestamp: Option<Timestamp>,
        #[serde(deserialize_with = "time")]
        deletion_timestamp: Option<Timestamp>,
        deletion_grace_period_seconds: Option<i64>,
        #[serde(deserialize_with = "few::map")]
        labels: Option<BTreeMap<String, String>>,
        #[serde(deserialize_with = "few::map")]
        annotations: Option<BTreeMap<String, String>>,
        #[serde(deserialize_with = "few::list")]
        finalizers: Option<Vec<String>>,
        #[serde(deserialize_with = "few::list")]
        owner_references: Option<Vec<OwnerReference>>,
    }
    let read: Metadata = part("metadata", raw)?;
    Ok(ObjectMeta {
        name: read.name,
        generate_name: read.generate_name,
        namespace: read.namespace,
        uid: read.uid,
        resource_version: read.resource_version,
        generation: read.generation,
        creation_timestamp: read.creation_timestamp.map(meta::v1::Time),
        deletion_timestamp: read.deletion_timestamp.map(meta::v1::Time),
        deletion_grace_period_seconds: read.deletion_grace_period_seconds,
        labels: read.labels,
        annotations: read.annotations,
        finalizers: read.finalizers,
        owner_references: read.owner_references,
        managed_fields: None,
        self_link: None,
    })
}

fn stored_bytes(metadata: &RawValue, spec: Option<&RawValue>) -> usize {
    metadata.get().len() + spec.map_or(0, |spec| spec.get().len())
}

fn is_compressed(content: &Result<Content, Unreadable>) -> bool {
    let Ok((_, Some(status))) = content else { return false };
    let attempt = &status.attempt_status;
    attempt.task_role_statuses.is_none() && attempt.task_role_statuses_compressed.is_some()
}

/// Decodes a part of the object; an error names the field's path. Only then it is read a second time.
fn part<T: DeserializeOwned>(field: &str, raw: &RawValue) -> Result<T, String> {
    serde_json::from_str(raw.get()).or_else(|_| {
        let deserializer = &mut serde_json::Deserializer::from_str(raw.get());
        serde_path_to_error::deserialize(deserializer).map_err(|error| match error.path().to_string() {
            path if path == "." => format!("{field}: {}", error.inner()),
            path => format!("{field}.{path}: {}", error.inner()),
        })
    })
}

/// The Framework after a PUT of its status was acknowledged with `body`.
///
/// The API server stores a status as it was sent, and a guarded write changes nothing else. So only the
/// metadata is read from the reply. Spec and status, which may be megabytes, are those of the request.
pub(crate) fn acknowledged(
    sent: &Framework,
    status: &Arc<FrameworkStatus>,
    body: &[u8],
) -> Result<FrameworkObject, String> {
    #[derive(Deserialize)]
    struct Reply<'a> {
        #[serde(borrow)]
        metadata: &'a RawValue,
        #[serde(borrow, default)]
        spec: Option<&'a RawValue>,
    }
    let reply: Reply<'_> = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    let meta: Meta = part("metadata", reply.metadata)?;
    let framework = Framework { metadata: metadata(reply.metadata)?, spec: sent.spec.clone(), status: None };
    Ok(FrameworkObject {
        key: Key::new(&meta.namespace, &meta.name),
        uid: meta.uid.as_str().into(),
        resource_version: meta.version(),
        stored_bytes: stored_bytes(reply.metadata, reply.spec),
        content: Ok((Arc::new(framework), Some(Arc::clone(status)))),
        form: Form::default(),
        // They were reported when the spec was read.
        ignored: None,
    })
}

#[cfg(test)]
mod tests {
    use kube::core::{ObjectList, WatchEvent};
    use serde_json::{Value, json};

    use super::*;
    use crate::wire::{Watched, decode};

    fn framework(name: &str) -> Value {
        json!({
            "apiVersion": name::API_VERSION, "kind": "Framework",
            "metadata": {
                "name": name, "namespace": "ns", "uid": "f", "resourceVersion": "5", "generation": 2,
                "managedFields": [{"manager": "kubectl", "operation": "Update", "fieldsV1": {}}],
            },
            "spec": {"taskRoles": [{"name": "worker", "taskNumber": 2, "task": {"pod": {"spec": {"x": 1}}}}]},
        })
    }

    fn status() -> Value {
        json!({
            "startTime": "2026-01-01T00:00:00Z", "state": "AttemptCreationPending",
            "transitionTime": "2026-01-01T00:00:00Z",
            "retryPolicyStatus": {"totalRetriedCount": 0, "accountableRetriedCount": 0},
            "attemptStatus": {"id": 0, "startTime": "2026-01-01T00:00:00Z", "configMapName": "job-attempt"},
        })
    }

    fn read(framework: &Value) -> FrameworkObject {
        decode(&serde_json::to_vec(framework).unwrap()).unwrap().unwrap()
    }

    #[test]
    fn a_framework_is_read_without_managed_fields() {
        let object = read(&framework("job"));
        assert_eq!((object.key, &*object.uid, object.resource_version), (Key::new("ns", "job"), "f", 5));
        let (framework, status) = object.content.unwrap();
        assert_eq!(framework.metadata.generation, Some(2));
        assert_eq!(framework.metadata.managed_fields, None);
        assert_eq!(framework.spec.task_number(), 2);
        assert_eq!(status, None);
    }

    #[test]
    fn of_each_list_in_metadata_few_entries_are_kept() {
        let mut framework = framework("job");
        let names: Vec<String> = (0..=few::MOST).map(|number| format!("a/{number}")).collect();
        let map: BTreeMap<&String, &str> = names.iter().map(|name| (name, "x")).collect();
        let owner = |name| json!({"apiVersion": "v1", "kind": "Node", "name": name, "uid": "o"});
        let owners: Vec<Value> = names.iter().map(owner).collect();
        let metadata = &mut framework["metadata"];
        (metadata["labels"], metadata["annotations"]) = (json!(map), json!(map));
        (metadata["finalizers"], metadata["ownerReferences"]) = (json!(names), json!(owners));
        let metadata = read(&framework).content.unwrap().0.metadata.clone();
        let maps = [metadata.labels, metadata.annotations].map(|map| map.unwrap().len());
        let lists = (metadata.finalizers.unwrap().len(), metadata.owner_references.unwrap().len());
        assert_eq!((maps, lists), ([few::MOST; 2], (few::MOST, few::MOST)));
    }

    #[test]
    fn stored_bytes_beside_the_status_include_managed_fields() {
        let mut framework = framework("job");
        let bytes = |part: &str, framework: &Value| framework[part].to_string().len();
        let expected = bytes("metadata", &framework) + bytes("spec", &framework);
        assert_eq!(read(&framework).stored_bytes, expected);
        let (sent, _) = read(&framework).content.unwrap();
        framework["spec"]["description"] = "x".repeat(100).into();
        let status = Arc::new(serde_json::from_value(status()).unwrap());
        let after = acknowledged(&sent, &status, framework.to_string().as_bytes()).unwrap();
        assert_eq!(after.stored_bytes, expected + 100 + r#""description":"","#.len());
    }

    #[test]
    fn a_framework_that_cannot_be_read_has_a_reason_and_hides_no_other() {
        let mut bad_spec = framework("badspec");
        bad_spec["spec"]["taskRoles"][0]["taskNumber"] = "two".into();
        let mut bad_status = framework("badstatus");
        bad_status["status"] = json!({"state": "Sleeping"});
        let mut no_spec = framework("nospec");
        no_spec["spec"] = Value::Null;
        let list = json!({
            "apiVersion": name::API_VERSION, "kind": "FrameworkList", "metadata": {"resourceVersion": "9"},
            "items": [bad_spec, bad_status, no_spec, framework("good")],
        });
        let list: ObjectList<Watched<FrameworkObject>> = serde_json::from_str(&list.to_string()).unwrap();
        let reasons: Vec<String> = list
            .items
            .into_iter()
            .map(|item| {
                item.object.unwrap().content.map_or_else(|bad| bad.reason.to_string(), |_| "fine".into())
            })
            .collect();
        assert!(reasons[0].starts_with("spec.taskRoles[0].taskNumber: "), "{reasons:?}");
        assert!(reasons[1].starts_with("status."), "{reasons:?}");
        assert_eq!(reasons[2], "spec: missing");
        assert_eq!(reasons[3], "fine");
    }

    #[test]
    fn seconds_out_of_bounds_hide_no_other_field() {
        let mut odd = framework("odd");
        odd["spec"]["ttlSecondsAfterFinished"] = json!(-1);
        odd["spec"]["activeDeadlineSeconds"] = json!(7);
        let object = read(&odd);
        assert!(object.ignored.unwrap().starts_with("spec.ttlSecondsAfterFinished counts as not set: -1 "));
        let (framework, _) = object.content.unwrap();
        let seconds = (framework.spec.active_deadline_seconds, framework.spec.ttl_seconds_after_finished);
        assert_eq!(seconds, (Some(7), None));
    }

    #[test]
    fn a_watch_event_is_read_in_place() {
        let mut bad = framework("job");
        bad["spec"]["taskRoles"] = 1.into();
        let line = format!(r#"{{"type":"MODIFIED","object":{bad}}}"#);
        let WatchEvent::Modified(watched) =
            serde_json::from_str::<WatchEvent<Watched<FrameworkObject>>>(&line).unwrap()
        else {
            panic!("another kind of event")
        };
        assert_eq!(kube::ResourceExt::resource_version(&watched).as_deref(), Some("5"));
        assert!(watched.object.unwrap().content.is_err());
    }

    #[test]
    fn an_acknowledged_status_is_the_one_that_was_sent() {
        let (sent, _) = read(&framework("job")).content.unwrap();
        let status: FrameworkStatus = serde_json::from_value(status()).unwrap();
        let mut reply = framework("job");
        reply["metadata"]["resourceVersion"] = "6".into();
        let status = Arc::new(status);
        let object = acknowledged(&sent, &status, reply.to_string().as_bytes()).unwrap();
        assert_eq!(object.resource_version, 6);
        let (framework, persisted) = object.content.unwrap();
        assert_eq!(framework.metadata.resource_version.as_deref(), Some("6"));
        assert_eq!(framework.spec, sent.spec);
        assert_eq!(persisted, Some(status));
    }
}
