//! Leases and ConfigMaps with the fields that a member needs.
//!
//! The API server stores times that our types do not hold, such as the year 9999 in `renewTime` or in
//! `managedFields`. One such Lease must not hide all others in a LIST.

use std::borrow::Cow;

use kube::Resource;
use kube::core::ObjectMeta;
use serde::de::{DeserializeOwned, Deserializer, Error};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// An object without the fields that nobody reads.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub struct Slim<K>(pub K);

const METADATA: [&str; 6] = ["name", "namespace", "uid", "resourceVersion", "labels", "annotations"];
const TIMES: [&str; 2] = ["renewTime", "acquireTime"];

impl<'de, K: DeserializeOwned> Deserialize<'de> for Slim<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut object = Value::deserialize(deserializer)?;
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.retain(|field, _| METADATA.contains(&field.as_str()));
        }
        if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
            spec.retain(|field, _| !TIMES.contains(&field.as_str()));
        }
        serde_json::from_value(object).map(Slim).map_err(D::Error::custom)
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
    use k8s_openapi::api::coordination::v1::Lease;
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
