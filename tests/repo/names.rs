//! One name has one meaning in a crate: no two types of a crate have the same name.
//!
//! Structs, enums, traits and aliases at the top of a module count. Those of tests and functions do not.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;

use crate::circles::crates;
use crate::source::{self, File};

/// A crate, as [`crates`] names it, and a name that several of its types have. The list only shrinks.
const SHARED: [(&str, &str); 18] = [
    ("", "Error"),
    ("crates/access", "Error"),
    ("crates/barrier", "Error"),
    ("crates/bench/src/main.rs", "Arguments"),
    ("crates/cli", "Entry"),
    ("crates/demo/src/main.rs", "Arguments"),
    ("crates/differential/src/main.rs", "Frameworks"),
    ("crates/queue", "Amounts"),
    ("crates/sim", "Write"),
    ("loadtest", "Arguments"),
    ("loadtest", "Cost"),
    ("loadtest", "Figure"),
    ("loadtest", "Fixture"),
    ("loadtest", "Kind"),
    ("loadtest", "Level"),
    ("loadtest", "Pods"),
    ("loadtest", "Unit"),
    ("xtask/src/main.rs", "Arguments"),
];

/// A type, and a module with a body, at the start of a line.
static TYPE: LazyLock<Regex> = LazyLock::new(|| item(r"(?:struct|enum|union|trait|type) (\w+)"));
static MODULE: LazyLock<Regex> = LazyLock::new(|| item(r"mod \w+ \{"));

/// The modules whose types have a name, by the crate and that name.
type SharedNames = BTreeMap<(String, String), Vec<String>>;

fn item(pattern: &str) -> Regex {
    Regex::new(&format!(r"(?m)^(?:pub(?:\([^)]*\))? )?{pattern}")).expect("a regular expression")
}

/// The names of the types at the top of a module, and at the top of the modules in it.
fn types(code: &str) -> Vec<String> {
    let mut names: Vec<String> = TYPE.captures_iter(code).map(|found| found[1].to_owned()).collect();
    for found in MODULE.find_iter(code) {
        let body = &code[found.end()..source::block_end(code, found.end() - 1)];
        names.extend(types(&body.replace("\n    ", "\n")));
    }
    names
}

/// The names that several types of one crate have.
fn shared(files: &[File]) -> SharedNames {
    let mut shared = SharedNames::new();
    for (directory, modules) in crates(files) {
        for (module, code) in modules {
            for name in types(&code) {
                shared.entry((directory.clone(), name)).or_default().push(module.clone());
            }
        }
    }
    shared.retain(|_, modules| modules.len() > 1);
    shared
}

#[test]
fn no_two_types_of_a_crate_have_the_same_name() {
    let shared = shared(&source::files());
    let is_listed = |of: &str, name: &str| SHARED.contains(&(of, name));
    let mut wrong: Vec<String> = shared
        .iter()
        .filter(|((of, name), _)| !is_listed(of, name))
        .map(|((of, name), modules)| format!("{of:?}: {name} is a type in each of {modules:?}: rename it"))
        .collect();
    let is_shared = |of: &str, name: &str| shared.contains_key(&(of.to_owned(), name.to_owned()));
    let gone = SHARED.iter().filter(|(of, name)| !is_shared(of, name));
    wrong.extend(gone.map(|(of, name)| format!("{of:?}: types no longer share the name {name}: unlist it")));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn found(files: &[(&str, &str)]) -> Vec<String> {
    let file =
        |(path, text): &(&str, &str)| File { path: format!("crates/x/src/{path}"), text: (*text).to_owned() };
    let files: Vec<File> = files.iter().map(file).collect();
    shared(&files).into_keys().map(|(_, name)| name).collect()
}

#[test]
fn two_types_of_one_name_are_found() {
    assert_eq!(found(&[("a.rs", "pub struct A;"), ("b.rs", "enum B {}\nenum A {}")]), ["A"]);
    assert_eq!(found(&[("a.rs", "pub(crate) trait A {}"), ("a/b.rs", "type A<T> = Vec<T>;")]), ["A"]);
    assert_eq!(found(&[("a.rs", "struct A;\npub mod b {\n    mod c {\n        struct A;\n    }\n}")]), ["A"]);
    assert_eq!(found(&[("main.rs", "mod a;\nstruct A;"), ("a.rs", "struct A;")]), ["A"]);
}

#[test]
fn types_of_tests_functions_and_other_crates_may_share_a_name() {
    let tests =
        [("a.rs", "struct A;\n#[cfg(test)]\nmod tests {\n    struct A;\n}"), ("tests.rs", "struct A;")];
    assert_eq!(found(&tests), [""; 0]);
    let functions = [("a.rs", "struct A;"), ("b.rs", "fn f() {\n    struct A;\n}")];
    assert_eq!(found(&functions), [""; 0]);
    let text =
        [("a.rs", "struct A;"), ("b.rs", "// struct A;\nstruct Ab;\nconst B: &str = \"\nstruct A;\";")];
    assert_eq!(found(&text), [""; 0]);
    let program = [("lib.rs", "struct A;"), ("main.rs", "struct A;")];
    assert_eq!(found(&program), [""; 0]);
}
