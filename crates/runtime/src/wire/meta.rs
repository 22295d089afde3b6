//! The few fields of `metadata` that are read of every object.

use std::fmt;

use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use framework_api::Time;
use framework_api::name::SLOT_LABEL;
use framework_core::observed::Deletion;
use framework_message::Slot;

use super::time::whole_seconds;

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Meta {
    pub name: String,
    pub namespace: String,
    pub uid: String,
    pub resource_version: Option<String>,
    #[serde(deserialize_with = "whole_seconds")]
    pub deletion_timestamp: Option<Time>,
    pub deletion_grace_period_seconds: Option<i64>,
    pub labels: Option<SlotLabel>,
    pub owner_references: Option<Vec<Owner>>,
}

/// An owner reference.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Owner {
    #[serde(deserialize_with = "short")]
    pub api_version: String,
    #[serde(deserialize_with = "short")]
    pub kind: String,
    #[serde(deserialize_with = "short")]
    pub name: String,
    #[serde(deserialize_with = "short")]
    pub uid: String,
    controller: Option<bool>,
}

/// The bytes of a text that are kept. Names, kinds and UIDs are not longer, but the API server bounds no text
/// of an owner reference, of an annotation or of a definition of others.
const MOST_OF_A_TEXT: usize = 253;

/// The beginning of a text. One that is cut equals none of a real object.
pub fn beginning(text: &str) -> &str {
    text.get(..text.floor_char_boundary(MOST_OF_A_TEXT)).unwrap_or(text)
}

fn short<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let mut text = String::deserialize(deserializer)?;
    text.truncate(beginning(&text).len());
    text.shrink_to_fit();
    Ok(text)
}

/// The slot label, if it is among the labels; the other labels are not kept.
#[derive(Debug, Default)]
pub struct SlotLabel {
    slot: Option<SlotValue>,
}

/// The value of the slot label; `None`: it names no slot in the way in which we write it.
type SlotValue = Option<Slot>;

impl Owner {
    /// Whether it controls the object.
    pub fn is_controller(&self) -> bool {
        self.controller == Some(true)
    }
}

impl Meta {
    /// The owner that controls the object.
    pub fn controller(&self) -> Option<&Owner> {
        self.owner_references.iter().flatten().find(|owner| owner.is_controller())
    }

    /// The resourceVersion as the number that it is; 0, older than all, if it is none.
    pub fn version(&self) -> u128 {
        self.resource_version.as_deref().and_then(|text| text.parse().ok()).unwrap_or(0)
    }

    /// The slot that the label names; `None`: there is no label, or it names none.
    pub fn labelled_slot(&self) -> Option<Slot> {
        self.labels.as_ref()?.slot?
    }

    pub fn deletion(&self) -> Option<Deletion> {
        let at = self.deletion_timestamp?;
        Some(Deletion { at, grace_sec: self.deletion_grace_period_seconds.unwrap_or(0) })
    }
}

/// Describes the object that holds a name, and its controller.
pub fn describe_holder(body: &[u8], kind: &str) -> Result<String, serde_json::Error> {
    #[derive(Deserialize)]
    struct Holder {
        #[serde(default)]
        metadata: Meta,
    }
    let meta = serde_json::from_slice::<Holder>(body)?.metadata;
    Ok(match meta.controller() {
        Some(owner) => {
            format!("the name is taken by {kind} {}, controlled by {} {}", meta.name, owner.kind, owner.name)
        }
        None => format!("the name is taken by {kind} {}, which nothing controls", meta.name),
    })
}

impl<'de> Deserialize<'de> for SlotLabel {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Keys;
        impl<'de> Visitor<'de> for Keys {
            type Value = SlotLabel;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("labels")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<SlotLabel, A::Error> {
                let mut labels = SlotLabel::default();
                while let Some(key) = map.next_key::<Key>()? {
                    if key.is_slot {
                        labels.slot = Some(match map.next_value()? {
                            LabelText::Text(text) => {
                                text.parse().map(Slot).ok().filter(|slot| slot.to_string() == text)
                            }
                            LabelText::Other(IgnoredAny) => None,
                        });
                    } else {
                        map.next_value::<IgnoredAny>()?;
                    }
                }
                Ok(labels)
            }
        }
        deserializer.deserialize_map(Keys)
    }
}

/// The value of a label, which is text in every object that the API server takes.
#[derive(Deserialize)]
#[serde(untagged)]
enum LabelText {
    Text(String),
    Other(IgnoredAny),
}

/// A label's key, compared in place.
struct Key {
    is_slot: bool,
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Key;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a label's key")
            }

            fn visit_str<E>(self, text: &str) -> Result<Key, E> {
                Ok(Key { is_slot: text == SLOT_LABEL })
            }
        }
        deserializer.deserialize_str(Text)
    }
}
