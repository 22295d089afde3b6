//! PriorityClasses.

use serde::Deserialize;
use serde_json::value::RawValue;

use framework_queueing::ClassObject;

use super::resource::{Read, Resource, Wire};
use super::typed::Metadata;

#[derive(Deserialize)]
struct ClassWire {
    metadata: Metadata,
    #[serde(default)]
    value: i32,
}

impl Wire for ClassObject {
    const RESOURCE: Resource =
        Resource::new("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses").of_the_cluster();

    fn read(json: &RawValue) -> Result<Read<Self>, serde_json::Error> {
        let ClassWire { metadata, value } = serde_json::from_str(json.get())?;
        let (key, resource_version) = metadata.identity();
        Ok(Read::of(metadata.resource_version, ClassObject { key, resource_version, value }))
    }
}
