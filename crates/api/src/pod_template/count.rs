//! Counts the values of a JSON text in one pass, without memory of its own.

use super::limit::{Excess, MAX_DEPTH, MAX_OBJECTS, MAX_PLACEHOLDERS, MAX_VALUES};

/// The opening of a placeholder of any name.
const OPEN: &[u8] = b"{{FC_";

/// Counts of a text that is valid JSON.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub values: usize,
    pub objects: usize,
    pub placeholders: usize,
    depth: usize,
}

impl Counts {
    /// Counts a text, up to the first limit that it exceeds.
    pub fn of(json: &str) -> Result<Self, Excess> {
        // The outermost value follows no bracket and no comma.
        let mut counts = Self { values: 1, ..Self::default() };
        let mut rest = json.as_bytes();
        while let [byte, after @ ..] = rest {
            rest = after;
            match byte {
                b'"' => rest = counts.text(rest),
                b'{' | b'[' => {
                    counts.objects += usize::from(*byte == b'{');
                    counts.depth += 1;
                    // The first member of an object or a list; a comma announces each further one.
                    let next = rest.iter().find(|byte| !byte.is_ascii_whitespace());
                    counts.values += usize::from(!matches!(next, Some(b'}' | b']')));
                }
                b'}' | b']' => counts.depth = counts.depth.saturating_sub(1),
                b',' => counts.values += 1,
                _ => {}
            }
            counts.check()?;
        }
        Ok(counts)
    }

    /// Passes over a text from behind its opening quote; returns the rest after its closing one.
    fn text<'t>(&mut self, text: &'t [u8]) -> &'t [u8] {
        let mut rest = text;
        loop {
            rest = match rest {
                [b'"', after @ ..] => return after,
                [b'\\', _, after @ ..] => after,
                [_, after @ ..] => {
                    self.placeholders += usize::from(rest.starts_with(OPEN));
                    after
                }
                [] => return rest,
            };
        }
    }

    fn check(self) -> Result<(), Excess> {
        Excess::unless(self.values <= MAX_VALUES, MAX_VALUES, "values")?;
        Excess::unless(self.objects <= MAX_OBJECTS, MAX_OBJECTS, "objects")?;
        Excess::unless(self.placeholders <= MAX_PLACEHOLDERS, MAX_PLACEHOLDERS, "placeholders")?;
        Excess::unless(self.depth <= MAX_DEPTH, MAX_DEPTH, "levels of nesting")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn values_of(value: &Value) -> usize {
        1 + match value {
            Value::Array(items) => items.iter().map(values_of).sum(),
            Value::Object(fields) => fields.values().map(values_of).sum(),
            _ => 0,
        }
    }

    #[test]
    fn values_and_objects_are_counted_as_a_parser_sees_them() {
        let examples = [
            json!(null),
            json!([]),
            json!({}),
            json!([1, "a,b[c]{d}", [[]], {}]),
            json!({"a": {"b": [1, 2, {"c": null}]}, "quote\"d": "\\", "e": [{}, {}]}),
        ];
        for example in examples {
            for text in [example.to_string(), serde_json::to_string_pretty(&example).unwrap()] {
                assert_eq!(Counts::of(&text).unwrap().values, values_of(&example), "{text}");
            }
        }
        assert_eq!(Counts::of(r#"{"a":[{},"{"],"b":{}}"#).unwrap().objects, 3);
    }

    #[test]
    fn placeholders_are_counted_in_texts_and_keys() {
        let counts = Counts::of(r#"{"{{FC_TASK_INDEX}}":"x{{FC_POD_NAME}}{{{FC_POD_NAME}}","b":"{{X}}"}"#);
        assert_eq!(counts.unwrap().placeholders, 3);
    }
}
