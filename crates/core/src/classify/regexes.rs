//! Compiled regexes.

use std::collections::BTreeMap;

use regex::{Regex, RegexBuilder};

use super::error::Problem;

/// The most memory that one compiled regex may take.
pub(super) const REGEX_SIZE_LIMIT: usize = 4 << 20;
/// The deepest nesting of groups in a regex.
const REGEX_NEST_LIMIT: u32 = 100;

/// Compiled regexes by their text: the rules repeat a few of them often.
#[derive(Default)]
pub(super) struct Regexes {
    by_pattern: BTreeMap<String, Regex>,
}

impl Regexes {
    pub(super) fn compile(&mut self, pattern: &str) -> Result<Regex, Problem> {
        if let Some(regex) = self.by_pattern.get(pattern) {
            return Ok(regex.clone());
        }
        let refuse = |reason: String| Problem::Regex { pattern: pattern.to_owned(), reason };
        let translated = super::syntax::checked(pattern, REGEX_NEST_LIMIT).map_err(refuse)?;
        let regex = RegexBuilder::new(&translated)
            .size_limit(REGEX_SIZE_LIMIT)
            .nest_limit(REGEX_NEST_LIMIT)
            .build()
            .map_err(|error| refuse(plain_reason(&error)))?;
        self.by_pattern.insert(pattern.to_owned(), regex.clone());
        Ok(regex)
    }
}

/// The engine's reason in one line, without the translated pattern that the user never wrote.
fn plain_reason(error: &regex::Error) -> String {
    match error {
        regex::Error::CompiledTooBig(limit) => format!("it takes more than {limit} bytes"),
        error => {
            let text = error.to_string();
            let last = text.lines().last().unwrap_or_default();
            last.strip_prefix("error: ").unwrap_or(last).to_owned()
        }
    }
}
