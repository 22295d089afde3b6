//! A run of test programs, of a size that its environment gives them.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use framework_programs::workspace::{build_optimised, cargo};

/// A run of test programs.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Run {
    /// The programs, and the names of tests of which one must be part of a test's name; none means all.
    pub(super) programs: &'static [&'static str],
    pub(super) tests: &'static [&'static str],
    /// The size of the test, as the test reads it.
    pub(super) environment: Vec<(&'static str, String)>,
    /// Whether it runs an optimised controller.
    pub(super) optimised: bool,
}

impl Run {
    fn command(&self) -> Command {
        let mut cargo = cargo(&["test"]);
        cargo.args(self.programs.iter().map(|program| format!("--test={program}")));
        cargo.arg("--").args(self.tests).arg("--nocapture").envs(self.environment.iter().cloned());
        cargo
    }
}

/// Carries it out; fails if a test of it failed, or if none ran.
pub(super) fn soak(run: &Run) -> Result<()> {
    let mut command = run.command();
    if run.optimised {
        let built: PathBuf = build_optimised(&["frameworkcontroller"]).context("building the controller")?;
        command.env("FRAMEWORK_CONTROLLER", built.join("frameworkcontroller"));
    }
    ensure!(command.status().context("starting cargo")?.success(), "the soak test failed, or none ran");
    Ok(())
}
