//! A pod template: its text as it was written, and its cost.
//!
//! A Framework is one object of at most 1.5 MiB, but a template of that size may stand for gigabytes. An
//! empty element of a list becomes a struct of kilobytes, and each container gets fifteen variables. So the
//! text is counted in one pass when the Framework is decoded. A template beyond a [limit](Excess) is dropped
//! there, before anything decodes or renders it. A template within the limits is kept as text.

use std::sync::Arc;

use serde::de::{DeserializeOwned, Deserializer, IgnoredAny};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

mod count;
mod limit;

use count::Counts;
pub use limit::{Excess, MAX_CONTAINERS, MAX_DEPTH, MAX_OBJECTS, MAX_PLACEHOLDERS, MAX_VALUES};

/// The longest value of a placeholder.
const PLACEHOLDER_BYTES: usize = 253;
/// The variables that each container gets, as JSON.
const CONTAINER_BYTES: usize = 2048;
/// The metadata that each Pod gets, as JSON.
const POD_BYTES: usize = 4096;

/// The Pod of a Task, as it was written.
#[derive(Clone, Debug)]
pub struct PodTemplate(Result<Text, Excess>);

#[derive(Clone, Debug)]
struct Text {
    json: Arc<RawValue>,
    rendered_bytes: usize,
}

impl PodTemplate {
    /// The decoded template.
    pub fn read(&self) -> Result<Value, Excess> {
        let text = self.0.as_ref().map_err(|excess| *excess)?;
        // It is valid JSON, and not deep, so that this cannot fail.
        Ok(serde_json::from_str(text.json.get()).unwrap_or_default())
    }

    /// Decodes a part of the template; an error names the field's path.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, String> {
        let template = self.read().map_err(|excess| excess.to_string())?;
        serde_path_to_error::deserialize(template).map_err(|error| error.to_string())
    }

    /// The limit that the template exceeds.
    pub fn excess(&self) -> Option<Excess> {
        self.0.as_ref().err().copied()
    }

    /// The most bytes that a Pod of it takes as JSON; 0 if the template exceeds a limit.
    pub fn rendered_bytes(&self) -> usize {
        self.0.as_ref().map_or(0, |text| text.rendered_bytes)
    }
}

impl From<Box<RawValue>> for PodTemplate {
    fn from(json: Box<RawValue>) -> Self {
        Self(rendered_bytes(json.get()).map(|rendered_bytes| Text { json: json.into(), rendered_bytes }))
    }
}

impl From<Value> for PodTemplate {
    fn from(template: Value) -> Self {
        // A value has a JSON form.
        to_raw_value(&template).unwrap_or_default().into()
    }
}

impl PartialEq for PodTemplate {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Ok(one), Ok(other)) => one.json.get() == other.json.get(),
            (Err(one), Err(other)) => one == other,
            _ => false,
        }
    }
}

impl<'de> Deserialize<'de> for PodTemplate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(Self::from)
    }
}

/// A template beyond a limit is not kept: its place has the reason.
impl Serialize for PodTemplate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Ok(text) => text.json.serialize(serializer),
            Err(excess) => json!({ "omitted": excess.to_string() }).serialize(serializer),
        }
    }
}

/// The most bytes that a Pod of this template takes.
fn rendered_bytes(template: &str) -> Result<usize, Excess> {
    let placeholders = Counts::of(template)?.placeholders;
    let containers = containers(template);
    Excess::unless(containers <= MAX_CONTAINERS, MAX_CONTAINERS, "containers")?;
    Ok(POD_BYTES + template.len() + placeholders * PLACEHOLDER_BYTES + containers * CONTAINER_BYTES)
}

/// How many containers get our variables. A field of another type has none.
fn containers(template: &str) -> usize {
    #[derive(Deserialize)]
    struct Template<'a> {
        #[serde(borrow)]
        spec: Spec<'a>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Spec<'a> {
        #[serde(borrow)]
        containers: Option<&'a RawValue>,
        #[serde(borrow)]
        init_containers: Option<&'a RawValue>,
    }
    // A list of these takes no memory.
    let elements =
        |list: &RawValue| serde_json::from_str::<Vec<IgnoredAny>>(list.get()).map_or(0, |all| all.len());
    let Ok(Template { spec }) = serde_json::from_str(template) else { return 0 };
    [spec.containers, spec.init_containers].into_iter().flatten().map(elements).sum()
}

#[cfg(test)]
mod tests;
