//! What cargo tells the program that it runs, and what a cargo started from there should not hear.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::cluster::root;

/// Variables by which `cargo run` and `cargo test` describe this package.
///
/// Build scripts that ask for them would run once more under another cargo, and all that depends on them
/// would be compiled anew: minutes for nothing.
pub(crate) fn told_by_cargo() -> impl Iterator<Item = OsString> {
    let told = |name: &OsString| {
        ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|prefix| {
            let name = name.as_encoded_bytes();
            name.starts_with(prefix.as_bytes())
        })
    };
    std::env::vars_os().map(|(name, _)| name).filter(told)
}

/// The cargo that runs this program, in the project and without what it told.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for name in told_by_cargo() {
        cargo.env_remove(name);
    }
    cargo.args(arguments).current_dir(root());
    cargo
}

/// Builds programs of the workspace as they ship, and says in which directory they are.
pub(crate) fn optimised(programs: &[&str]) -> Result<PathBuf> {
    // All of the workspace, so that whoever asks for other programs compiles the libraries only once.
    let mut command = cargo(&["build", "--release", "--workspace"]);
    command.args(programs.iter().map(|program| format!("--bin={program}")));
    ensure!(command.status().context("starting cargo")?.success(), "building failed");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    Ok(target.join("release"))
}
