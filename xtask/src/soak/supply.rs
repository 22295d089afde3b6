//! `cargo xtask soak supply`: cargo-deny checks the crates, and the two lists of crates that a release
//! carries agree: the one in the program, and the bill of materials beside it.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use framework_programs::workspace::{root, target_dir};
use serde_json::Value;

/// The tools, which cargo installs first, and their versions.
const TOOLS: [(&str, &str); 4] = [
    ("cargo-auditable", "0.7.7"),
    ("cargo-cyclonedx", "0.5.9"),
    ("cargo-deny", "0.20.2"),
    ("rust-audit-info", "0.5.4"),
];
const PROGRAM: &str = "frameworkcontroller";
const PLATFORM: &str = "x86_64-unknown-linux-gnu";

/// Names and versions of crates.
type Crates = BTreeSet<(String, String)>;

/// Installs the tools, and runs all checks.
pub(super) fn run() -> Result<()> {
    let tools = target_dir().join("tools");
    for (name, version) in TOOLS {
        let version = format!("--version={version}");
        let root = format!("--root={}", tools.display());
        cargo(&tools, &["install", "--locked", "--quiet", &root, &version, name])?;
    }
    // Advisories are in a git repository, which not every machine reaches.
    cargo(&tools, &["deny", "--locked", "check", "licenses", "bans", "sources"])?;
    cargo(&tools, &["auditable", "build", "--release", "--locked", "--bin", PROGRAM])?;
    let within = embedded(&tools, &target_dir().join("release").join(PROGRAM))?;
    let describe = ["--format=json", "--describe=binaries", "--target", PLATFORM];
    cargo(&tools, &[&["cyclonedx"], &describe[..]].concat())?;
    let listed = bill(&root().join(format!("{PROGRAM}_bin.cdx.json")))?;
    let missing: Vec<_> = within.difference(&listed).collect();
    let (own, all) = (within.len(), listed.len());
    writeln!(io::stdout(), "{own} crates in the program, {all} in its bill of materials")?;
    ensure!(!within.is_empty(), "the program has no list of its crates");
    ensure!(missing.is_empty(), "the bill of materials lacks crates of the program: {missing:?}");
    Ok(())
}

/// Runs cargo, which finds the tools.
fn cargo(tools: &Path, arguments: &[&str]) -> Result<()> {
    let mut command = Command::new(env!("CARGO"));
    command.args(arguments).env("PATH", path(tools)?).env("CARGO_TARGET_DIR", target_dir());
    let status = command.current_dir(root()).status();
    let status = status.context("starting cargo")?;
    ensure!(status.success(), "cargo {} failed", arguments.join(" "));
    Ok(())
}

/// The search path with the tools.
fn path(tools: &Path) -> Result<std::ffi::OsString> {
    let others = std::env::var_os("PATH").unwrap_or_default();
    let all: Vec<PathBuf> = [tools.join("bin")].into_iter().chain(std::env::split_paths(&others)).collect();
    std::env::join_paths(all).context("the search path")
}

/// The crates that the program itself lists as linked into it.
fn embedded(tools: &Path, program: &Path) -> Result<Crates> {
    let output = Command::new(tools.join("bin/rust-audit-info")).arg(program).output();
    let output = output.context("starting rust-audit-info")?;
    ensure!(output.status.success(), "rust-audit-info: {}", String::from_utf8_lossy(&output.stderr));
    let list: Value = serde_json::from_slice(&output.stdout).context("reading its answer")?;
    let packages = list["packages"].as_array().into_iter().flatten();
    // A crate that only builds others is marked so.
    Ok(packages.filter(|package| package["kind"] != "build").filter_map(named).collect())
}

/// The crates of a bill of materials.
fn bill(file: &Path) -> Result<Crates> {
    let text = std::fs::read(file).with_context(|| format!("reading {}", file.display()))?;
    let bill: Value = serde_json::from_slice(&text).with_context(|| format!("reading {}", file.display()))?;
    ensure!(bill["bomFormat"] == "CycloneDX", "{} is no bill of materials", file.display());
    let parts = bill["components"].as_array().into_iter().flatten();
    // The program stands apart from its parts.
    Ok(parts.chain([&bill["metadata"]["component"]]).filter_map(named).collect())
}

fn named(package: &Value) -> Option<(String, String)> {
    Some((package["name"].as_str()?.to_owned(), package["version"].as_str()?.to_owned()))
}
