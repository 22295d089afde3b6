//! The values of environment variables, left out of an object's JSON.
//!
//! Guarantees: of each entry of a list named `env`, at any depth, the `value` is replaced; so is the copy of
//! the whole object that `kubectl apply` keeps in an annotation. Everything else stays as it was, byte for
//! byte. No nesting is too deep.

use std::borrow::Cow;

/// Stands in the place of a value.
const REDACTED: &str = "\"(redacted)\"";
/// The annotation in which `kubectl apply` keeps the object as it was applied.
const APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// An object or a list whose end was not read yet.
#[derive(Default)]
struct Open<'a> {
    is_object: bool,
    /// A list of environment variables.
    is_env: bool,
    /// One environment variable.
    is_variable: bool,
    /// In an object, the key whose value comes next.
    key: Option<Cow<'a, str>>,
}

impl Open<'_> {
    fn has_key(&self, key: &str) -> bool {
        self.key.as_deref() == Some(key)
    }

    /// Whether the value that comes next is left out.
    fn hides(&self) -> bool {
        self.has_key(APPLIED) || (self.is_variable && self.has_key("value"))
    }
}

/// The JSON without the values of environment variables.
pub fn redact_env(json: &str) -> String {
    let mut redacted = String::with_capacity(json.len());
    let mut outer: Vec<Open<'_>> = Vec::new();
    let mut open = Open::default();
    // The depth of objects and lists within a value that is left out.
    let mut hidden = 0_usize;
    let mut rest = json;
    while let Some((token, after)) = next_token(rest) {
        rest = after;
        let begins = matches!(token, "{" | "[");
        let ends = matches!(token, "}" | "]");
        if hidden > 0 {
            hidden = if begins { hidden + 1 } else { hidden - usize::from(ends) };
        } else if ends {
            open = outer.pop().unwrap_or_default();
            redacted.push_str(token);
        } else if token == "," || token == ":" || token.starts_with(char::is_whitespace) {
            if token == "," {
                open.key = None;
            }
            redacted.push_str(token);
        } else if open.is_object && open.key.is_none() {
            open.key = Some(text(token));
            redacted.push_str(token);
        } else if open.hides() {
            hidden = usize::from(begins);
            redacted.push_str(REDACTED);
        } else {
            redacted.push_str(token);
            if begins {
                let is_object = token == "{";
                let is_env = !is_object && open.has_key("env");
                let inner = Open { is_object, is_env, is_variable: is_object && open.is_env, key: None };
                outer.push(std::mem::replace(&mut open, inner));
            }
        }
    }
    redacted
}

/// The first token and the text after it: a string, a run of white space, a sign, or another plain value.
fn next_token(json: &str) -> Option<(&str, &str)> {
    let first = json.chars().next()?;
    let end = match first {
        '"' => end_of_string(json),
        '{' | '}' | '[' | ']' | ',' | ':' => Some(1),
        _ if first.is_whitespace() => json.find(|letter: char| !letter.is_whitespace()),
        _ => json.find(|letter: char| letter.is_whitespace() || "{}[],:\"".contains(letter)),
    };
    json.split_at_checked(end.unwrap_or(json.len()))
}

/// The index after the quotation mark that ends the string.
fn end_of_string(json: &str) -> Option<usize> {
    let mut escaped = true; // the first quotation mark begins it
    let end = json.bytes().position(|byte| {
        let is_end = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        is_end
    });
    end.map(|end| end + 1)
}

/// The text of a string in JSON.
fn text(token: &str) -> Cow<'_, str> {
    if token.contains('\\') {
        serde_json::from_str(token).map_or(Cow::Borrowed(token), Cow::Owned)
    } else {
        Cow::Borrowed(token.trim_matches('"'))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn redacted(object: &Value) -> Value {
        serde_json::from_str(&redact_env(&object.to_string())).unwrap()
    }

    #[test]
    fn values_of_variables_are_left_out_of_any_container_of_any_template() {
        let template = |value: &str, applied: &str| {
            let env = json!([
                {"name": "TOKEN", "value": value},
                {"value": value, "name": "FIRST"},
                {"name": "FROM", "valueFrom": {"secretKeyRef": {"name": "s", "key": "value"}}},
            ]);
            let container = json!({"name": "c", "env": env, "args": ["--value", "x"]});
            json!({
                "metadata": {"annotations": {APPLIED: applied, "value": "kept"}},
                "spec": {"containers": [container], "initContainers": [container],
                    "ephemeralContainers": [container], "value": "kept"},
            })
        };
        let framework = |value, applied| {
            let task = json!({"pod": template(value, applied)});
            json!({"metadata": {"name": "env"}, "spec": {"taskRoles": [{"name": "w", "task": task}]}})
        };
        let (secret, applied) = ("s3\"cr\\et, {[", "{\"env\":[{\"value\":\"s3\"}]}");
        assert_eq!(redacted(&template(secret, applied)), template("(redacted)", "(redacted)"));
        assert_eq!(redacted(&framework(secret, applied)), framework("(redacted)", "(redacted)"));
    }

    #[test]
    fn a_value_of_another_type_or_an_escaped_key_hides_nothing_else() {
        let json = r#"{ "\u0065nv" : [ {"\u0076alue":{"a":[1,{"env":2}]},"n":1.50}, {"value" : 7} ]}"#;
        let expected =
            r#"{ "\u0065nv" : [ {"\u0076alue":"(redacted)","n":1.50}, {"value" : "(redacted)"} ]}"#;
        assert_eq!(redact_env(json), expected);
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(redact_env(&deep), deep);
    }

    proptest! {
        #[test]
        fn any_object_without_variables_stays_as_it_was(text in ".*", number: f64, many in 0_usize..4) {
            let list = vec![json!({"value": text, "n": number}); many];
            let json = json!({"list": list, "env": text, "o": {"env": {"value": text}}, &text: [[text]]});
            let json = serde_json::to_string_pretty(&json).unwrap();
            prop_assert_eq!(redact_env(&json), json);
        }
    }
}
