//! The arrows between the rooms, and the purity of those that decide.
//!
//! `docs/architecture.md` states the purpose of each room; the lists here are the rooms that it may know. A
//! new arrow is a decision: it is added here with the code that needs it, or the code belongs elsewhere.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;

use crate::source::{self, has_word, lines};
use crate::tables::table;

/// A room, the rooms that it uses, and those that only its tests use besides.
type Room = (&'static str, &'static [&'static str], &'static [&'static str]);

const ROOMS: [Room; 23] = [
    ("framework-access", &[], &[]),
    ("framework-api", &[], &[]),
    ("framework-audit", &[], &[]),
    ("framework-barrier", &["framework-access", "framework-api"], &["framework-testcluster"]),
    (
        "framework-bench",
        &[
            "framework-access",
            "framework-api",
            "framework-barrier",
            "framework-programs",
            "framework-testcluster",
        ],
        &[],
    ),
    ("framework-cli", &["framework-access", "framework-api", "framework-core", "framework-queue"], &[]),
    // Its tests are built with its own feature `defects`.
    ("framework-core", &["framework-api"], &["framework-core"]),
    ("framework-demo", &["framework-api", "framework-programs", "framework-testcluster"], &[]),
    ("framework-differential", &["framework-api", "framework-programs", "framework-testcluster"], &[]),
    ("framework-engine", &["framework-api", "framework-core", "framework-message"], &[]),
    ("framework-image", &[], &[]),
    ("framework-loadtest", &["framework-access", "framework-api", "framework-audit"], &[]),
    ("framework-membership", &["framework-message", "framework-shard"], &[]),
    ("framework-message", &["framework-api"], &[]),
    ("framework-programs", &[], &[]),
    ("framework-queue", &["framework-api"], &[]),
    ("framework-queueing", &["framework-api", "framework-core", "framework-message", "framework-queue"], &[]),
    (
        "framework-runtime",
        &[
            "framework-access",
            "framework-api",
            "framework-core",
            "framework-engine",
            "framework-membership",
            "framework-message",
            "framework-queue",
            "framework-queueing",
            "framework-shard",
        ],
        &[],
    ),
    // Its tests are built with its own feature `defects`.
    ("framework-shard", &["framework-message"], &["framework-shard"]),
    ("framework-sim", &["framework-api", "framework-audit"], &["framework-testcluster"]),
    ("framework-testcluster", &["framework-audit", "framework-programs"], &[]),
    (
        "frameworkcontroller",
        &[
            "framework-access",
            "framework-api",
            "framework-core",
            "framework-engine",
            "framework-membership",
            "framework-runtime",
            "framework-shard",
        ],
        &[
            "framework-barrier",
            "framework-image",
            "framework-loadtest",
            "framework-message",
            "framework-programs",
            "framework-queue",
            "framework-queueing",
            "framework-sim",
            "framework-testcluster",
        ],
    ),
    ("xtask", &["framework-image", "framework-programs"], &[]),
];

/// Rooms that play a cluster, for tests and commands.
const FAKES: [&str; 2] = ["framework-sim", "framework-testcluster"];

/// Rooms that decide and never act, by their directories in `crates/`: their packages are `framework-…`.
const PURE: [&str; 7] = ["api", "core", "engine", "message", "queue", "queueing", "shard"];
/// Of these, the rooms that only define the stored objects: no `clippy.toml` of theirs bans anything besides.
const TYPES: [&str; 1] = ["api"];

/// Packages that do I/O, or draw random numbers: out of reach for the pure rooms, however far down.
const IMPURE: [&str; 15] = [
    "axum",
    "fastrand",
    "getrandom",
    "hyper",
    "hyper-util",
    "kube-client",
    "kube-runtime",
    "mio",
    "rand",
    "rand_core",
    "reqwest",
    "rustix",
    "socket2",
    "tokio",
    "uuid",
];

/// Words that bring in the clock, chance, the environment, I/O, waiting or global state, or an order that
/// changes from run to run.
const IMPURE_WORDS: [&str; 31] = [
    "HashMap",
    "HashSet",
    "Instant::now",
    "SystemTime",
    "TcpListener",
    "TcpStream",
    "TimeZone::system",
    "Timestamp::now",
    "ToSocketAddrs",
    "UdpSocket",
    "Utc::now",
    "Uuid::new_v4",
    "Zoned::now",
    "async ",
    "dbg!",
    "eprint!",
    "eprintln!",
    "fastrand::",
    "print!",
    "println!",
    "rand::",
    "static mut ",
    "std::env",
    "std::fs",
    "std::process",
    "stderr",
    "stdin",
    "stdout",
    "thread::sleep",
    "thread::spawn",
    "thread_rng",
];

fn cargo(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO")).args(arguments).current_dir(source::root()).output().unwrap();
    assert!(output.status.success(), "cargo {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn metadata() -> Value {
    serde_json::from_str(&cargo(&["metadata", "--format-version=1", "--offline", "--no-deps"])).unwrap()
}

/// The packages that a package is compiled with, as `name version|features`. The features are those of a
/// build of that package alone.
fn compiled_with(package: &str) -> String {
    cargo(&["tree", "--offline", "--edges=normal", "--prefix=none", "--format={p}|{f}", "--package", package])
}

/// The names in the output of [`compiled_with`].
fn names(tree: &str) -> BTreeSet<&str> {
    tree.lines().filter_map(|line| line.split(' ').next()).collect()
}

/// Where the arrows of the metadata and of the list differ, and the members that the list does not know.
fn strangers(metadata: &Value, rooms: &[Room]) -> Vec<String> {
    let packages = metadata["packages"].as_array().unwrap();
    let mut wrong = Vec::new();
    for package in packages {
        let name = package["name"].as_str().unwrap();
        let Some((_, uses, tests)) = rooms.iter().find(|(room, ..)| *room == name) else {
            wrong.push(format!("{name} is no room"));
            continue;
        };
        let dependencies = package["dependencies"].as_array().unwrap();
        let used = |room: &str| dependencies.iter().any(|one| one["name"] == room && one["kind"].is_null());
        // A fake may leave the API alone; a room that ships uses all that is listed, or the list says too
        // much.
        let idle = uses.iter().filter(|room| !FAKES.contains(&name) && !used(room));
        wrong.extend(idle.map(|room| format!("{name} does not use {room}")));
        for dependency in dependencies {
            let to = dependency["name"].as_str().unwrap();
            let for_tests = dependency["kind"] == "dev";
            let known = uses.contains(&to) || (for_tests && tests.contains(&to));
            if dependency["path"].is_string() && !known {
                wrong.push(format!("{name} -> {to}{}", if for_tests { " (tests)" } else { "" }));
            }
        }
    }
    wrong
}

/// The lines of code, tests aside, that bring in a word that a pure room must not know.
fn impurities(file: &source::File) -> Vec<String> {
    let code = file.product();
    let mut wrong = Vec::new();
    for word in IMPURE_WORDS {
        wrong.extend(
            lines(&code, |line| has_word(line, word)).iter().map(|at| format!("{}:{at}: {word}", file.path)),
        );
    }
    // `use std::{env, fs};` has the same words apart.
    for (at, group) in code.match_indices("std::{") {
        let imported = &code[at..source::block_end(&code, at + group.len() - 1)];
        for name in ["env", "fs", "process"] {
            if imported.split(|letter: char| !letter.is_alphanumeric()).any(|word| word == name) {
                wrong.push(format!("{}:{}: std::{name}", file.path, code[..at].lines().count()));
            }
        }
    }
    wrong
}

#[test]
fn arrows_point_as_listed() {
    let wrong = strangers(&metadata(), &ROOMS);
    assert!(wrong.is_empty(), "arrows that are not listed: {wrong:#?}");
}

#[test]
fn every_listed_room_exists() {
    let metadata = metadata();
    let members: BTreeSet<_> = metadata["packages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|package| package["name"].as_str().unwrap())
        .collect();
    assert_eq!(members, ROOMS.iter().map(|(room, ..)| *room).collect());
}

#[test]
fn the_table_of_crates_has_a_row_for_each_room() {
    let metadata = metadata();
    let root = metadata["workspace_root"].as_str().unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let manifests = packages.iter().map(|package| package["manifest_path"].as_str().unwrap());
    let folders = manifests.map(|path| path[root.len()..].trim_end_matches("Cargo.toml").trim_matches('/'));
    // The program itself is in the root.
    let rooms: BTreeSet<&str> =
        folders.map(|folder| if folder.is_empty() { "src" } else { folder }).collect();
    let page = std::fs::read_to_string(source::root().join("docs/architecture.md")).unwrap();
    let rows = table(&page, "| crate | contents | never |");
    let documented: BTreeSet<&str> =
        rows.iter().flat_map(|row| row[0].split('`').skip(1).step_by(2)).collect();
    assert_eq!(rooms, documented);
    assert_eq!(rooms.len(), ROOMS.len());
}

#[test]
fn the_pure_crates_depend_on_nothing_that_acts() {
    for room in PURE.map(|room| format!("framework-{room}")) {
        let tree = compiled_with(&room);
        let names = names(&tree);
        assert!(names.contains("jiff"), "{room}: the tree was not read");
        let reached: Vec<_> = IMPURE.iter().filter(|name| names.contains(*name)).collect();
        assert!(reached.is_empty(), "{room} reaches {reached:?}: `cargo tree -p {room} -e normal -i <name>`");
    }
}

#[test]
fn the_program_ships_neither_a_test_cluster_nor_a_defect() {
    for program in ["frameworkcontroller", "framework-barrier"] {
        let tree = compiled_with(program);
        let shipped = names(&tree);
        for fake in FAKES {
            assert!(!shipped.contains(fake), "{program} ships {fake}");
        }
    }
    let tree = compiled_with("frameworkcontroller");
    let defective: Vec<_> =
        tree.lines().filter(|line| line.starts_with("framework") && has_defects(line)).collect();
    assert!(defective.is_empty(), "rules can be switched off in {defective:?}");
}

fn has_defects(line: &str) -> bool {
    let features = line.split_once('|').map_or("", |(_, features)| features);
    features.trim_end_matches(" (*)").split(',').any(|feature| feature == "defects")
}

/// The tests that need a feature: by their sources, or by `required-features` of the manifest.
fn hidden(files: &[source::File], metadata: &Value) -> BTreeSet<String> {
    let test =
        |file: &&source::File| file.path.contains("tests") && file.path != "tests/repo/architecture.rs";
    let conditional = files.iter().filter(test).filter(|file| file.text.contains("cfg(feature"));
    let targets = metadata["packages"].as_array().unwrap().iter().flat_map(|one| one["targets"].as_array());
    let required = targets.flatten().filter(|target| target["required-features"].is_array());
    let named = required.map(|target| target["name"].as_str().unwrap().to_owned());
    conditional.map(|file| file.path.clone()).chain(named).collect()
}

#[test]
fn no_feature_hides_a_test() {
    assert_eq!(hidden(&source::files(), &metadata()), BTreeSet::new(), "`cargo test --workspace` skips them");
    let file = |path: &str, text: &str| source::File { path: path.into(), text: text.into() };
    let files = [
        file("crates/core/tests/d/e.rs", "#[cfg(feature = \"defects\")]"),
        file("crates/core/src/tests.rs", "#[cfg(not(test))]"),
        file("crates/core/src/defect.rs", "cfg!(feature = \"defects\")"),
    ];
    let targets = serde_json::json!([{"name": "b", "required-features": ["x"]}, {"name": "c"}]);
    let metadata = serde_json::json!({"packages": [{"targets": targets}]});
    assert_eq!(hidden(&files, &metadata), ["b", "crates/core/tests/d/e.rs"].map(str::to_owned).into());
}

#[test]
fn the_pure_crates_read_no_clock_no_randomness_and_no_environment() {
    let all: Vec<_> = source::files().into_iter().filter(source::File::is_rust).collect();
    for sources in PURE.map(|room| format!("crates/{room}/src/")) {
        let files: Vec<_> = all.iter().filter(|file| file.path.starts_with(&sources)).collect();
        assert!(!files.is_empty(), "there is nothing in {sources}");
        let wrong: Vec<_> = files.into_iter().flat_map(impurities).collect();
        assert!(wrong.is_empty(), "{wrong:#?}");
    }
}

/// A `clippy.toml` of a crate replaces that of the root.
#[test]
fn the_pure_crates_keep_the_lint_thresholds_and_bans_of_the_root() {
    let rules = |path: &str| -> Vec<String> {
        let text = std::fs::read_to_string(source::root().join(path)).expect(path);
        text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
    };
    let core = rules("crates/core/clippy.toml");
    for rule in rules("clippy.toml") {
        assert!(core.contains(&rule), "crates/core/clippy.toml lacks {rule:?}");
    }
    for room in PURE.iter().filter(|room| !TYPES.contains(room)) {
        assert_eq!(rules(&format!("crates/{room}/clippy.toml")), core, "{room}");
    }
}

#[test]
fn a_new_arrow_is_noticed() {
    let dependency = |name: &str, kind: Value| serde_json::json!({"name": name, "kind": kind, "path": "/x"});
    let package = |name: &str, dependencies: Vec<Value>| {
        let outside = serde_json::json!({"name": "serde", "kind": null});
        let all = [dependencies, vec![outside]].concat();
        serde_json::json!({"name": name, "dependencies": all})
    };
    let rooms: [Room; 2] = [("a", &[], &["b"]), ("b", &["a", "d"], &[])];
    let metadata = serde_json::json!({"packages": [
        package("a", vec![dependency("b", "dev".into()), dependency("b", Value::Null)]),
        package("b", vec![dependency("a", Value::Null), dependency("c", "dev".into())]),
        package("c", vec![]),
    ]});
    assert_eq!(
        strangers(&metadata, &rooms),
        ["a -> b", "b does not use d", "b -> c (tests)", "c is no room"]
    );
}

#[test]
fn a_dependency_that_acts_is_noticed() {
    let tree = compiled_with("framework-runtime");
    for name in ["tokio", "hyper", "kube-client", "kube-runtime", "framework-core"] {
        assert!(names(&tree).contains(name), "{name}");
    }
    assert!(has_defects("framework-core v0.1.0 (/x)|a,defects (*)"));
    assert!(!has_defects("framework-core v0.1.0 (/x/defects)|"));
}

#[test]
fn an_impure_line_is_noticed() {
    let text = "use std::{\n    collections::BTreeMap,\n    fs,\n};\n\
        fn f() {\n    let now = jiff::Timestamp::now();\n    // std::env in prose\n}\n\
        const T: &str = include_str!(\"println!\");\n\
        #[cfg(test)]\nmod tests {\n    use std::env;\n}\nstatic mut N: u8 = 0;\n";
    let file = source::File { path: "crates/core/src/a.rs".into(), text: text.into() };
    let expected = ["6: Timestamp::now", "14: static mut ", "1: std::fs"]
        .map(|line| format!("crates/core/src/a.rs:{line}"));
    assert_eq!(impurities(&file), expected);
}
