//! The CustomResourceDefinitions of `QueueUnit` and `Queue`.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{CustomResourceDefinition, JSON};
use kube::CustomResourceExt;
use serde_json::json;

use crate::queue::{Queue, QueueUnit};

/// Name of the CustomResourceDefinition of `QueueUnit`.
pub const UNITS: &str = "queueunits.queue.k8s.io";
/// Name of the CustomResourceDefinition of `Queue`.
pub const QUEUES: &str = "queues.queue.k8s.io";

/// The CustomResourceDefinition of `QueueUnit`.
pub fn unit_definition() -> CustomResourceDefinition {
    QueueUnit::crd()
}

/// The CustomResourceDefinition of `Queue`. A Queue needs a name and nothing else, not even an empty spec.
pub fn queue_definition() -> CustomResourceDefinition {
    let mut definition = Queue::crd();
    super::name_the_name(&mut definition);
    let schemas = definition.spec.versions.iter_mut().filter_map(|version| version.schema.as_mut());
    for root in schemas.filter_map(|schema| schema.open_api_v3_schema.as_mut()) {
        root.required = None;
        if let Some(spec) = root.properties.as_mut().and_then(|properties| properties.get_mut("spec")) {
            spec.default = Some(JSON(json!({})));
        }
    }
    definition
}

/// The CustomResourceDefinition of `QueueUnit` as a YAML manifest.
pub fn unit_manifest() -> String {
    super::yaml(&unit_definition())
}

/// The CustomResourceDefinition of `Queue` as a YAML manifest.
pub fn queue_manifest() -> String {
    super::yaml(&queue_definition())
}
