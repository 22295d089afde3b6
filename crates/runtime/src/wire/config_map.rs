//! ConfigMaps of FrameworkAttempts.

use serde::Deserialize;
use serde_json::value::RawValue;

use framework_api::name;
use framework_core::observed::ConfigMapFacts;
use framework_engine::object::ConfigMapObject;
use framework_message::Key;

use super::meta::{Meta, Owner};
use super::resource::{Read, Resource, Wire};

#[derive(Deserialize)]
struct ConfigMapWire {
    #[serde(default)]
    metadata: Meta,
}

impl Wire for ConfigMapObject {
    const RESOURCE: Resource =
        Resource::new("", "v1", "ConfigMap", "configmaps").selected_by(name::SLOT_LABEL);

    fn read(json: &RawValue) -> Result<Read<Self>, serde_json::Error> {
        let meta = serde_json::from_str::<ConfigMapWire>(json.get())?.metadata;
        // The policy on the reach of the controller's account lets it delete no others.
        let object = name::framework_of_config_map(&meta.name).map(|framework| ConfigMapObject {
            key: Key::new(&meta.namespace, framework),
            resource_version: meta.version(),
            facts: ConfigMapFacts {
                uid: meta.uid.clone(),
                framework_uid: meta
                    .controller()
                    .filter(|owner| is_framework(owner) && owner.name == framework)
                    .map(|owner| owner.uid.clone()),
                deleting: meta.deletion_timestamp.is_some(),
            },
            label: meta.labelled_slot(),
        });
        let slot = meta.labelled_slot();
        Ok(Read { resource_version: meta.resource_version, slot, object, unowned: None })
    }
}

fn is_framework(owner: &Owner) -> bool {
    owner.kind == name::KIND && owner.api_version == name::API_VERSION
}

#[cfg(test)]
mod tests {
    use framework_message::Slot;

    use super::*;
    use crate::wire::decode;

    #[test]
    fn only_a_framework_that_controls_it_owns_a_config_map() {
        let map = |version: &str, kind: &str, name: &str, controller: bool| {
            serde_json::to_vec(&serde_json::json!({
                "metadata": {
                    "name": "job-attempt", "namespace": "ns", "uid": "u", "resourceVersion": "12",
                    "labels": {"x": "y", name::SLOT_LABEL: "7"},
                    "ownerReferences": [{
                        "apiVersion": version, "kind": kind, "name": name, "uid": "f",
                        "controller": controller,
                    }],
                },
                "data": {"k": "v"},
            }))
            .unwrap()
        };
        let ours: ConfigMapObject =
            decode(&map(name::API_VERSION, "Framework", "job", true)).unwrap().unwrap();
        assert_eq!(ours.key, Key::new("ns", "job"));
        assert_eq!((ours.resource_version, ours.label), (12, Some(Slot(7))));
        assert_eq!(ours.facts.framework_uid.as_deref(), Some("f"));
        let later = format!("{}/v2", name::GROUP);
        for (version, kind, name, controller) in [
            (name::API_VERSION, "Framework", "job", false),
            (name::API_VERSION, "Deployment", "job", true),
            (name::API_VERSION, "Framework", "other", true),
            (&*later, "Framework", "job", true),
        ] {
            let other: ConfigMapObject = decode(&map(version, kind, name, controller)).unwrap().unwrap();
            assert_eq!(other.facts.framework_uid, None, "{kind} {controller}");
        }
    }

    #[test]
    fn a_config_map_of_another_name_is_left_out() {
        let body = br#"{"metadata":{"name":"kube-root-ca.crt","namespace":"ns","resourceVersion":"3"}}"#;
        assert!(decode::<ConfigMapObject>(body).unwrap().is_none());
    }
}
