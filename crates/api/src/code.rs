//! Predefined completion codes, and the type of a completion.
//!
//! The table is data (`data/completion_codes.csv`): tests and the manual read the same rows.

use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::de::value::{Error, StrDeserializer};
use serde::de::{Deserializer, IntoDeserializer};
use serde::{Deserialize, Serialize};

/// Whether an attempt succeeded or failed, and how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CompletionType {
    /// Succeeded or failed.
    pub name: CompletionName,
    /// Written as `[]` if there are none; `null` is accepted.
    #[serde(default, deserialize_with = "known")]
    pub attributes: Vec<Attribute>,
}

/// The original accepted any attribute in its config file, and stored it. No rule uses those that are unknown
/// here: they are left out, so that the status stays readable.
fn known<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Attribute>, D::Error> {
    #[derive(Deserialize)]
    #[serde(from = "String")]
    struct Known(Option<Attribute>);
    impl From<String> for Known {
        fn from(name: String) -> Self {
            let name: StrDeserializer<'_, Error> = name.as_str().into_deserializer();
            Known(Attribute::deserialize(name).ok())
        }
    }
    let names = Option::<Vec<Known>>::deserialize(deserializer)?.unwrap_or_default();
    Ok(names.into_iter().filter_map(|Known(attribute)| attribute).collect())
}

/// Succeeded or failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum CompletionName {
    /// Succeeded.
    Succeeded,
    /// Failed.
    Failed,
}

/// The kind of a failure, if it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Attribute {
    /// Another attempt may succeed.
    Transient,
    /// Others competed for the same resources: retry later.
    Conflict,
    /// Every further attempt would fail, too.
    Permanent,
}

impl CompletionType {
    /// Succeeded.
    pub fn succeeded() -> Self {
        CompletionType { name: CompletionName::Succeeded, attributes: Vec::new() }
    }

    /// Failed, with these attributes.
    pub fn failed(attributes: &[Attribute]) -> Self {
        CompletionType { name: CompletionName::Failed, attributes: attributes.to_vec() }
    }

    /// Whether this is a failure.
    pub fn is_failed(&self) -> bool {
        self.name == CompletionName::Failed
    }

    /// Whether it has that attribute.
    pub fn has(&self, attribute: Attribute) -> bool {
        self.attributes.contains(&attribute)
    }
}

/// A completion code that means the same in every cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum Code {
    /// A container chose to report a transient failure.
    ContainerTransientFailed = 200,
    /// A container chose to report a transient failure caused by competition.
    ContainerTransientConflictFailed = 201,
    /// A container chose to report a permanent failure.
    ContainerPermanentFailed = 210,
    /// The attempt succeeded.
    Succeeded = 0,
    /// The ConfigMap was not deleted by the controller.
    ConfigMapExternalDeleted = -100,
    /// The Pod was not deleted by the controller.
    PodExternalDeleted = -101,
    /// The created ConfigMap never appeared in the cache.
    ConfigMapLocalCacheCreationTimeout = -110,
    /// The created Pod never appeared in the cache.
    PodLocalCacheCreationTimeout = -111,
    /// The API server refused the Pod for now; never the result of an attempt.
    PodCreationTransientError = -120,
    /// The API server refused the Pod for good: it is invalid or too large.
    PodCreationPermanentError = -200,
    /// The user stopped the Framework.
    StopFrameworkRequested = -210,
    /// The FrameworkAttempt completed, and its Tasks with it.
    FrameworkAttemptCompletion = -220,
    /// A scale-down removed the Task.
    DeleteTaskRequested = -230,
    /// The Framework ran past its deadline.
    ActiveDeadlineExceeded = -240,
    /// The Pod failed and none of its containers did.
    PodFailedWithoutFailedContainer = -300,
    /// The API server refused the Pod for a reason that may or may not last.
    PodCreationUnknownError = -310,
}

/// A row of the table of predefined codes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeRow {
    /// The code; `None` for the row of codes taken from a container.
    pub code: Option<i32>,
    /// Its phrase.
    pub phrase: &'static str,
    /// Its type.
    pub r#type: CompletionType,
}

/// Phrase of a completion whose code is the exit code of a container that matched no pattern.
pub const UNRECOGNIZED_PHRASE: &str = "ContainerUnrecognizedFailed";

/// Reason of the condition `Failed`, and of the Event, of a Framework that ran past its deadline.
pub const DEADLINE_EXCEEDED: &str = "DeadlineExceeded";

const TABLE: &str = include_str!("../data/completion_codes.csv");

static ROWS: LazyLock<Vec<CodeRow>> = LazyLock::new(|| TABLE.lines().skip(1).filter_map(row).collect());

fn row(line: &'static str) -> Option<CodeRow> {
    let mut cells = line.split(',');
    let code = cells.next()?.parse().ok();
    let phrase = cells.next()?;
    let r#type = match cells.next()? {
        "Succeeded" => CompletionType::succeeded(),
        "Failed" => CompletionType::failed(&[]),
        "Failed Transient" => CompletionType::failed(&[Attribute::Transient]),
        "Failed Transient Conflict" => CompletionType::failed(&[Attribute::Transient, Attribute::Conflict]),
        "Failed Permanent" => CompletionType::failed(&[Attribute::Permanent]),
        _ => return None,
    };
    Some(CodeRow { code, phrase, r#type })
}

/// Every row of the table of predefined codes, in its order.
pub fn table() -> &'static [CodeRow] {
    &ROWS
}

impl Code {
    /// The number on the wire.
    pub fn number(self) -> i32 {
        self as i32
    }

    fn row(self) -> Option<&'static CodeRow> {
        ROWS.iter().find(|row| row.code == Some(self.number()))
    }

    /// The code in one word.
    pub fn phrase(self) -> &'static str {
        self.row().map_or(UNRECOGNIZED_PHRASE, |row| row.phrase)
    }

    /// Succeeded or failed, and how.
    pub fn completion_type(self) -> CompletionType {
        self.row().map_or_else(|| CompletionType::failed(&[]), |row| row.r#type.clone())
    }

    /// Whether a completion with this code is never followed by a retry, under any policy.
    pub fn forbids_retry(number: i32) -> bool {
        [
            Code::StopFrameworkRequested,
            Code::FrameworkAttemptCompletion,
            Code::DeleteTaskRequested,
            Code::ActiveDeadlineExceeded,
        ]
        .iter()
        .any(|code| code.number() == number)
    }

    /// Whether this number is reserved, so that a config may not define it.
    pub fn is_reserved(number: i32) -> bool {
        (200..=219).contains(&number) || (-999..=0).contains(&number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Code; 16] = [
        Code::ContainerTransientFailed,
        Code::ContainerTransientConflictFailed,
        Code::ContainerPermanentFailed,
        Code::Succeeded,
        Code::ConfigMapExternalDeleted,
        Code::PodExternalDeleted,
        Code::ConfigMapLocalCacheCreationTimeout,
        Code::PodLocalCacheCreationTimeout,
        Code::PodCreationTransientError,
        Code::PodCreationPermanentError,
        Code::StopFrameworkRequested,
        Code::FrameworkAttemptCompletion,
        Code::DeleteTaskRequested,
        Code::ActiveDeadlineExceeded,
        Code::PodFailedWithoutFailedContainer,
        Code::PodCreationUnknownError,
    ];

    #[test]
    fn a_type_with_an_attribute_that_only_the_original_accepts_is_readable() {
        for (attributes, read) in [
            (r#"["Transient","Infrastructure","transient"]"#, vec![Attribute::Transient]),
            ("[]", vec![]),
            ("null", vec![]),
        ] {
            let text = format!(r#"{{"name":"Failed","attributes":{attributes}}}"#);
            assert_eq!(serde_json::from_str::<CompletionType>(&text).unwrap(), CompletionType::failed(&read));
        }
        assert!(serde_json::from_str::<CompletionType>(r#"{"name":"Ended"}"#).is_err());
    }

    #[test]
    fn each_code_has_one_row_with_its_own_name() {
        assert_eq!(table().len(), ALL.len() + 1, "one row a code, and one for exit codes");
        for code in ALL {
            assert_eq!(format!("{code:?}"), code.phrase());
            assert!(Code::is_reserved(code.number()), "{code:?} must be out of a config's reach");
        }
        assert_eq!(table().last().map(|row| (row.code, row.phrase)), Some((None, UNRECOGNIZED_PHRASE)));
    }
}
