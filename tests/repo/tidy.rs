//! The form of the tree: rules that a reader would otherwise have to repeat in every review.
//!
//! A rule is a function from a file to its findings there, so that each is shown to fail on a bad sample.
//! [`EXCEPTIONS`] only shrinks: one that allows more than the findings fails like a finding.

use crate::source::{self, File, block_end, code, has_word, lines, without_literals};

/// A line, and its fault.
type Finding = (usize, &'static str);
type Rule = fn(&File) -> Vec<Finding>;

const RULES: [(&str, Rule); 16] = [
    ("file-length", file_length),
    ("hard-file-length", hard_file_length),
    ("line-length", line_length),
    ("file-name", file_name),
    ("module-doc", module_doc),
    ("ignored-test", ignored_test),
    ("test-name", claim),
    ("unfinished", unfinished),
    ("sleep", pause),
    ("select", select),
    ("unbounded", unbounded),
    ("core-panic", core_panic),
    ("one-title", one_title),
    ("lints", lints),
    ("versions", versions),
    ("machine-path", machine_path),
];

/// Rule, file, how many findings, and why they are right there.
const EXCEPTIONS: [(&str, &str, usize, &str); 2] = [
    ("machine-path", "crates/api/src/config.rs", 1, "a value that users write for the kubeconfig"),
    (
        "machine-path",
        "crates/api/src/config/every_key.yaml",
        1,
        "a value that users write for the kubeconfig",
    ),
];

/// Where names of tests are still too long. An area that has none any more fails as long as it stands here.
const LONG_NAMES: [&str; 0] = [];

#[test]
fn the_tree_is_tidy() {
    let files = source::files();
    assert!(files.iter().any(|file| file.path == "tests/repo/tidy.rs"), "the tree was not found");
    let mut wrong = Vec::new();
    for (name, rule) in RULES {
        for file in &files {
            let found = rule(file);
            let allowed = EXCEPTIONS.iter().find(|(rule, path, ..)| (*rule, *path) == (name, &file.path));
            if allowed.is_none_or(|(_, _, count, _)| found.len() > *count) {
                wrong.extend(
                    found.iter().map(|(line, what)| format!("{}:{line}: {what} [{name}]", file.path)),
                );
            }
        }
    }
    for (name, path, count, _) in EXCEPTIONS {
        let rule = RULES.iter().find(|(rule, _)| *rule == name).unwrap_or_else(|| panic!("no rule {name}")).1;
        let found = files.iter().find(|file| file.path == path).map_or(0, |file| rule(file).len());
        if found < count {
            wrong.push(format!("{path}: {found} findings of {name}, not {count}: shrink the exception"));
        }
    }
    assert!(wrong.is_empty(), "{} findings:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn every_exception_has_a_reason_and_none_passes_the_hard_limit() {
    for (rule, path, count, reason) in EXCEPTIONS {
        assert!(reason.split_whitespace().count() >= 3, "{path}: {reason:?} is no reason");
        assert!(count > 0 && rule != "hard-file-length", "{path}: {rule} has no exceptions");
    }
}

fn found(lines: Vec<usize>, what: &'static str) -> Vec<Finding> {
    lines.into_iter().map(|line| (line, what)).collect()
}

fn file_length(file: &File) -> Vec<Finding> {
    match file.is_rust().then(|| file.product_lines()) {
        Some(401..=600) => vec![(401, "more than 400 lines without tests: find the two nouns in it")],
        _ => Vec::new(),
    }
}

fn hard_file_length(file: &File) -> Vec<Finding> {
    let long = file.is_rust() && file.product_lines() > 600;
    if long { vec![(601, "more than 600 lines without tests")] } else { Vec::new() }
}

fn line_length(file: &File) -> Vec<Finding> {
    if !file.is_rust() {
        return Vec::new();
    }
    // The rows of a literal of many lines are as long as they must be.
    let text = without_literals(&file.text);
    found(lines(&text, |line| line.trim_end().chars().count() > 110), "longer than 110 characters")
}

fn file_name(file: &File) -> Vec<Finding> {
    let stem = file.path.strip_suffix(".rs").unwrap_or_default();
    let empty = |part: &str| {
        let name = part.strip_suffix('s').unwrap_or(part);
        ["util", "common", "helper", "manager", "service", "misc"].contains(&name)
    };
    if stem.split('/').any(empty) { vec![(1, "a name that says nothing: which noun is it?")] } else { vec![] }
}

fn module_doc(file: &File) -> Vec<Finding> {
    let bare = file.is_rust() && !file.text.starts_with("//!");
    if bare { vec![(1, "does not open with `//!`: what is it, what does it guarantee?")] } else { vec![] }
}

fn ignored_test(file: &File) -> Vec<Finding> {
    if !file.is_rust() {
        return Vec::new();
    }
    found(lines(&code(&file.text), |line| line.contains("#[ignore")), "a test that does not run")
}

fn claim(file: &File) -> Vec<Finding> {
    if !file.is_rust() {
        return Vec::new();
    }
    let empty = |line: &str| ["fn test_", "fn should_"].iter().any(|start| line.contains(start));
    found(lines(&code(&file.text), empty), "a test is named by what it claims")
}

fn name_length(file: &File) -> Vec<Finding> {
    const LONGEST: usize = 70;
    if !file.is_rust() {
        return Vec::new();
    }
    let text = code(&file.text);
    let long = source::named_tests(&text).into_iter().filter(|(_, name)| name.len() > LONGEST);
    found(long.map(|(line, _)| line).collect(), "a test's name is longer than 70 characters")
}

#[test]
fn names_of_tests_end_at_70_characters_but_in_the_listed_areas() {
    let (mut wrong, mut areas) = (Vec::new(), LONG_NAMES.to_vec());
    for file in source::files() {
        let found = name_length(&file);
        if let Some(area) = LONG_NAMES.iter().find(|area| file.path.starts_with(**area)) {
            areas.retain(|left| found.is_empty() || left != area);
        } else {
            wrong.extend(found.iter().map(|(line, what)| format!("{}:{line}: {what}", file.path)));
        }
    }
    assert_eq!(wrong, [""; 0]);
    assert!(areas.is_empty(), "no name is too long any more, so take them off the list: {areas:?}");
}

fn unfinished(file: &File) -> Vec<Finding> {
    const MARKS: [&str; 2] = [concat!("FIX", "ME"), concat!("XX", "X")];
    let marked = |line: &str| {
        MARKS.iter().any(|mark| has_word(line, mark) && !line.contains(&format!("{mark}{}", &mark[..1])))
    };
    if file.path.ends_with(".lock") || file.path.ends_with("go.sum") {
        return Vec::new();
    }
    let mut all = lines(&file.text, marked);
    if file.is_rust() {
        all.extend(lines(&code(&file.text), |line| {
            has_word(line, "todo!(") || has_word(line, "unimplemented!(")
        }));
    }
    found(all, "unfinished: do it, or say in the prose what is not done")
}

/// A test may pause between two looks at a condition, never instead of looking.
fn pause(file: &File) -> Vec<Finding> {
    /// How far above the pause the poll's deadline stands.
    const NEAR: usize = 12;
    if !file.is_rust() || !file.path.split('/').any(|part| part == "tests") {
        return Vec::new();
    }
    let code = code(&file.text);
    let all: Vec<&str> = code.lines().collect();
    let polls =
        |number: &usize| all[number.saturating_sub(NEAR)..*number].iter().any(|l| l.contains("deadline"));
    let sleeps = lines(&code, |line| has_word(line, "sleep("));
    found(
        sleeps.into_iter().filter(|number| !polls(number)).collect(),
        "a sleep that is no poll's pause: wait for a condition until a `deadline`",
    )
}

fn select(file: &File) -> Vec<Finding> {
    if !file.is_rust() {
        return Vec::new();
    }
    let code = code(&file.text);
    let unordered = code.match_indices("select! {").filter(|(at, opening)| {
        let body = &code[at + opening.len()..block_end(&code, at + opening.len() - 1)];
        !body.trim_start().starts_with("biased;")
    });
    let numbers = unordered.map(|(at, _)| code[..at].lines().count().max(1)).collect();
    found(numbers, "a select without `biased;` takes its branches in random order")
}

fn unbounded(file: &File) -> Vec<Finding> {
    let ships = ["src/", "crates/"].iter().any(|room| file.path.starts_with(room));
    let fake = ["crates/sim/", "crates/testcluster/"].iter().any(|room| file.path.starts_with(room));
    if !file.is_rust() || !ships || fake {
        return Vec::new();
    }
    let product = file.product();
    let unbounded = |line: &str| ["unbounded_channel", "unbounded("].iter().any(|word| has_word(line, word));
    found(lines(&product, unbounded), "a queue has a stated bound")
}

fn core_panic(file: &File) -> Vec<Finding> {
    if !file.is_rust() || !file.path.starts_with("crates/core/") {
        return Vec::new();
    }
    const PANICS: [&str; 4] = [".unwrap()", ".expect(", "panic!(", "unreachable!("];
    found(
        lines(&file.product(), |line| PANICS.iter().any(|panic| line.contains(panic))),
        "the core never panics: odd input becomes a message",
    )
}

fn one_title(file: &File) -> Vec<Finding> {
    if !file.path.ends_with(".md") {
        return Vec::new();
    }
    let mut fenced = false;
    let mut titles = lines(&file.text, |line| {
        fenced ^= line.trim_start().starts_with("```");
        !fenced && line.starts_with("# ")
    });
    match titles.len() {
        0 => vec![(1, "a document has a title")],
        _ => found(titles.split_off(1), "a document has one title"),
    }
}

fn lints(file: &File) -> Vec<Finding> {
    let own = file.path.ends_with("Cargo.toml");
    let inherits = file.text.contains("[lints]\nworkspace = true\n");
    if own && !inherits { vec![(1, "says no `[lints] workspace = true`")] } else { vec![] }
}

fn versions(file: &File) -> Vec<Finding> {
    if !file.path.ends_with("Cargo.toml") {
        return Vec::new();
    }
    let mut table = "";
    let numbers = lines(&file.text, |line| {
        if line.starts_with('[') {
            table = line.trim();
            // A table for one dependency would hide its version from this rule.
            return table.contains("dependencies.");
        }
        let dependency = table.ends_with("dependencies]") && table != "[workspace.dependencies]";
        let names = line.starts_with(|first: char| first.is_ascii_alphanumeric());
        dependency && names && !line.contains("workspace = true")
    });
    found(numbers, "versions stand in [workspace.dependencies] of the root: `name.workspace = true`")
}

fn machine_path(file: &File) -> Vec<Finding> {
    const HOMES: [&str; 3] = [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/Us", "ers/")];
    if file.path.ends_with(".lock") {
        return Vec::new();
    }
    let named = |line: &str| {
        let relative = |letter: char| letter.is_alphanumeric() || "._-}/*".contains(letter);
        HOMES.iter().any(|home| line.match_indices(home).any(|(at, _)| !line[..at].ends_with(relative)))
    };
    found(lines(&file.text, named), "a path of one machine")
}

/// No line.
const NONE: [usize; 0] = [];

/// The lines that a rule finds in a file of that path and text.
fn hits(rule: Rule, path: &str, text: &str) -> Vec<usize> {
    let file = File { path: path.into(), text: text.into() };
    rule(&file).into_iter().map(|(line, _)| line).collect()
}

#[test]
fn a_file_ends_at_400_lines_and_tests_do_not_count() {
    let (short, long) = ("let x = 1;\n".repeat(400), "let x = 1;\n".repeat(401));
    let tests = "#[cfg(test)]\nmod tests {\n    fn f() {}\n}\n";
    assert_eq!(hits(file_length, "src/a.rs", &format!("{short}{tests}")), NONE);
    assert_eq!(hits(file_length, "src/a.rs", &long), [401]);
    assert_eq!(hits(file_length, "tests/a.rs", &long), NONE);
    assert_eq!(hits(hard_file_length, "src/a.rs", &long), NONE);
    assert_eq!(hits(hard_file_length, "src/a.rs", &"let x = 1;\n".repeat(601)), [601]);
}

#[test]
fn a_line_ends_at_110_characters_but_in_a_literal_of_many_lines() {
    let (full, long) = ("ä".repeat(107), "ä".repeat(108));
    assert_eq!(hits(line_length, "src/a.rs", &format!("// {full}\n// {long}\n")), [2]);
    assert_eq!(
        hits(line_length, "src/a.rs", &format!("let s = \"\n{long}{long}\n\";\nf(\"{long}\");\n")),
        [4]
    );
}

#[test]
fn names_that_say_nothing_are_refused() {
    for path in ["src/utils.rs", "tests/common/mod.rs", "crates/api/src/helper.rs", "src/a/manager.rs"] {
        assert_eq!(hits(file_name, path, ""), [1], "{path}");
    }
    for path in ["src/lease.rs", "deploy/base/service.yaml", "src/service_account.rs"] {
        assert_eq!(hits(file_name, path, ""), NONE, "{path}");
    }
}

#[test]
fn a_file_says_first_what_it_is() {
    assert_eq!(hits(module_doc, "src/a.rs", "use std::fmt;\n"), [1]);
    assert_eq!(hits(module_doc, "src/a.rs", "//! A.\n"), NONE);
}

#[test]
fn a_test_runs_and_is_named_by_its_claim() {
    let sample = "#[test]\n#[ignore = \"slow\"]\nfn test_a() {}\nfn should_b() {}\n// #[ignore] in prose\n";
    assert_eq!(hits(ignored_test, "src/a.rs", sample), [2]);
    assert_eq!(hits(claim, "src/a.rs", sample), [3, 4]);
    assert_eq!(hits(claim, "src/a.rs", "fn testimony() {}\nfn a_latest_test_wins() {}\n"), NONE);
}

#[test]
fn the_name_of_a_test_ends_at_70_characters() {
    let named = |length: usize| format!("#[test]\n#[should_panic]\nfn {}() {{}}\n", "a".repeat(length));
    assert_eq!(hits(name_length, "tests/a.rs", &named(70)), NONE);
    assert_eq!(hits(name_length, "src/a.rs", &named(71)), [3]);
    let long = named(71).replace("#[test]", "#[tokio::test(start_paused = true)]").replace("fn", "async fn");
    assert_eq!(hits(name_length, "src/a.rs", &long), [3]);
    assert_eq!(hits(name_length, "src/a.rs", &long.replace("tokio::test", "allow")), NONE);
}

#[test]
fn unfinished_work_is_named_in_the_prose_or_done() {
    let marks = [concat!("// FIX", "ME: slow\n"), concat!("// XX", "X\n")];
    assert_eq!(hits(unfinished, "docs/a.md", &marks.concat()), [1, 2]);
    assert_eq!(hits(unfinished, "src/a.rs", "fn f() {\n    todo!()\n}\n// a todo!() in prose\n"), [2]);
    assert_eq!(hits(unfinished, "src/a.rs", "unimplemented!(\"later\")\n"), [1]);
    assert_eq!(hits(unfinished, ".ci/run", &format!("mktemp -d a.{}\n", "X".repeat(6))), NONE);
}

#[test]
fn a_sleep_in_a_test_is_the_pause_of_a_poll() {
    let poll = "let deadline = now() + LIMIT;\nwhile now() < deadline {\n    sleep(PAUSE);\n}\n";
    assert_eq!(hits(pause, "tests/a.rs", poll), NONE);
    assert_eq!(hits(pause, "tests/a.rs", "start();\nthread::sleep(A_WHILE);\ncheck();\n"), [2]);
    assert_eq!(hits(pause, "crates/a/tests/b.rs", "sleep(A_WHILE).await;\n"), [1]);
    assert_eq!(hits(pause, "src/a.rs", "sleep(BACK_OFF).await;\n"), NONE);
}

#[test]
fn a_select_has_an_order() {
    assert_eq!(hits(select, "src/a.rs", "f();\ntokio::select! {\n    a = b => {}\n}\n"), [2]);
    assert_eq!(hits(select, "src/a.rs", "tokio::select! {\n    biased;\n    a = b => {}\n}\n"), NONE);
}

#[test]
fn a_channel_that_ships_has_a_bound() {
    assert_eq!(hits(unbounded, "crates/runtime/src/a.rs", "let c = mpsc::unbounded_channel();\n"), [1]);
    assert_eq!(hits(unbounded, "crates/sim/src/a.rs", "let c = mpsc::unbounded_channel();\n"), NONE);
    assert_eq!(hits(unbounded, "src/a.rs", "let c = mpsc::channel(64);\n"), NONE);
}

#[test]
fn the_core_does_not_panic_outside_its_tests() {
    let sample = "a.unwrap();\nb.expect(\"b\");\npanic!(\"c\");\nd.unwrap_or(1);\n// e.unwrap()\n";
    assert_eq!(hits(core_panic, "crates/core/src/a.rs", sample), [1, 2, 3]);
    assert_eq!(
        hits(core_panic, "crates/core/src/a.rs", &format!("#[cfg(test)]\nmod t {{\n{sample}}}\nf.unwrap();")),
        [9]
    );
    assert_eq!(hits(core_panic, "crates/core/tests/a.rs", sample), NONE);
    assert_eq!(hits(core_panic, "crates/sim/src/a.rs", sample), NONE);
}

#[test]
fn a_document_has_one_title() {
    assert_eq!(hits(one_title, "docs/a.md", "# A\n## B\n```sh\n# a comment\n```\n"), NONE);
    assert_eq!(hits(one_title, "docs/a.md", "# A\n\n# B\n"), [3]);
    assert_eq!(hits(one_title, "docs/a.md", "## A\n"), [1]);
}

#[test]
fn a_crate_inherits_lints_and_versions() {
    let good = "[lints]\nworkspace = true\n\n[dependencies]\na.workspace = true\nb = { workspace = true }\n";
    assert_eq!(hits(lints, "crates/a/Cargo.toml", good), NONE);
    assert_eq!(hits(versions, "crates/a/Cargo.toml", good), NONE);
    assert_eq!(hits(lints, "crates/a/Cargo.toml", "[package]\nname = \"a\"\n"), [1]);
    let bad =
        "[dev-dependencies]\na = \"1\"\n[target.x.dependencies]\nb = { version = \"1\" }\n[dependencies.c]\n";
    assert_eq!(hits(versions, "crates/a/Cargo.toml", bad), [2, 4, 5]);
    assert_eq!(hits(versions, "Cargo.toml", "[workspace.dependencies]\na = \"1\"\n"), NONE);
}

#[test]
fn a_path_of_one_machine_is_found() {
    let (home, work) = (concat!("/ro", "ot/.cache"), concat!("/wo", "rk/x"));
    assert_eq!(hits(machine_path, "docs/a.md", &format!("see `{home}`\nor {work}\n")), [1, 2]);
    assert_eq!(hits(machine_path, "docs/a.md", concat!("src/wo", "rk/x and https://a.b/ro", "ot/c\n")), NONE);
    assert_eq!(hits(machine_path, "Cargo.lock", home), NONE);
}

#[test]
fn code_is_distinguished_from_comments_and_literals() {
    let text = r##"let a = "//"; /* /* b */ c */ let d = 'd'; let e: &'e str = r#"f "g""#; // h's
let i = '\''; let j = "k\"l"; m"##;
    let blank = code(text);
    assert_eq!(blank.len(), text.len());
    let words: String =
        blank.split_whitespace().filter(|word| !word.contains('"')).collect::<Vec<_>>().join(" ");
    assert_eq!(words, "let a = let d = let e: &'e str = let i = let j = m");
}

/// The names in `[workspace.dependencies]` that no decision names, packages of our own aside.
fn undecided<'a>(manifest: &'a str, decisions: &str) -> Vec<&'a str> {
    let table = manifest.split("[workspace.dependencies]\n").nth(1).unwrap_or_default();
    let entries = table.lines().take_while(|line| !line.starts_with('['));
    let names = entries.filter_map(|line| Some(line.split_once(" = ")?.0));
    names.filter(|name| !name.starts_with("framework") && !decisions.contains(&format!("`{name}`"))).collect()
}

#[test]
fn every_library_has_a_line_in_the_decisions() {
    let manifest = include_str!("../../Cargo.toml");
    let decisions = include_str!("../../docs/decisions/0002-choose-libraries.md");
    assert_eq!(undecided(manifest, decisions), [""; 0]);
    let missing = undecided(
        "[workspace.dependencies]\na = \"1\"\nb-c = { version = \"1\" }\n\n[x]\nd = \"1\"\n",
        "`a`",
    );
    assert_eq!(missing, ["b-c"]);
    assert!(undecided(manifest, "").len() > 30, "the table was not found");
}
