//! The place of values in an object: a JSON pointer (RFC 6901) in which `*` stands for each of several.

use std::fmt;

use serde::{Deserialize, Deserializer};

use super::refusal::refused;

/// The parts that a pointer has at most.
const MAX_PARTS: usize = 16;

/// The place of a value, or of several. The empty one is the value that it starts from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pointer(Vec<Part>);

/// A step of a pointer.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// The field of that name.
    Field(String),
    /// Each element of a list, or each value of an object.
    Each,
}

impl Pointer {
    /// Reads a pointer: empty, or parts that each begin with `/`.
    pub fn parse(text: &str) -> Option<Pointer> {
        let Some(parts) = text.strip_prefix('/') else { return text.is_empty().then(Pointer::default) };
        let part = |part: &str| match part {
            "*" => Some(Part::Each),
            "" => None,
            part => Some(Part::Field(part.replace("~1", "/").replace("~0", "~"))),
        };
        let parts: Vec<Part> = parts.split('/').map(part).collect::<Option<_>>()?;
        (parts.len() <= MAX_PARTS).then_some(Pointer(parts))
    }

    /// The pointer to a field within fields.
    pub fn of_fields<const N: usize>(fields: [&str; N]) -> Pointer {
        Pointer(fields.map(|field| Part::Field(field.to_owned())).into())
    }

    /// The same, for each value there.
    #[must_use]
    pub fn each(mut self) -> Pointer {
        self.0.push(Part::Each);
        self
    }

    /// Its parts.
    pub fn parts(&self) -> &[Part] {
        &self.0
    }

    /// Whether it stands for one value at most.
    pub fn is_single(&self) -> bool {
        !self.0.contains(&Part::Each)
    }
}

/// A field's name, as a pointer writes it.
pub fn escaped(field: &str) -> String {
    field.replace('~', "~0").replace('/', "~1")
}

impl fmt::Display for Pointer {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|part| match part {
            Part::Field(field) => write!(to, "/{}", escaped(field)),
            Part::Each => to.write_str("/*"),
        })
    }
}

impl<'de> Deserialize<'de> for Pointer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let allowed = "a JSON pointer of up to 16 parts such as /spec/suspend; /* stands for each element";
        Pointer::parse(&text).ok_or_else(|| refused(format_args!("'{text}'"), allowed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_is_written_as_it_was_read() {
        for text in ["", "/spec", "/spec/a~1b/*/c~0d", "/*"] {
            assert_eq!(Pointer::parse(text).unwrap().to_string(), text);
        }
        let parts = Pointer::parse("/a~1b/*").unwrap();
        assert_eq!(parts.parts(), [Part::Field("a/b".to_owned()), Part::Each]);
        assert!(!parts.is_single());
    }

    #[test]
    fn text_that_is_no_pointer_is_none() {
        let long = "/a".repeat(17);
        for text in ["spec", "/", "/a//b", "spec/a", &long] {
            assert_eq!(Pointer::parse(text), None, "{text}");
        }
    }
}
