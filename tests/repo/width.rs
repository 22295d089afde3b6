//! No struct knows everything: at most so many fields, outside of configuration and metrics.

use crate::source::{self, File};

/// Fields of a struct.
const FIELDS: usize = 15;

/// Endings of the names of structs that list settings or counts: they are read one entry at a time.
const LISTS: [&str; 5] = ["Arguments", "Config", "Metrics", "Options", "Settings"];

/// File, struct, how many fields, and why. The numbers only shrink.
const EXCEPTIONS: [(&str, &str, usize, &str); 2] = [
    ("crates/sim/src/rates.rs", "Rates", 18, "a configuration: how often each fault comes"),
    ("loadtest/src/report.rs", "Run", 16, "the wire form of a report, one entry for each chapter"),
];

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

/// The structs that are too wide, and the exceptions that say too much.
fn wide(files: &[File], exceptions: &[(&str, &str, usize, &str)]) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut held = vec![false; exceptions.len()];
    for file in files.iter().filter(|file| file.is_rust()) {
        for (line, name, fields) in structs(&file.product()) {
            if fields <= FIELDS || LISTS.iter().any(|end| name.ends_with(end)) {
                continue;
            }
            let known = exceptions.iter().position(|(path, of, ..)| (*path, *of) == (&*file.path, &*name));
            match known {
                Some(known) if exceptions[known].2 == fields => held[known] = true,
                _ => wrong.push(format!("{}:{line}: {name} has {fields} fields", file.path)),
            }
        }
    }
    let idle = exceptions.iter().zip(held).filter(|(_, held)| !held);
    wrong.extend(idle.map(|((path, name, count, _), _)| format!("{path}: {name} has not {count} fields")));
    wrong
}

#[test]
fn no_struct_outside_of_configuration_and_metrics_has_more_than_15_fields() {
    assert_eq!(wide(&source::files(), &EXCEPTIONS), [""; 0]);
    for (path, name, _, reason) in EXCEPTIONS {
        assert!(reason.split_whitespace().count() >= 3, "{path}: {name}: {reason:?} is no reason");
    }
}

#[test]
fn fields_are_counted() {
    let code = "pub struct A<T> {\n    #[serde(default, rename = \"\")]\n    pub a: Map<u8, u8>,\n    b: [u8; 2],\n}\n\
                struct B;\nstruct C(u8, u8);\nstruct D { f: fn(u8, u8) -> u8, g: u8 }\nstruct E {}\n";
    let found = structs(code);
    assert_eq!(found, [(1, "A".to_owned(), 2), (8, "D".to_owned(), 2), (9, "E".to_owned(), 0)]);
}

#[test]
fn a_wide_struct_and_an_exception_that_says_too_much_are_found() {
    let fields: String = (0..16).map(|number| format!("    f{number}: u8,\n")).collect();
    let file = |name: &str| File {
        path: "src/a.rs".into(),
        text: format!("//! A.\nstruct {name} {{\n{fields}}}\n"),
    };
    assert_eq!(wide(&[file("Desk")], &[]), ["src/a.rs:2: Desk has 16 fields"]);
    assert_eq!(wide(&[file("QueueSettings")], &[]), [""; 0]);
    assert_eq!(wide(&[file("Desk")], &[("src/a.rs", "Desk", 16, "")]), [""; 0]);
    let too_much = wide(&[file("Desk")], &[("src/a.rs", "Desk", 17, "")]);
    assert_eq!(too_much, ["src/a.rs:2: Desk has 16 fields", "src/a.rs: Desk has not 17 fields"]);
}
