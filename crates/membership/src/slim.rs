//! Leases and ConfigMaps with the fields that a member needs.
//!
//! The API server stores times that our types do not hold, such as the year 9999 in `renewTime` or in
//! `managedFields`. One such Lease must not hide all others in a LIST. A member also sees the Leases of all
//! others, several a second.

use std::borrow::Cow;
use std::collections::BTreeMap;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Resource;
use kube::core::ObjectMeta;
use serde::{Deserialize, Deserializer, Serialize};

/// An object without the fields that nobody reads.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub struct Slim<K>(pub K);

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    annotations: Option<BTreeMap<String, String>>,
}

impl From<Metadata> for ObjectMeta {
    fn from(read: Metadata) -> Self {
        let Metadata { name, namespace, uid, resource_version, annotations } = read;
        ObjectMeta { name, namespace, uid, resource_version, annotations, ..ObjectMeta::default() }
    }
}

impl<'de> Deserialize<'de> for Slim<Lease> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Fields {
            #[serde(default)]
            metadata: Metadata,
            spec: Option<Spec>,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Spec {
            holder_identity: Option<String>,
            lease_duration_seconds: Option<i32>,
            lease_transitions: Option<i32>,
        }
        let Fields { metadata, spec } = Fields::deserialize(deserializer)?;
        let spec = spec.map(|Spec { holder_identity, lease_duration_seconds, lease_transitions }| {
            LeaseSpec { holder_identity, lease_duration_seconds, lease_transitions, ..LeaseSpec::default() }
        });
        Ok(Slim(Lease { metadata: metadata.into(), spec }))
    }
}

impl<'de> Deserialize<'de> for Slim<ConfigMap> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Fields {
            #[serde(default)]
            metadata: Metadata,
            data: Option<BTreeMap<String, String>>,
            immutable: Option<bool>,
        }
        let Fields { metadata, data, immutable } = Fields::deserialize(deserializer)?;
        Ok(Slim(ConfigMap { metadata: metadata.into(), data, immutable, ..ConfigMap::default() }))
    }
}

impl<K: Resource<DynamicType = ()>> Resource for Slim<K> {
    type DynamicType = ();
    type Scope = K::Scope;

    fn kind(kind: &()) -> Cow<'_, str> {
        K::kind(kind)
    }

    fn group(kind: &()) -> Cow<'_, str> {
        K::group(kind)
    }

    fn version(kind: &()) -> Cow<'_, str> {
        K::version(kind)
    }

    fn plural(kind: &()) -> Cow<'_, str> {
        K::plural(kind)
    }

    fn meta(&self) -> &ObjectMeta {
        self.0.meta()
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.0.meta_mut()
    }
}

#[cfg(test)]
mod tests {
    use kube::core::ObjectList;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_lease_with_times_that_no_type_holds_hides_no_other() {
        let far = "9999-12-31T23:59:59.999999Z";
        let odd = json!({
            "metadata": {
                "name": "odd", "resourceVersion": "7", "creationTimestamp": far,
                "managedFields": [{"manager": "m", "operation": "Update", "time": far}],
            },
            "spec": {"holderIdentity": "a/b", "renewTime": far, "acquireTime": far, "leaseTransitions": 3},
        });
        assert!(serde_json::from_value::<Lease>(odd.clone()).is_err(), "or this type is not needed");
        let list = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "LeaseList", "metadata": {"resourceVersion": "9"},
            "items": [odd, {"metadata": {"name": "other"}}],
        });
        let list: ObjectList<Slim<Lease>> = serde_json::from_value(list).unwrap();
        let names: Vec<_> = list.items.iter().map(|lease| lease.meta().name.as_deref()).collect();
        assert_eq!(names, [Some("odd"), Some("other")]);
        let spec = list.items[0].0.spec.as_ref().unwrap();
        assert_eq!((spec.holder_identity.as_deref(), spec.lease_transitions), (Some("a/b"), Some(3)));
        assert_eq!(list.items[0].meta().resource_version.as_deref(), Some("7"));
    }
}
