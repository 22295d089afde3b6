//! No circle of imports: the files of a crate are layers, and each uses only those below it.
//!
//! An import is a `use` of an item of the crate, or a path that begins with `crate` or `super`. Declarations
//! of modules are not imports, and tests may import any module.

use std::collections::{BTreeMap, BTreeSet};

use regex::Regex;

use crate::source::{self, File};

/// A crate, and how many of its files are in circles. The list stays empty.
const CIRCLES: [(&str, usize); 0] = [];

/// The modules that a module imports.
type Imports = BTreeMap<String, BTreeSet<String>>;

/// The directory of the crate that a file belongs to, and the name of its module; none for tests.
fn module_of(path: &str) -> Option<(&str, String)> {
    let (directory, module) = match path.strip_prefix("src/") {
        Some(module) => ("", module),
        None => path.split_once("/src/")?,
    };
    let module = module.strip_suffix(".rs")?;
    let module = module.strip_suffix("/mod").unwrap_or(module);
    let is_root = ["lib", "main"].contains(&module);
    Some((directory, if is_root { String::new() } else { module.replace('/', "::") }))
}

/// The paths in the tree of a `use`: `a::{b, c::d}` has `a::b` and `a::c::d`.
fn expand(prefix: &str, tree: &str, paths: &mut Vec<String>) {
    let tree = tree.trim();
    let Some((before, inside)) = tree.strip_suffix('}').and_then(|tree| tree.split_once('{')) else {
        let path = tree.split(" as ").next().unwrap_or_default();
        paths.extend((!path.is_empty()).then(|| format!("{prefix}{path}")));
        return;
    };
    let prefix = format!("{prefix}{}", before.trim());
    let (mut depth, mut from) = (0, 0);
    for (at, letter) in inside.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                expand(&prefix, &inside[from..at], paths);
                from = at + 1;
            }
            _ => {}
        }
    }
    expand(&prefix, &inside[from..], paths);
}

/// All paths of a code that may lead to other files of its crate.
fn paths(code: &str) -> Vec<String> {
    let uses = Regex::new(r"\buse\s+([^;]+);").expect("a regular expression");
    let others = Regex::new(r"\b(?:crate|super)(?:::\w+)+").expect("a regular expression");
    let mut paths = Vec::new();
    for tree in uses.captures_iter(code) {
        expand("", &tree[1].split_whitespace().collect::<Vec<_>>().join(" "), &mut paths);
    }
    let rest = uses.replace_all(code, "");
    paths.extend(others.find_iter(&rest).map(|path| path.as_str().to_owned()));
    paths
}

/// The module that a path in `module` leads to: the longest part of it that is a file.
fn target(path: &str, module: &str, modules: &BTreeSet<String>) -> Option<String> {
    let mut base: Vec<&str> = module.split("::").filter(|part| !part.is_empty()).collect();
    let mut parts = path.split("::").map(str::trim).peekable();
    match *parts.peek()? {
        "crate" => {
            parts.next();
            base.clear();
        }
        "self" => _ = parts.next(),
        "super" => {
            while parts.next_if_eq(&"super").is_some() {
                base.pop();
            }
        }
        first => {
            // Another crate, or a module below this one.
            base.push(first);
            if !modules.contains(&base.join("::")) {
                return None;
            }
            parts.next();
        }
    }
    base.extend(parts);
    let lengths = (0..=base.len()).rev();
    let mut found = lengths.map(|length| base[..length].join("::")).filter(|name| modules.contains(name));
    found.next().filter(|name| name != module)
}

/// The imports of the modules of one crate from each other.
fn imports(files: &BTreeMap<String, String>) -> Imports {
    let modules: BTreeSet<String> = files.keys().cloned().collect();
    let of = |(module, code): (&String, &String)| {
        let targets = paths(code).into_iter().filter_map(|path| target(&path, module, &modules));
        (module.clone(), targets.collect())
    };
    files.iter().map(of).collect()
}

/// All modules that a module reaches by imports.
fn reached<'a>(imports: &'a Imports, from: &str) -> BTreeSet<&'a str> {
    let (mut reached, mut next) = (BTreeSet::new(), vec![from]);
    while let Some(module) = next.pop() {
        for target in imports.get(module).into_iter().flatten() {
            if reached.insert(target.as_str()) {
                next.push(target);
            }
        }
    }
    reached
}

/// The modules that reach themselves, each with those of them that it imports.
fn circles(imports: &Imports) -> Imports {
    let in_circle: BTreeSet<&str> = imports
        .keys()
        .map(String::as_str)
        .filter(|module| reached(imports, module).contains(module))
        .collect();
    let within = |module: &&str| {
        let targets = imports[*module].iter().filter(|target| reached(imports, target).contains(module));
        ((*module).to_owned(), targets.cloned().collect())
    };
    in_circle.iter().map(within).collect()
}

/// The code of every crate, module by module.
fn crates(files: &[File]) -> BTreeMap<String, BTreeMap<String, String>> {
    let mut crates: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    for file in files.iter().filter(|file| file.is_rust() && !file.is_test()) {
        if let Some((directory, module)) = module_of(&file.path) {
            crates.entry(directory.to_owned()).or_default().insert(module, file.product());
        }
    }
    crates
}

#[test]
fn no_import_circle_of_files_in_any_crate() {
    let mut wrong = Vec::new();
    let crates = crates(&source::files());
    assert!(crates.len() > 10, "{} crates were found", crates.len());
    for (directory, modules) in &crates {
        let circles = circles(&imports(modules));
        let allowed = CIRCLES.iter().find(|(of, _)| of == directory).map_or(0, |(_, count)| *count);
        if circles.len() < allowed {
            wrong.push(format!(
                "{directory}: {} files are in circles, not {allowed}: shrink it",
                circles.len()
            ));
        } else if circles.len() > allowed {
            wrong.push(format!("{directory:?}: {} files are in circles, not {allowed}", circles.len()));
            wrong.extend(circles.iter().map(|(from, to)| format!("  {from:?} -> {to:?}")));
        }
    }
    let gone = CIRCLES.iter().filter(|(of, _)| !crates.contains_key(*of));
    wrong.extend(gone.map(|(of, _)| format!("there is no crate {of}")));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn found(files: &[(&str, &str)]) -> Vec<String> {
    let code = |(path, text): &(&str, &str)| {
        let file = File { path: format!("crates/x/src/{path}"), text: (*text).to_owned() };
        (module_of(&file.path).expect("a module").1, file.product())
    };
    circles(&imports(&files.iter().map(code).collect())).into_keys().collect()
}

#[test]
fn a_circle_of_imports_is_found() {
    let two = [("lib.rs", "mod a; mod b;"), ("a.rs", "use crate::b::B;"), ("b.rs", "use crate::{a::A, c};")];
    assert_eq!(found(&two), ["a", "b"]);
    let child = [("a/mod.rs", "use b::B;"), ("a/b.rs", "use super::{C, D};"), ("c.rs", "use crate::a::b;")];
    assert_eq!(found(&child), ["a", "a::b"]);
    let path = [("a.rs", "fn f() { crate::b::g() }"), ("b.rs", "use std::fmt;\nfn g() { super::a::f() }")];
    assert_eq!(found(&path), ["a", "b"]);
    let long = [("a.rs", "use super::b;"), ("b.rs", "use super::c;"), ("c.rs", "use super::a::A as B;")];
    assert_eq!(found(&long), ["a", "b", "c"]);
}

#[test]
fn layers_and_tests_are_no_circle() {
    let layers =
        [("lib.rs", "mod a;\npub use a::A;"), ("a.rs", "use std::b::C;\nmod b;\nuse b::B;"), ("a/b.rs", "")];
    assert_eq!(found(&layers), [""; 0]);
    let tests =
        [("a.rs", "use crate::b;\n// crate::a"), ("b.rs", "#[cfg(test)]\nmod tests {\n use crate::a;\n}")];
    assert_eq!(found(&tests), [""; 0]);
}
