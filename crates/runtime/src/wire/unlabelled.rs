//! Frameworks that have no label of a slot. Their metadata is all that is asked for.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use framework_engine::object::FrameworkObject;
use framework_message::Key;

use super::meta::Meta;
use super::resource::{Read, Resource, Wire};

/// A Framework that is to get the label of its slot.
#[derive(Clone, Debug)]
pub struct UnlabelledFramework {
    /// Its key.
    pub key: Key,
    /// `metadata.uid`.
    pub uid: Arc<str>,
    /// `metadata.resourceVersion`, as the API server writes it.
    pub resource_version: Arc<str>,
}

#[derive(Deserialize)]
struct MetadataWire {
    #[serde(default)]
    metadata: Meta,
}

impl Wire for UnlabelledFramework {
    const RESOURCE: Resource = FrameworkObject::RESOURCE;

    fn read(json: &RawValue) -> Result<Read<Self>, serde_json::Error> {
        let meta = serde_json::from_str::<MetadataWire>(json.get())?.metadata;
        let object = UnlabelledFramework {
            key: Key::new(&meta.namespace, &meta.name),
            uid: meta.uid.into(),
            resource_version: meta.resource_version.as_deref().unwrap_or_default().into(),
        };
        Ok(Read::of(meta.resource_version, object))
    }
}
