//! This work tree, and the programs of it that cargo builds.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The directory of the work tree.
pub fn root() -> &'static Path {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.ancestors().nth(2).expect("this package is two directories below the root of the workspace")
}

/// The directory for the state and the logs of clusters that commands start: `$FRAMEWORK_CLUSTER_HOME`, or
/// `.cluster` in the work tree.
pub fn cluster_home() -> PathBuf {
    std::env::var_os("FRAMEWORK_CLUSTER_HOME").map_or_else(|| root().join(".cluster"), PathBuf::from)
}

/// The variables by which `cargo run` and `cargo test` describe the running package.
///
/// A cargo that is started from here must not inherit them: build scripts that read them would run again, and
/// every crate above would be compiled again, which takes minutes.
pub fn set_by_cargo() -> impl Iterator<Item = OsString> {
    let by_cargo = |name: &OsString| {
        let name = name.as_encoded_bytes();
        ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|prefix| name.starts_with(prefix.as_bytes()))
    };
    std::env::vars_os().map(|(name, _)| name).filter(by_cargo)
}

/// The cargo that runs this program, in the work tree and without the variables that describe this package.
pub fn cargo(arguments: &[&str]) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for name in set_by_cargo() {
        cargo.env_remove(name);
    }
    cargo.args(arguments).current_dir(root());
    cargo
}

/// A [`cargo`] that leaves its output in [`target_dir`], also if its configuration names another directory.
pub fn cargo_into_target_dir(arguments: &[&str]) -> Command {
    let mut cargo = cargo(arguments);
    cargo.env("CARGO_TARGET_DIR", target_dir());
    cargo
}

/// Builds optimised programs of the workspace, and returns the directory that holds them.
pub fn build_optimised(programs: &[&str]) -> io::Result<PathBuf> {
    // The whole workspace, so that later builds of other programs reuse the compiled libraries.
    let mut command = cargo_into_target_dir(&["build", "--release", "--workspace"]);
    command.args(programs.iter().map(|program| format!("--bin={program}")));
    if !command.status()?.success() {
        return Err(io::Error::other("cargo build failed"));
    }
    Ok(target_dir().join("release"))
}

/// The directory of cargo's output. It is absolute, because programs are started in other directories.
pub fn target_dir() -> PathBuf {
    below_root(std::env::var_os("CARGO_TARGET_DIR"))
}

/// The named directory as cargo finds it from the root; by default `target`.
fn below_root(named: Option<OsString>) -> PathBuf {
    root().join(named.unwrap_or_else(|| "target".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_looked_for_where_cargo_leaves_them() {
        let cargo = cargo_into_target_dir(&["build"]);
        let named = cargo.get_envs().find(|(name, _)| *name == "CARGO_TARGET_DIR");
        assert_eq!(named.and_then(|(_, value)| value), Some(target_dir().as_os_str()));
        assert_eq!(below_root(Some("out".into())), root().join("out"));
        assert_eq!(below_root(Some("/out".into())), Path::new("/out"));
    }
}
