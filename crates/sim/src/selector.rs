//! Label and field selectors of LIST and WATCH.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::object::Meta;

/// A label selector: all requirements hold.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Selector {
    labels: Vec<Requirement>,
    fields: Vec<(String, String, bool)>,
}

#[derive(Debug, Clone, PartialEq)]
enum Requirement {
    Present(String),
    Absent(String),
    In(String, BTreeSet<String>),
    NotIn(String, BTreeSet<String>),
}

impl Selector {
    /// Reads both selectors as they stand in a query; describes the fault of one that it cannot read.
    ///
    /// # Errors
    /// When a requirement is not of the form `k`, `!k`, `k=v`, `k!=v`, `k in (…)` or `k notin (…)`.
    pub fn parse(labels: &str, fields: &str) -> Result<Self, String> {
        let labels = split(labels).into_iter().map(requirement).collect::<Result<_, _>>()?;
        let fields = split(fields).into_iter().map(field).collect::<Result<_, _>>()?;
        Ok(Self { labels, fields })
    }

    /// Whether it selects everything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// Whether it selects that object.
    #[must_use]
    pub fn matches(&self, object: &Value) -> bool {
        let labels = &object["metadata"]["labels"];
        self.labels.iter().all(|requirement| requirement.holds(labels))
            && self.fields.iter().all(|(path, wanted, equal)| (at(object, path) == wanted) == *equal)
    }
}

impl Requirement {
    fn holds(&self, labels: &Value) -> bool {
        match self {
            Self::Present(key) => labels[key].is_string(),
            Self::Absent(key) => !labels[key].is_string(),
            Self::In(key, values) => labels[key].as_str().is_some_and(|value| values.contains(value)),
            Self::NotIn(key, values) => labels[key].as_str().is_none_or(|value| !values.contains(value)),
        }
    }
}

fn at<'a>(object: &'a Value, path: &str) -> &'a str {
    match path {
        "metadata.name" => object.name(),
        "metadata.namespace" => object.namespace(),
        _ => path.split('.').fold(object, |value, step| &value[step]).as_str().unwrap_or(""),
    }
}

/// Cuts at commas outside parentheses.
fn split(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut depth, mut start) = (0_u32, 0);
    for (index, letter) in text.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(&text[start..index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts.into_iter().map(str::trim).filter(|part| !part.is_empty()).collect()
}

fn requirement(text: &str) -> Result<Requirement, String> {
    if let Some(key) = text.strip_prefix('!') {
        return Ok(Requirement::Absent(key.trim().to_owned()));
    }
    if let Some((head, tail)) = text.split_once('(') {
        let values = tail.strip_suffix(')').ok_or_else(|| format!("missing ) in {text:?}"))?;
        let values = values.split(',').map(|value| value.trim().to_owned()).collect();
        let mut words = head.split_whitespace();
        return match (words.next(), words.next()) {
            (Some(key), Some("in")) => Ok(Requirement::In(key.to_owned(), values)),
            (Some(key), Some("notin")) => Ok(Requirement::NotIn(key.to_owned(), values)),
            _ => Err(format!("cannot read {text:?}")),
        };
    }
    let one = |value: &str| BTreeSet::from([value.trim().to_owned()]);
    if let Some((key, value)) = text.split_once("!=") {
        return Ok(Requirement::NotIn(key.trim().to_owned(), one(value)));
    }
    if let Some((key, value)) = text.split_once("==").or_else(|| text.split_once('=')) {
        return Ok(Requirement::In(key.trim().to_owned(), one(value)));
    }
    if text.contains(char::is_whitespace) {
        return Err(format!("cannot read {text:?}"));
    }
    Ok(Requirement::Present(text.to_owned()))
}

fn field(text: &str) -> Result<(String, String, bool), String> {
    let (path, value, equal) = if let Some((path, value)) = text.split_once("!=") {
        (path, value, false)
    } else if let Some((path, value)) = text.split_once("==").or_else(|| text.split_once('=')) {
        (path, value, true)
    } else {
        return Err(format!("cannot read {text:?}"));
    };
    Ok((path.trim().to_owned(), value.trim().to_owned(), equal))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_form_of_requirement_selects_what_the_manual_says() {
        let object = json!({ "metadata": { "name": "x", "labels": { "slot": "7", "app": "a" } } });
        let yes =
            ["", "slot", "!gone", "slot=7", "slot==7", "slot in (6, 7)", "slot notin (1,2),app=a", "z!=1"];
        let no = ["gone", "!slot", "slot=8", "slot in (1,2)", "slot notin (7)", "slot=7,app=b", "slot!=7"];
        for (texts, wanted) in [(&yes[..], true), (&no[..], false)] {
            for text in texts {
                assert_eq!(Selector::parse(text, "").unwrap().matches(&object), wanted, "{text}");
            }
        }
        assert!(Selector::parse("", "metadata.name=x").unwrap().matches(&object));
        assert!(!Selector::parse("", "metadata.name!=x").unwrap().matches(&object));
        assert!(Selector::parse("a b", "").is_err());
    }
}
