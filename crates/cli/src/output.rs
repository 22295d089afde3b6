//! The form of the output: a table for people, or JSON or YAML for programs.

use std::io::IsTerminal;

use serde::Serialize;

use crate::args::{Form, Global, When};
use crate::error::Error;
use crate::table::Table;
use crate::visible::visible_json;

const GREEN: &str = "\x1b[32m";
const YELLOW: &str = "\x1b[33m";
const RED: &str = "\x1b[31m";
const BOLD: &str = "\x1b[1m";
const RESET: &str = "\x1b[0m";

/// The form of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// The form.
    pub form: Form,
    /// Whether it has colours.
    pub color: bool,
    /// Whether its tables have titles.
    pub titles: bool,
}

impl Style {
    /// The style that the options and the environment ask for.
    pub fn new(global: &Global) -> Style {
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let color = colors(global.color, no_color, std::io::stdout().is_terminal());
        Style { form: global.output, color, titles: !global.no_headers }
    }

    /// The text of `value` for programs, or the text that `people` returns.
    pub fn show(self, value: &impl Serialize, people: impl FnOnce() -> String) -> Result<String, Error> {
        match self.form {
            Form::Table | Form::Wide | Form::Name => Ok(people()),
            // Plain data: a map with keys that are no strings would be a fault of ours, which YAML shows.
            Form::Json => Ok(visible_json(serde_json::to_string_pretty(value).unwrap_or_default()) + "\n"),
            Form::Yaml => serde_saphyr::to_string(value).map_err(|error| Error::Yaml(error.to_string())),
        }
    }

    /// The text of a table.
    pub fn table(self, table: &Table) -> String {
        table.render(self.titles, |cell| self.word(cell))
    }

    /// The sentence in place of a table without rows. Without titles, each line is a row for a program.
    pub fn nothing(self, sentence: &str) -> String {
        if self.titles { sentence.to_owned() } else { String::new() }
    }

    /// A word in the colour of its meaning: green for progress, yellow for a wait, red for a failure.
    pub fn word(self, word: &str) -> String {
        let color = match word {
            _ if !self.color => None,
            "Running" | "AttemptRunning" | "Succeeded" | "Dequeued" => Some(GREEN),
            "Pending" | "Enqueued" | "AttemptCreationPending" | "AttemptPreparing" | "Queued" => Some(YELLOW),
            _ if word.starts_with("Failed") || word.ends_with("Failed") => Some(RED),
            _ => None,
        };
        color.map_or_else(|| word.to_owned(), |color| format!("{color}{word}{RESET}"))
    }

    /// A heading.
    pub fn heading(self, word: &str) -> String {
        if self.color { format!("{BOLD}{word}{RESET}") } else { word.to_owned() }
    }
}

/// Whether to use colours.
fn colors(when: When, no_color: bool, is_terminal: bool) -> bool {
    match when {
        When::Always => true,
        When::Never => false,
        When::Auto => is_terminal && !no_color,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_need_a_terminal_without_no_color_or_a_wish() {
        assert!(colors(When::Auto, false, true));
        assert!(!colors(When::Auto, true, true) && !colors(When::Auto, false, false));
        assert!(colors(When::Always, true, false) && !colors(When::Never, false, true));
    }

    #[test]
    fn a_word_without_colours_is_plain() {
        let plain = Style { form: Form::Table, color: false, titles: true };
        assert_eq!(plain.word("Running"), "Running");
        let colored = Style { color: true, ..plain };
        assert_eq!(colored.word("Running"), "\x1b[32mRunning\x1b[0m");
        assert_eq!(colored.word("ContainerUnrecognizedFailed").find(RED), Some(0));
        assert_eq!(colored.word("a"), "a");
    }
}
