//! Discovery: the resources of a group and version, by which a client learns whether a kind is served.

use serde_json::{Value, json};

use crate::kind::{Kind, Registry};

/// The list of the resources in a group and version.
pub(crate) fn resources(registry: &Registry, group: &str, version: &str) -> Value {
    let resources: Vec<Value> = registry.of_version(group, version).flat_map(resources_of).collect();
    json!({
        "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": format!("{group}/{version}"),
        "resources": resources,
    })
}

/// The resource of a kind, and that of its status.
fn resources_of(kind: &Kind) -> impl Iterator<Item = Value> {
    let main = json!({
        "name": kind.plural, "singularName": kind.kind.to_lowercase(), "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": ["create", "delete", "get", "list", "patch", "update", "watch"],
    });
    let status = kind.status.then(|| {
        json!({
            "name": format!("{}/status", kind.plural), "singularName": "", "namespaced": kind.namespaced,
            "kind": kind.kind, "verbs": ["get", "patch", "update"],
        })
    });
    std::iter::once(main).chain(status)
}
