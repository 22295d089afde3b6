//! The documents keep their word: links lead to a target, and every test that is said to hold a rule exists.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::source;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Files that git tracks, or would, with this ending.
fn files(ending: &str) -> Vec<PathBuf> {
    let list = ["ls-files", "--cached", "--others", "--exclude-standard"];
    let output = Command::new("git").args(list).current_dir(root()).output().expect("git lists files");
    let text = String::from_utf8(output.stdout).expect("paths in UTF-8");
    let there = |path: &PathBuf| path.exists();
    text.lines().filter(|path| path.ends_with(ending)).map(|path| root().join(path)).filter(there).collect()
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The last cells of the rows of tables whose last column has this title.
fn column<'a>(document: &'a str, title: &str) -> Vec<&'a str> {
    let mut cells = Vec::new();
    let mut inside = false;
    for line in document.lines() {
        let row: Vec<&str> = line.trim().trim_matches('|').split('|').map(str::trim).collect();
        match row.last() {
            Some(last) if line.starts_with('|') && *last == title => inside = true,
            Some(last) if line.starts_with('|') && inside && !last.starts_with("---") => cells.push(*last),
            _ if !line.starts_with('|') => inside = false,
            _ => {}
        }
    }
    cells
}

fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The names that a document gives for the test of an invariant and that are neither a path nor a test.
fn missing(document: &str, tests: &BTreeSet<String>) -> Vec<String> {
    let mut missing = Vec::new();
    for cell in column(document, "tested by") {
        if quoted(cell).next().is_none() {
            missing.push(format!("no test is named in: {cell}"));
        }
        for name in quoted(cell) {
            let found = if name.contains('/') { root().join(name).exists() } else { tests.contains(name) };
            if !found {
                missing.push(name.to_owned());
            }
        }
    }
    missing
}

/// Names of all functions that are tests.
fn tests() -> BTreeSet<String> {
    let files = files(".rs");
    let names = files.iter().flat_map(|file| {
        let text = read(file);
        source::named_tests(&text).into_iter().map(|(_, name)| name.to_owned()).collect::<Vec<_>>()
    });
    names.collect()
}

#[test]
fn each_invariant_is_tested_by_a_test_that_exists() {
    let document = read(&root().join("docs/architecture.md"));
    assert!(column(&document, "tested by").len() >= 10, "the tables were not found");
    let manual = read(&root().join("docs/manual/guarantees.md"));
    assert!(column(&manual, "tested by").len() >= 4, "the table of the guarantees was not found");
    let queue = read(&root().join("docs/queue-scheduling.md"));
    assert!(column(&queue, "tested by").len() >= 6, "the table of the queue was not found");
    let security = read(&root().join("docs/security.md"));
    assert!(column(&security, "tested by").len() >= 10, "the tables of threats were not found");
    let sharding = read(&root().join("docs/sharding.md"));
    assert!(column(&sharding, "tested by").len() >= 6, "the table of assumptions was not found");
    let documents = [document, manual, queue, security, sharding].join("\n");
    assert_eq!(missing(&documents, &tests()), Vec::<String>::new());
}

/// The files that a cell names: a bare name lies beside the path before it.
fn named_files(cell: &str) -> Vec<PathBuf> {
    let mut beside = root().to_owned();
    let names = quoted(cell).filter(|name| name.ends_with(".rs"));
    let paths = names.map(|name| {
        let path = if name.contains('/') { root().join(name) } else { beside.join(name) };
        path.parent().expect("a folder").clone_into(&mut beside);
        path
    });
    paths.collect()
}

#[test]
fn each_entry_point_is_a_file_that_exists() {
    let document = read(&root().join("docs/architecture.md"));
    let cells = column(&document, "read");
    assert!(cells.len() > 20, "the table was not found");
    let files = cells.iter().flat_map(|cell| named_files(cell));
    assert_eq!(files.filter(|path| !path.exists()).collect::<Vec<_>>(), Vec::<PathBuf>::new());
}

#[test]
fn each_threat_links_to_the_file_of_its_test() {
    let document = read(&root().join("docs/security.md"));
    for cell in column(&document, "tested by") {
        for (name, rest) in cell.split("[`").skip(1).filter_map(|link| link.split_once("`](../")) {
            let (path, _) = rest.split_once(')').expect("the link ends");
            let text = read(&root().join(path));
            let is_there = source::named_tests(&text).iter().any(|(_, test)| *test == name);
            assert!(is_there, "{path} has no test {name}");
        }
        let linked = cell.matches("`](../").count();
        let named = quoted(cell).filter(|name| !name.contains('/')).count();
        assert_eq!(linked, named, "a test without its file: {cell}");
    }
}

#[test]
fn a_test_that_does_not_exist_is_noticed() {
    let document =
        "| rule | tested by |\n|---|---|\n| x | `no_such_test`, `tests/repo/documents.rs` |\n| y | trust |\n";
    let missing = missing(document, &tests());
    assert_eq!(missing, ["no_such_test", "no test is named in: trust"]);
}

/// The notes `tested by: file [test]` of a page: the test of a block, or of the behaviour that it shows.
fn tested_by(page: &str) -> impl Iterator<Item = &str> {
    page.lines().filter_map(|line| line.trim().strip_prefix("<!-- tested by: ")?.strip_suffix(" -->"))
}

/// The fault of a note of a page: the file must have the named test. Without a name it must read the page,
/// whose blocks it then runs as they stand.
fn untested(page: &str, note: &str, text: Option<&str>) -> Option<String> {
    let (file, test) = note.split_once(' ').map_or((note, None), |(file, test)| (file, Some(test)));
    let Some(text) = text else { return Some(format!("{page}: there is no {file}")) };
    match test {
        None if text.lines().any(|line| line.contains("include_str!") && line.contains(page)) => None,
        None => {
            Some(format!("{page}: {file} does not read it: name the test of the behaviour that it shows"))
        }
        Some(test) if source::named_tests(text).iter().any(|(_, name)| *name == test) => None,
        Some(test) => Some(format!("{page}: {file} has no test {test}")),
    }
}

#[test]
fn each_block_that_is_run_elsewhere_names_a_reader_or_a_test() {
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for page in files(".md") {
        let name = page.strip_prefix(root()).expect("it is in the tree").display().to_string();
        for note in tested_by(&read(&page)) {
            let file = note.split(' ').next().unwrap_or_default();
            wrong.extend(untested(&name, note, std::fs::read_to_string(root().join(file)).ok().as_deref()));
            seen += 1;
        }
    }
    assert!(seen > 20, "{seen} notes were found");
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn a_block_that_nothing_runs_is_noticed() {
    let page = "words\n  <!-- tested by: tests/a.rs b -->\n```sh\nls\n```\n<!-- ends: Gone -->\n";
    assert_eq!(tested_by(page).collect::<Vec<_>>(), ["tests/a.rs b"]);
    let reader = "const PAGE: &str = include_str!(\"../docs/p.md\");\n";
    let tests = "#[test]\nfn b() {}\nfn c() {}\n";
    assert_eq!(untested("docs/p.md", "tests/a.rs", Some(reader)), None);
    assert_eq!(untested("docs/p.md", "tests/a.rs b", Some(tests)), None);
    assert!(untested("docs/p.md", "tests/a.rs", None).is_some_and(|what| what.contains("there is no")));
    assert!(
        untested("docs/q.md", "tests/a.rs", Some(reader)).is_some_and(|what| what.contains("does not read"))
    );
    assert!(
        untested("docs/p.md", "tests/a.rs c", Some(tests)).is_some_and(|what| what.contains("no test c"))
    );
}

#[test]
fn links_lead_to_files_that_exist() {
    let mut broken = Vec::new();
    for file in files(".md") {
        let text = read(&file);
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let path = target.split('#').next().unwrap_or_default();
            let local = !path.is_empty() && !path.contains("://");
            if local && !file.parent().expect("a folder").join(path).exists() {
                broken.push(format!("{}: {target}", file.display()));
            }
        }
    }
    assert_eq!(broken, Vec::<String>::new());
}

#[test]
fn every_documented_deletion_of_a_framework_is_in_the_foreground() {
    let deletes = |line: &&str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_named = ["fw", "framework", "frameworks"].iter().any(|name| words.contains(name));
        words.first() == Some(&"kubectl") && words.contains(&"delete") && is_named
    };
    let mut found = 0;
    for file in files(".md") {
        let text = read(&file);
        for line in text.lines().filter(deletes) {
            let is_exact = line.contains("--cascade=foreground");
            assert!(is_exact, "{}: {line}: Pods may outlive the Framework", file.display());
            found += 1;
        }
    }
    assert!(found >= 5, "{found} lines");
}
