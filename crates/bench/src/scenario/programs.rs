//! The programs of a run: our controller and the load test.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use framework_programs::workspace::build_optimised;

use super::controllers::CONTROLLER;

/// The programs that a scenario needs.
pub(super) struct Programs {
    pub(super) controller: PathBuf,
    pub(super) loadtest: PathBuf,
}

impl Programs {
    /// Those of the directory that `--programs` names, or newly built ones.
    pub(super) fn find(directory: Option<&Path>) -> Result<Programs> {
        let built = match directory {
            Some(built) => built.canonicalize().with_context(|| format!("finding {}", built.display()))?,
            None => build_optimised(&[CONTROLLER, "loadtest"]).context("building the programs")?,
        };
        let programs = Programs { controller: built.join(CONTROLLER), loadtest: built.join("loadtest") };
        for program in [&programs.controller, &programs.loadtest] {
            ensure!(program.is_file(), "{} is not there", program.display());
        }
        Ok(programs)
    }
}
