//! Objects that are read as Kubernetes' own types. One that cannot be decoded is left out and hurts no other.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use framework_message::Key;

use super::resource::Read;

/// Reads an object of type `T`, and takes from it the fields that are used.
pub fn read<'de, T: DeserializeOwned, O, D: Deserializer<'de>>(
    deserializer: D,
    take: impl FnOnce(T) -> O,
) -> Result<Read<O>, D::Error> {
    #[derive(Deserialize)]
    struct Versioned {
        metadata: ObjectMeta,
    }
    let json = <&RawValue>::deserialize(deserializer)?;
    let Versioned { metadata } = serde_json::from_str(json.get()).map_err(D::Error::custom)?;
    let object = serde_json::from_str(json.get()).ok().map(take);
    Ok(Read { resource_version: metadata.resource_version, object, unowned: None })
}

/// The name, and the resourceVersion as the number that it is.
pub fn identity(metadata: &ObjectMeta) -> (Key, u128) {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let version = metadata.resource_version.as_deref().and_then(|text| text.parse().ok()).unwrap_or(0);
    (Key::new(&text(&metadata.namespace), &text(&metadata.name)), version)
}

/// `metadata.uid`.
pub fn uid(metadata: &ObjectMeta) -> Arc<str> {
    metadata.uid.as_deref().unwrap_or_default().into()
}

/// `metadata.creationTimestamp`.
pub fn created(metadata: &ObjectMeta) -> Timestamp {
    metadata.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0)
}

/// A name that is given and not empty.
pub fn given(text: Option<&String>) -> Option<Arc<str>> {
    text.filter(|text| !text.is_empty()).map(|text| text.as_str().into())
}
