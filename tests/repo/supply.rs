//! The crates that we build on: where they come from, their licences, and which ones stay out.
//!
//! These are the checks that `cargo deny` calls sources, licenses and bans. Advisories are in a git
//! repository, which a build from the registry alone does not reach:
//! docs/decisions/0002-choose-libraries.md says how to check them.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

use crate::source;

/// The configuration of cargo-deny.
const DENY: &str = include_str!("../../deny.toml");

/// A list in it, by its key.
fn list(key: &str) -> Vec<&'static str> {
    let begun =
        DENY.split_once(&format!("\n{key} = [")).unwrap_or_else(|| panic!("deny.toml has no {key}")).1;
    let texts = begun.split_once(']').expect("the list ends").0;
    let list: Vec<&str> = texts.split('"').skip(1).step_by(2).collect();
    assert!(!list.is_empty(), "{key} of deny.toml is empty");
    list
}

/// Crates that compile or link C. The list only shrinks.
const C_CODE: [&str; 2] = ["ring", "zstd-sys"];

/// The packages of a build for the platform that we ship for.
fn packages() -> Vec<Value> {
    let arguments = ["metadata", "--format-version=1", "--offline", "--locked"];
    let platform = ["--filter-platform", "x86_64-unknown-linux-gnu"];
    let output = Command::new(env!("CARGO"))
        .args(arguments)
        .args(platform)
        .current_dir(source::root())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo writes JSON");
    let nodes = metadata["resolve"]["nodes"].as_array().expect("a graph");
    let used: BTreeSet<&str> = nodes.iter().filter_map(|node| node["id"].as_str()).collect();
    let all = metadata["packages"].as_array().expect("packages");
    let used = |package: &&Value| package["id"].as_str().is_some_and(|id| used.contains(id));
    all.iter().filter(used).cloned().collect()
}

fn name(package: &Value) -> &str {
    package["name"].as_str().expect("a package has a name")
}

/// Whether an SPDX expression lets us choose licences of the list. A slash is an old form of OR.
fn permitted(expression: &str) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let (permitted, rest) = any(&words);
    permitted && rest.is_empty()
}

fn any<'a>(words: &'a [&'a str]) -> (bool, &'a [&'a str]) {
    let (mut permitted, mut rest) = all(words);
    while let Some((&"OR", after)) = rest.split_first() {
        let (next, after) = all(after);
        (permitted, rest) = (permitted | next, after);
    }
    (permitted, rest)
}

fn all<'a>(words: &'a [&'a str]) -> (bool, &'a [&'a str]) {
    let (mut permitted, mut rest) = one(words);
    while let Some((&"AND", after)) = rest.split_first() {
        let (next, after) = one(after);
        (permitted, rest) = (permitted & next, after);
    }
    (permitted, rest)
}

fn one<'a>(words: &'a [&'a str]) -> (bool, &'a [&'a str]) {
    match words {
        ["(", inner @ ..] => {
            let (permitted, rest) = any(inner);
            (permitted && rest.first() == Some(&")"), rest.get(1..).unwrap_or_default())
        }
        [licence, "WITH", exception, rest @ ..] => {
            (list("allow").contains(&format!("{licence} WITH {exception}").as_str()), rest)
        }
        [licence, rest @ ..] => (list("allow").contains(licence), rest),
        [] => (false, words),
    }
}

#[test]
fn every_crate_comes_from_the_registry_with_its_checksum() {
    let lock = include_str!("../../Cargo.lock");
    let mut foreign = 0;
    for package in lock.split("[[package]]").skip(1) {
        if let Some(source) = package.lines().find_map(|line| line.strip_prefix("source = ")) {
            assert_eq!(source, "\"registry+https://github.com/rust-lang/crates.io-index\"", "{package}");
            assert!(package.contains("\nchecksum = "), "{package}");
            foreign += 1;
        }
    }
    assert!(foreign > 100, "{foreign} crates of others");
}

#[test]
fn every_crate_has_a_licence_that_permits_to_ship_it() {
    let others: Vec<Value> = packages().into_iter().filter(|package| !package["source"].is_null()).collect();
    assert!(others.len() > 100, "{} crates of others", others.len());
    let refused = |package: &&Value| !permitted(package["license"].as_str().unwrap_or_default());
    let refused: Vec<String> = others
        .iter()
        .filter(refused)
        .map(|package| format!("{}: {}", name(package), package["license"]))
        .collect();
    assert_eq!(refused, Vec::<String>::new());
}

#[test]
fn a_licence_is_read_as_spdx_says() {
    for expression in
        ["MIT", "GPL-3.0 OR MIT", "MIT/GPL-3.0", "(MIT OR GPL-3.0) AND ISC", "MIT OR GPL-3.0 AND X"]
    {
        assert!(permitted(expression), "{expression}");
    }
    for expression in
        ["", "GPL-3.0", "MIT AND GPL-3.0", "MIT WITH X", "(MIT", "MIT ISC", "(MIT OR ISC) AND X"]
    {
        assert!(!permitted(expression), "{expression}");
    }
}

#[test]
fn no_crate_is_banned_and_few_have_several_versions_or_c_code() {
    let packages = packages();
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let banned = list("deny");
    for package in &packages {
        assert!(!banned.contains(&name(package)), "{} is banned", name(package));
        let version = package["version"].as_str().expect("a package has a version");
        versions.entry(name(package)).or_default().insert(version);
    }
    let several: Vec<&str> =
        versions.iter().filter(|(_, versions)| versions.len() > 1).map(|(name, _)| *name).collect();
    assert_eq!(several, list("skip"));
    // Two crates use the field only to be built once.
    let links = |package: &&Value| package["links"].is_string();
    let built_once = ["k8s-openapi", "rayon-core"];
    let linked: BTreeSet<&str> = packages.iter().filter(links).map(name).collect();
    let linked: Vec<&str> = linked.into_iter().filter(|name| !built_once.contains(name)).collect();
    assert_eq!(linked, C_CODE);
}
