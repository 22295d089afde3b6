//! No circle of imports: the files of a crate are layers, and each uses only those below it.
//!
//! An import is a `use` of an item of the crate, or a path that begins with `crate`, `self` or `super`, or
//! with a module below this one. Declarations of modules are not imports, and tests may import any module.

use std::collections::{BTreeMap, BTreeSet};

use regex::Regex;

use crate::source::{self, File};

/// A crate, as [`crates`] names it, and how many of its files are in circles. The list stays empty.
const CIRCLES: [(&str, usize); 0] = [];

/// The code of a crate, module by module. The root has no name.
type Modules = BTreeMap<String, String>;

/// The modules that a module imports.
type Imports = BTreeMap<String, BTreeSet<String>>;

/// The directory of the package that a file belongs to, and the name of its module; none for tests.
fn module_of(path: &str) -> Option<(&str, String)> {
    let (directory, module) = match path.strip_prefix("src/") {
        Some(module) => ("", module),
        None => path.split_once("/src/")?,
    };
    let module = module.strip_suffix(".rs")?;
    let module = module.strip_suffix("/mod").unwrap_or(module);
    Some((directory, if module == "lib" { String::new() } else { module.replace('/', "::") }))
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

/// All paths of a code: those of its `use`s, and others of two parts or more.
fn paths(code: &str) -> Vec<String> {
    let uses = Regex::new(r"\buse\s+([^;]+);").expect("a regular expression");
    let others = Regex::new(r"\w+(?:::\w+)+").expect("a regular expression");
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
fn imports(files: &Modules) -> Imports {
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

/// Takes the program of a package out of its modules: `main.rs`, and the modules that it declares. A module
/// that the library declares, too, counts for the program only.
fn take_program(modules: &mut Modules) -> Option<Modules> {
    let main = modules.remove("main")?;
    let declaration = Regex::new(r"\bmod\s+(\w+)\s*;").expect("a regular expression");
    let declared: BTreeSet<String> =
        declaration.captures_iter(&main).map(|found| found[1].to_owned()).collect();
    let is_of_program = |module: &str| module.split("::").next().is_some_and(|top| declared.contains(top));
    let (mut program, library): (Modules, Modules) =
        std::mem::take(modules).into_iter().partition(|(module, _)| is_of_program(module));
    *modules = library;
    program.insert(String::new(), main);
    Some(program)
}

/// The code of every crate, by the directory of a library, or by the `main.rs` of a program. A program is a
/// crate of its own: it imports the library beside it by name, as a layer below.
pub fn crates(files: &[File]) -> BTreeMap<String, Modules> {
    let mut crates: BTreeMap<String, Modules> = BTreeMap::new();
    for file in files.iter().filter(|file| file.is_rust() && !file.is_test()) {
        if let Some((directory, module)) = module_of(&file.path) {
            crates.entry(directory.to_owned()).or_default().insert(module, file.product());
        }
    }
    let programs: Vec<(String, Modules)> = crates
        .iter_mut()
        .filter_map(|(directory, modules)| Some((format!("{directory}/src/main.rs"), take_program(modules)?)))
        .collect();
    crates.extend(programs);
    crates.retain(|_, modules| !modules.is_empty());
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
    let file =
        |(path, text): &(&str, &str)| File { path: format!("crates/x/src/{path}"), text: (*text).to_owned() };
    let crates = crates(&files.iter().map(file).collect::<Vec<_>>());
    crates.values().flat_map(|modules| circles(&imports(modules)).into_keys()).collect()
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
    let bare = [("a.rs", "mod b;\nfn f() { b::g() }"), ("a/b.rs", "use super::A;")];
    assert_eq!(found(&bare), ["a", "a::b"]);
    let library = [("lib.rs", "mod a;\nuse a::A;"), ("a.rs", "use crate::B;"), ("main.rs", "use x::B;")];
    assert_eq!(found(&library), ["", "a"]);
    let program = [("lib.rs", "mod a;"), ("main.rs", "mod b;\nuse b::B;"), ("b.rs", "use crate::C;")];
    assert_eq!(found(&program), ["", "b"]);
}

#[test]
fn layers_and_tests_are_no_circle() {
    let layers =
        [("lib.rs", "mod a;\npub use a::A;"), ("a.rs", "use std::b::C;\nmod b;\nuse b::B;"), ("a/b.rs", "")];
    assert_eq!(found(&layers), [""; 0]);
    let tests =
        [("a.rs", "use crate::b;\n// crate::a"), ("b.rs", "#[cfg(test)]\nmod tests {\n use crate::a;\n}")];
    assert_eq!(found(&tests), [""; 0]);
    let other = [("a.rs", "fn f() { std::b::g() }"), ("a/b.rs", "use super::A;")];
    assert_eq!(found(&other), [""; 0]);
    let program =
        [("lib.rs", "mod a;"), ("a.rs", "use crate::B;"), ("main.rs", "use x::a;\nfn f() { a::g() }")];
    assert_eq!(found(&program), [""; 0]);
}
