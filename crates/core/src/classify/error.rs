//! What can be wrong with a `podFailureSpec`.

/// What is wrong with an entry of the `podFailureSpec`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("podFailureSpec[{entry}].{field} (code {code}): {problem}")]
pub struct Error {
    /// Position of the entry, from 0.
    pub entry: usize,
    /// Its code.
    pub code: i32,
    /// Path of the field in the entry.
    pub field: String,
    /// What is wrong with the field.
    pub problem: Problem,
}

/// What is wrong with a field of the `podFailureSpec`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The contract keeps the code for itself.
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
        /// As the config has it.
        pattern: String,
        /// Why not.
        reason: String,
    },
}
