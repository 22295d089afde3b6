//! The ConfigMaps of attempts, which are between Pods and Frameworks. Queueing reads their UIDs.

use serde::Deserialize;
use serde_json::value::RawValue;

use framework_api::queue::QUEUE_NAME_LABEL;
use framework_queueing::OwnerLink;

use super::resource::{Read, Resource, Wire};
use super::typed::Metadata;

/// The ConfigMap of an attempt, and its Framework.
#[derive(Clone, Debug)]
pub struct AttemptObject(pub OwnerLink);

#[derive(Deserialize)]
struct LinkWire {
    #[serde(default)]
    metadata: Metadata,
}

impl Wire for AttemptObject {
    const RESOURCE: Resource = Resource::new("", "v1", "ConfigMap", "configmaps")
        .selected_by(QUEUE_NAME_LABEL)
        .divided_by_namespace();

    fn read(json: &RawValue) -> Result<Read<Self>, serde_json::Error> {
        let metadata = serde_json::from_str::<LinkWire>(json.get())?.metadata;
        let (key, resource_version) = metadata.identity();
        let controller = metadata.controller().filter(|owner| owner.kind == "Framework");
        let link = OwnerLink {
            key,
            resource_version,
            uid: metadata.uid(),
            controller: controller.map(|owner| owner.uid.as_str().into()),
            slot: metadata.namespace_slot(),
        };
        let slot = link.slot;
        Ok(Read { slot, ..Read::of(metadata.resource_version, AttemptObject(link)) })
    }
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
            attempt.controller.as_deref().map(str::to_owned)
        };
        assert_eq!(link("Framework", true), Some("o".to_owned()));
        assert_eq!(link("Framework", false), None);
        assert_eq!(link("Job", true), None);
    }
}
