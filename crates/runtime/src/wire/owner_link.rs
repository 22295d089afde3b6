//! The objects between Pods and jobs, of which queueing reads the UIDs: ConfigMaps of attempts, and Jobs of
//! JobSets.

use serde::Deserialize;
use serde_json::value::RawValue;

use framework_api::queue::QUEUE_NAME_LABEL;
use framework_queueing::{AttemptObject, ChildJobObject, OwnerLink};

use super::resource::{Read, Resource, Wire};
use super::typed::Metadata;

/// The label of the Jobs of JobSets. It only narrows the watch: their owners decide.
const JOB_SET_NAME: &str = "jobset.sigs.k8s.io/jobset-name";

#[derive(Deserialize)]
struct LinkWire {
    #[serde(default)]
    metadata: Metadata,
}

impl Wire for AttemptObject {
    const RESOURCE: Resource =
        Resource::new("", "v1", "ConfigMap", "configmaps").selected_by(QUEUE_NAME_LABEL);

    fn read(json: &RawValue) -> Result<Read<Self>, serde_json::Error> {
        read(json, "Framework", AttemptObject)
    }
}

impl Wire for ChildJobObject {
    const RESOURCE: Resource = Resource::new("batch", "v1", "Job", "jobs").selected_by(JOB_SET_NAME);

    fn read(json: &RawValue) -> Result<Read<Self>, serde_json::Error> {
        read(json, "JobSet", ChildJobObject)
    }
}

/// Reads the UID of an object, and that of its controller if it is of that kind.
fn read<T>(json: &RawValue, kind: &str, of: fn(OwnerLink) -> T) -> Result<Read<T>, serde_json::Error> {
    let metadata = serde_json::from_str::<LinkWire>(json.get())?.metadata;
    let (key, resource_version) = metadata.identity();
    let controller = metadata.controller().filter(|owner| owner.kind == kind);
    let link = OwnerLink {
        key,
        resource_version,
        uid: metadata.uid(),
        controller: controller.map(|owner| owner.uid.as_str().into()),
    };
    Ok(Read::of(metadata.resource_version, of(link)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::wire::decode;

    #[test]
    fn only_a_controller_of_the_right_kind_is_linked() {
        let link = |kind: &str, controller: bool| {
            let owner = json!({
                "apiVersion": "a/v1", "kind": kind, "name": "o", "uid": "o", "controller": controller,
            });
            let metadata = json!({
                "name": "a", "namespace": "team", "uid": "u", "resourceVersion": "7",
                "ownerReferences": [owner],
            });
            let body = json!({"metadata": metadata}).to_string();
            let attempt = decode::<AttemptObject>(body.as_bytes()).unwrap().unwrap().0;
            let child = decode::<ChildJobObject>(body.as_bytes()).unwrap().unwrap().0;
            [attempt, child].map(|link| link.controller.as_deref().map(str::to_owned))
        };
        assert_eq!(link("Framework", true), [Some("o".to_owned()), None]);
        assert_eq!(link("JobSet", true), [None, Some("o".to_owned())]);
        assert_eq!(link("Framework", false), [None, None]);
    }
}
