//! The allowed values of a row.

use serde::{Deserialize, Deserializer};

use super::pointer::Pointer;
use super::refusal::refused;

/// The entries that a list of a row has at most.
pub const MAX_ENTRIES: usize = 16;

fn text<'de, D: Deserializer<'de>>(
    deserializer: D,
    is_allowed: fn(&str) -> bool,
    allowed: &str,
) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?;
    if is_allowed(&text) { Ok(text) } else { Err(refused(format_args!("'{text}'"), allowed)) }
}

/// Whether a text is made of these characters, and neither empty nor too long.
fn is_of(text: &str, most: usize, is_allowed: impl Fn(char) -> bool) -> bool {
    !text.is_empty() && text.len() <= most && text.chars().all(is_allowed)
}

fn is_small(letter: char) -> bool {
    letter.is_ascii_lowercase() || letter.is_ascii_digit()
}

pub fn api_version<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let is_one = |text: &str| {
        text.split_once('/').is_some_and(|(group, version)| {
            is_of(group, 253, |letter| is_small(letter) || ".-".contains(letter))
                && version.starts_with('v')
                && is_of(version, 63, is_small)
        })
    };
    text(deserializer, is_one, "a group and a version such as kubeflow.org/v1")
}

pub fn kind<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let is_one = |text: &str| {
        text.starts_with(|first: char| first.is_ascii_uppercase())
            && is_of(text, 63, |letter| letter.is_ascii_alphanumeric())
    };
    text(deserializer, is_one, "a kind such as PyTorchJob")
}

pub fn plural<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let is_one = |text: &str| is_of(text, 63, |letter| is_small(letter) || letter == '-');
    text(deserializer, is_one, "a resource in lower case such as pytorchjobs")
}

pub fn annotation<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let is_one =
        |text: &str| is_of(text, 317, |letter| letter.is_ascii_alphanumeric() || "./_-".contains(letter));
    text(deserializer, is_one, "the name of an annotation such as example.com/suspend")
}

pub fn some_annotation<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    annotation(deserializer).map(Some)
}

pub fn some_place<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Pointer>, D::Error> {
    place(deserializer).map(Some)
}

/// A pointer to one value.
pub fn place<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Pointer, D::Error> {
    let pointer = Pointer::deserialize(deserializer)?;
    let is_one = pointer.is_single() && !pointer.parts().is_empty();
    if is_one { Ok(pointer) } else { Err(refused(format_args!("'{pointer}'"), "a pointer without *")) }
}

/// A list that has entries, and not too many.
pub fn entries<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    let entries = Vec::<T>::deserialize(deserializer)?;
    match entries.len() {
        1..=MAX_ENTRIES => Ok(entries),
        other => Err(refused(format_args!("a list of {other}"), format_args!("1 to {MAX_ENTRIES} entries"))),
    }
}
