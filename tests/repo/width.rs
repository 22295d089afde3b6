//! No struct knows everything: at most so many fields, outside of configuration and metrics.

use crate::source::{self, File};

/// Fields of a struct.
const FIELDS: usize = 15;

/// Endings of the names of structs that list settings: they are read one entry at a time.
const LISTS: [&str; 4] = ["Arguments", "Config", "Options", "Settings"];
/// The struct that lists all counts.
const COUNTS: &str = "Metrics";

/// The structs with named fields in a code, each with its line and how many fields it has.
fn structs(code: &str) -> Vec<(usize, String, usize)> {
    let mut found = Vec::new();
    for (at, word) in code.match_indices("struct ") {
        if code[..at].ends_with(|letter: char| letter.is_alphanumeric() || letter == '_') {
            continue;
        }
        let rest = &code[at + word.len()..];
        let name: String =
            rest.chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect();
        if let Some(open) = rest.find(['{', ';', '(']).filter(|open| rest[*open..].starts_with('{')) {
            found.push((1 + code[..at].matches('\n').count(), name, fields(&rest[open + 1..])));
        }
    }
    found
}

/// How many fields there are up to the end of the block.
fn fields(body: &str) -> usize {
    let (mut depth, mut count, mut empty, mut last) = (0_usize, 0, true, ' ');
    for letter in body.chars() {
        match letter {
            '(' | '[' | '{' | '<' => depth += 1,
            // An arrow closes nothing.
            '>' if last == '-' => {}
            '}' if depth == 0 => break,
            ')' | ']' | '}' | '>' => depth -= 1,
            ',' if depth == 0 => {
                count += usize::from(!empty);
                empty = true;
                last = letter;
                continue;
            }
            _ => {}
        }
        empty &= letter.is_whitespace();
        last = letter;
    }
    count + usize::from(!empty)
}

/// The structs that are too wide, those of tests too.
fn wide(files: &[File]) -> Vec<String> {
    let mut wrong = Vec::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        for (line, name, fields) in structs(&source::code(&file.text)) {
            if fields > FIELDS && name != COUNTS && !LISTS.iter().any(|end| name.ends_with(end)) {
                wrong.push(format!("{}:{line}: {name} has {fields} fields", file.path));
            }
        }
    }
    wrong
}

#[test]
fn no_struct_outside_of_configuration_and_metrics_has_more_than_15_fields() {
    assert_eq!(wide(&source::files()), [""; 0]);
}

#[test]
fn fields_are_counted() {
    let code = "pub struct A<T> {\n    #[serde(default, rename = \"\")]\n    pub a: Map<u8, u8>,\n    b: [u8; 2],\n}\n\
                struct B;\nstruct C(u8, u8);\nstruct D { f: fn(u8, u8) -> u8, g: u8 }\nstruct E {}\n";
    let found = structs(code);
    assert_eq!(found, [(1, "A".to_owned(), 2), (8, "D".to_owned(), 2), (9, "E".to_owned(), 0)]);
}

#[test]
fn a_wide_struct_is_found_in_tests_too() {
    let fields: String = (0..16).map(|number| format!("    f{number}: u8,\n")).collect();
    let file = |path: &str, name: &str| File {
        path: path.into(),
        text: format!("//! A.\n#[cfg(test)]\nstruct {name} {{\n{fields}}}\n"),
    };
    assert_eq!(wide(&[file("src/a.rs", "World")]), ["src/a.rs:3: World has 16 fields"]);
    assert_eq!(wide(&[file("tests/a.rs", "World")]), ["tests/a.rs:3: World has 16 fields"]);
    assert_eq!(wide(&[file("src/a.rs", "QueueSettings")]), [""; 0]);
}
