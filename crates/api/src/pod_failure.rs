//! `podFailureSpec`: how failed Pods are classified into completion codes.
//!
//! Data only, as the config file has it: the core checks and matches the rules. The default rules are in
//! `data/frameworkcontroller.yaml`. The tests and the manual read their table,
//! `data/default_pod_failure_spec.csv`.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

use crate::code::{Attribute, CompletionName, CompletionType};
use crate::null::null_as_default;

/// The config file that is shipped; its `podFailureSpec` holds when there is no config file at all.
pub const DEFAULT_CONFIG: &str = include_str!("../data/frameworkcontroller.yaml");

/// The default rules as a table: code, phrase, type, and the pattern in words.
pub const DEFAULT_TABLE: &str = include_str!("../data/default_pod_failure_spec.csv");

/// An entry of `podFailureSpec`: a completion code, and the Pods that get it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PodFailureRule {
    /// Completion code of the Pods that match; unique, and not one that the contract reserves.
    pub code: i32,
    /// The code in one word; may be empty.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "String::is_empty")]
    pub phrase: String,
    /// How such a Pod failed; unset if it is not known.
    #[serde(default, deserialize_with = "failed_unless_named", skip_serializing_if = "Option::is_none")]
    pub r#type: Option<CompletionType>,
    /// The rule matches if any of these does.
    #[serde(default, deserialize_with = "patterns")]
    pub pod_patterns: Vec<PodPattern>,
}

/// Matches a failed Pod if all its given fields do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PodPattern {
    /// Matched in the name of the Pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name_regex: Option<String>,
    /// Matched in `status.reason` of the Pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason_regex: Option<String>,
    /// Matched in `status.message` of the Pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_regex: Option<String>,
    /// Each of these must be met by some container of the Pod.
    #[serde(default, deserialize_with = "patterns", skip_serializing_if = "Vec::is_empty")]
    pub containers: Vec<ContainerPattern>,
}

/// Matches a container if all its given fields do; all but the name are those of its `state.terminated`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ContainerPattern {
    /// Matched in the name of the container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name_regex: Option<String>,
    /// Matched in the reason of its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason_regex: Option<String>,
    /// Matched in its termination message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_regex: Option<String>,
    /// Holds the signal that ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal_range: Option<Int32Range>,
    /// Holds its exit code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code_range: Option<Int32Range>,
}

/// The whole numbers from `min` to `max`, both included; an end that is not given is open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Int32Range {
    /// The least.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<i32>,
    /// The greatest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<i32>,
}

impl Int32Range {
    /// Only this number.
    pub fn only(number: i32) -> Self {
        Int32Range { min: Some(number), max: Some(number) }
    }

    /// Whether `number` is in the range.
    pub fn contains(&self, number: i32) -> bool {
        self.min.is_none_or(|min| min <= number) && self.max.is_none_or(|max| number <= max)
    }
}

/// The rules of the default `podFailureSpec`, in their order.
pub fn default_rules() -> Vec<PodFailureRule> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Config {
        pod_failure_spec: Vec<PodFailureRule>,
    }
    // The text is compiled in and a test parses it, so there is no error to report at run time.
    serde_saphyr::from_str::<Config>(DEFAULT_CONFIG).map(|config| config.pod_failure_spec).unwrap_or_default()
}

/// A pattern that is not `null`: such a pattern would match every Pod.
struct Present<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Present<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let pattern = Option::<T>::deserialize(deserializer)?.map(Present);
        pattern.ok_or_else(|| D::Error::custom("give a pattern, `{}` if any Pod or container is meant"))
    }
}

/// Reads a list of patterns; no list is as good as an empty one.
fn patterns<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    let written = Option::<Vec<Present<T>>>::deserialize(deserializer)?.unwrap_or_default();
    Ok(written.into_iter().map(|Present(pattern)| pattern).collect())
}

/// Reads a type whose name may be left out: every rule is about a failure.
fn failed_unless_named<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<CompletionType>, D::Error> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct FailureType {
        #[serde(default)]
        name: Option<CompletionName>,
        #[serde(default, deserialize_with = "null_as_default")]
        attributes: Vec<Attribute>,
    }
    let written = Option::<FailureType>::deserialize(deserializer)?;
    Ok(written.map(|FailureType { name, attributes }| CompletionType {
        name: name.unwrap_or(CompletionName::Failed),
        attributes,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<PodFailureRule, String> {
        serde_saphyr::from_str(text).map_err(|error| error.to_string())
    }

    /// A rule's type in the words of the table.
    fn words(rule: &PodFailureRule) -> String {
        let attributes = rule.r#type.as_ref().map(|of| of.attributes.as_slice()).unwrap_or_default();
        let words: Vec<String> = attributes.iter().map(|attribute| format!("{attribute:?}")).collect();
        words.join(" ")
    }

    #[test]
    fn the_default_rules_are_the_table_of_the_manual() {
        let table: Vec<(i32, String, String)> = DEFAULT_TABLE
            .lines()
            .skip(1)
            .map(|line| {
                let cells: Vec<&str> = line.split(',').collect();
                assert_eq!(cells.len(), 4, "{line}");
                (cells[0].parse().unwrap(), cells[1].to_owned(), cells[2].to_owned())
            })
            .collect();
        let rules: Vec<(i32, String, String)> =
            default_rules().iter().map(|rule| (rule.code, rule.phrase.clone(), words(rule))).collect();
        assert_eq!(rules, table);
        assert_eq!(rules.len(), 28, "27 rows of the contract, and deleted Nodes");
    }

    #[test]
    fn every_default_pattern_shows_names_and_messages() {
        let any = Some("(?ms).*");
        for rule in default_rules() {
            assert!(!rule.pod_patterns.is_empty(), "{}", rule.code);
            for pattern in &rule.pod_patterns {
                // The rules by container leave the message of the Pod alone.
                let expected = if pattern.containers.is_empty() { any } else { None };
                assert_eq!(pattern.message_regex.as_deref(), expected, "{}", rule.code);
                for container in &pattern.containers {
                    assert_eq!(container.name_regex.as_deref(), any, "{}", rule.code);
                    let message = container.message_regex.as_deref().unwrap_or_default();
                    assert!(message.contains(".*"), "{}: {message}", rule.code);
                }
            }
        }
    }

    #[test]
    fn a_rule_reads_and_writes_its_wire_names() {
        let rule = read(
            "code: 7\nphrase: Odd\ntype: {name: Failed, attributes: [Transient, Conflict]}\npodPatterns:\n\
             - nameRegex: a\n  reasonRegex: b\n  messageRegex: c\n  containers:\n\
             \x20 - {nameRegex: d, reasonRegex: e, messageRegex: f,\n\
             \x20    signalRange: {min: 1}, codeRange: {max: 2}}\n",
        )
        .unwrap();
        let wire = serde_json::json!({
            "code": 7, "phrase": "Odd", "type": {"name": "Failed", "attributes": ["Transient", "Conflict"]},
            "podPatterns": [{"nameRegex": "a", "reasonRegex": "b", "messageRegex": "c", "containers": [
                {"nameRegex": "d", "reasonRegex": "e", "messageRegex": "f",
                 "signalRange": {"min": 1}, "codeRange": {"max": 2}}]}],
        });
        assert_eq!(serde_json::to_value(&rule).unwrap(), wire);
        assert_eq!(serde_json::from_value::<PodFailureRule>(wire).unwrap(), rule);
    }

    #[test]
    fn optional_fields_of_an_entry_may_be_left_out() {
        let bare = read("{code: 7}").unwrap();
        assert_eq!((bare.phrase.as_str(), bare.r#type, bare.pod_patterns), ("", None, Vec::new()));
        let unnamed = read("{code: 7, type: {attributes: null}, podPatterns: null}").unwrap();
        assert_eq!(unnamed.r#type, Some(CompletionType::failed(&[])));
        assert!(read("{phrase: NoCode}").unwrap_err().contains("code"));
        assert!(read("{code: 7, podPattern: []}").unwrap_err().contains("podPattern"));
    }

    #[test]
    fn an_open_end_of_a_range_holds_everything() {
        assert!(Int32Range::default().contains(i32::MIN));
        assert!(Int32Range::only(3).contains(3) && !Int32Range::only(3).contains(4));
        let from_one = Int32Range { min: Some(1), max: None };
        assert!(from_one.contains(i32::MAX) && !from_one.contains(0));
    }
}
