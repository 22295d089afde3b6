//! `cargo xtask oldest`: what depends on the API server most, on the oldest Kubernetes that is supported.
//!
//! The gate has the newest only: the programs of another version take minutes to build.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use framework_testcluster::{Binaries, OLDEST_KUBERNETES_VERSION};

use crate::cluster::root;
use crate::environment::cargo;

/// Test programs that run, beside those whose names have one of [`ABOUT`].
const TESTS: [&str; 7] =
    ["api_crd", "api_deploy", "api_lifetime", "api_requests", "e2e_force_deletion", "e2e_smoke", "queue_api"];
/// What a test program is about whose name has this word.
const ABOUT: [&str; 3] = ["skew", "ttl", "deadline"];

/// Which tests.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Run this test program, any number of times, instead of those that are chosen otherwise.
    #[arg(long)]
    test: Vec<String>,
}

/// Builds the programs, if need be, and runs the tests with them.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let began = Instant::now();
    let programs = Binaries::oldest()?;
    eprintln!("Kubernetes {OLDEST_KUBERNETES_VERSION} is ready after {} s", began.elapsed().as_secs());
    let tests = if arguments.test.is_empty() { chosen()? } else { arguments.test.clone() };
    let mut cargo = cargo(&["test", "--workspace", "--no-fail-fast"]);
    for test in &tests {
        cargo.args(["--test", test]);
    }
    let status = cargo.env("KUBEBUILDER_ASSETS", programs.dir()).status().context("starting cargo")?;
    ensure!(status.success(), "tests failed on Kubernetes {OLDEST_KUBERNETES_VERSION}");
    eprintln!("{} test programs passed on Kubernetes {OLDEST_KUBERNETES_VERSION}", tests.len());
    Ok(())
}

/// The test programs of `tests/`, by name.
fn chosen() -> Result<Vec<String>> {
    let mut tests = Vec::new();
    for entry in std::fs::read_dir(root().join("tests")).context("listing the tests")? {
        let path = entry.context("listing the tests")?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let is_program = path.extension().is_some_and(|extension| extension == "rs");
        let asks_a_server = name.starts_with("api_") || name.starts_with("e2e_");
        let is_about_it = asks_a_server && ABOUT.iter().any(|word| name.contains(word));
        if is_program && (is_about_it || TESTS.contains(&&*name)) {
            tests.push(name);
        }
    }
    tests.sort();
    ensure!(tests.len() > TESTS.len(), "tests are missing among {tests:?}");
    Ok(tests)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_named_test_is_there_and_those_about_the_lifetime_too() {
        let chosen = chosen().unwrap();
        for test in TESTS.iter().chain(&["e2e_skew"]) {
            assert!(chosen.iter().any(|name| name == test), "{test} is not among {chosen:?}");
        }
    }
}
