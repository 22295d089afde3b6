//! What cargo tells the program that it runs, and what a cargo started from there should not hear.

use std::ffi::OsString;
use std::process::Command;

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
