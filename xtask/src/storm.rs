//! `cargo xtask storm`: a larger storm of rescales on a real control plane than the gate's.

use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::cluster::root;
use crate::environment::told_by_cargo;

/// Which storm.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// How many Frameworks there are.
    #[arg(long, default_value_t = 100)]
    frameworks: u64,
    /// How many rescales there are, over all Frameworks.
    #[arg(long, default_value_t = 1_000)]
    rescales: u64,
    /// What users do follows from it.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

impl Arguments {
    /// The storm as the test reads it.
    fn environment(&self) -> [(&'static str, String); 3] {
        [
            ("FRAMEWORK_STORM_FRAMEWORKS", self.frameworks.to_string()),
            ("FRAMEWORK_STORM_RESCALES", self.rescales.to_string()),
            ("FRAMEWORK_STORM_SEED", self.seed.to_string()),
        ]
    }
}

/// Lets it blow; an error says that a promise was broken, and the test has told which.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for name in told_by_cargo() {
        cargo.env_remove(name);
    }
    let status = cargo
        .args(["test", "--test=e2e_rescale_storm", "--", "--nocapture"])
        .envs(arguments.environment())
        .current_dir(root())
        .status()
        .context("starting cargo")?;
    ensure!(status.success(), "the storm broke a promise, or never blew");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_test_reads_what_is_told() {
        let test = std::fs::read_to_string(root().join("tests/e2e_rescale_storm.rs")).unwrap();
        for (name, _) in (Arguments { frameworks: 1, rescales: 2, seed: 3 }).environment() {
            assert!(test.contains(name), "{name}");
        }
    }
}
