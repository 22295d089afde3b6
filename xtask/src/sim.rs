//! `cargo xtask sim`: more of the random walks that the gate does some thousands of.

use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::cluster::root;
use crate::environment::told_by_cargo;

/// Which walks to do.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// How many seeds to walk.
    #[arg(long, default_value_t = 20_000)]
    seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    from: u64,
}

impl Arguments {
    /// The seeds as the test reads them.
    fn range(&self) -> String {
        format!("{}..{}", self.from, self.from.saturating_add(self.seeds))
    }
}

/// Does the walks; an error says that one went wrong, and the test has told which.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for name in told_by_cargo() {
        cargo.env_remove(name);
    }
    let status = cargo
        .args(["test", "--test=sim_walk", "--test=sim_queue", "--", "--nocapture"])
        .env("FRAMEWORK_SIM_SEEDS", arguments.range())
        .current_dir(root())
        .status()
        .context("starting cargo")?;
    ensure!(status.success(), "a walk went wrong, or none was done");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seeds_are_those_from_the_first() {
        assert_eq!(Arguments { seeds: 10, from: 5 }.range(), "5..15");
        assert_eq!(Arguments { seeds: 10, from: u64::MAX }.range(), format!("{0}..{0}", u64::MAX));
    }
}
