//! Placeholders in a pod template: `{{FC_TASK_INDEX}}` and its like, anywhere in its strings and keys.
//!
//! Each text is read once from its start. A replacement is never read again, and a text without two braces
//! stays as it is.

use serde_json::Value;

/// How many of the variables of a Pod, the first ones, are placeholders too.
const PLACEHOLDERS: usize = 6;

const OPEN: &str = "{{";
const CLOSE: &str = "}}";

/// The placeholders, by the name between their braces, and their values.
pub(super) struct Placeholders<'v> {
    values: &'v [(&'static str, String)],
}

impl<'v> Placeholders<'v> {
    /// The first few of the variables are placeholders, too.
    pub(super) fn new(variables: &'v [(&'static str, String)]) -> Self {
        Placeholders { values: variables.get(..PLACEHOLDERS).unwrap_or(variables) }
    }

    /// Replaces every placeholder in a template.
    pub(super) fn replace(&self, template: &mut Value) {
        match template {
            Value::String(text) if text.contains(OPEN) => *text = self.replace_in(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.replace(item)),
            Value::Object(fields) => {
                fields.values_mut().for_each(|value| self.replace(value));
                if fields.keys().any(|key| key.contains(OPEN)) {
                    let renamed = |(key, value): (String, Value)| (self.replace_in(&key), value);
                    *fields = std::mem::take(fields).into_iter().map(renamed).collect();
                }
            }
            _ => {}
        }
    }

    fn replace_in(&self, text: &str) -> String {
        let mut replaced = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, from_open)) = split_before(rest, OPEN) {
            replaced.push_str(before);
            rest = match self.value_at(from_open) {
                Some((value, after)) => {
                    replaced.push_str(value);
                    after
                }
                None => {
                    // The second brace may open a placeholder yet: `{{{FC_POD_NAME}}`.
                    replaced.push('{');
                    from_open.strip_prefix('{').unwrap_or_default()
                }
            };
        }
        replaced.push_str(rest);
        replaced
    }

    /// The value of the placeholder that the text starts with, and the text after it.
    fn value_at<'t>(&self, text: &'t str) -> Option<(&'v str, &'t str)> {
        let inside = text.strip_prefix(OPEN)?;
        self.values.iter().find_map(|(name, value)| {
            let after = inside.strip_prefix(name)?.strip_prefix(CLOSE)?;
            Some((value.as_str(), after))
        })
    }
}

/// The text before the first `mark`, and the text from it on.
fn split_before<'t>(text: &'t str, mark: &str) -> Option<(&'t str, &'t str)> {
    text.find(mark).map(|at| text.split_at(at))
}
