//! PriorityClasses.

use k8s_openapi::api::scheduling::v1::PriorityClass;
use serde::Deserializer;

use framework_queueing::ClassObject;

use super::resource::{Read, Resource, Wire};
use super::typed::{self, identity};

impl Wire for ClassObject {
    const RESOURCE: Resource = Resource::new("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses");

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Read<Self>, D::Error> {
        typed::read(deserializer, class_of)
    }
}

fn class_of(class: PriorityClass) -> ClassObject {
    let (key, resource_version) = identity(&class.metadata);
    ClassObject { key, resource_version, value: class.value }
}
