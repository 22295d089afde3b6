//! The errors of a `podFailureSpec`.

/// An error in an entry of the `podFailureSpec`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("podFailureSpec[{entry}].{field} (code {code}): {problem}")]
pub struct Error {
    /// Position of the entry, from 0.
    pub entry: usize,
    /// Its code.
    pub code: i32,
    /// Path of the field in the entry.
    pub field: String,
    /// The problem of the field.
    pub problem: Problem,
}

/// The problem of a field of the `podFailureSpec`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The code is reserved.
    #[error("codes from 200 to 219 and from -999 to 0 are reserved")]
    ReservedCode,
    /// An entry before it has the same code.
    #[error("the code is that of entry {first} too")]
    DuplicateCode {
        /// Position of that entry.
        first: usize,
    },
    /// No Pod could ever match.
    #[error("at least one pattern is needed")]
    NoPatterns,
    /// Only failed Pods are classified.
    #[error("the type of a failure cannot be Succeeded")]
    NotAFailure,
    /// The regex cannot be read.
    #[error("cannot use the regex `{pattern}`: {reason}")]
    Regex {
        /// The regex as the config has it.
        pattern: String,
        /// The reason.
        reason: String,
    },
}
