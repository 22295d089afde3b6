//! `cargo xtask soak fuzz`: the fuzz targets of the decoders, with more inputs than in the gate.

use std::io::{self, BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use framework_programs::workspace::cargo;

/// The number of inputs and their seed.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Arguments {
    /// How many inputs each target gets.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    inputs: u64,
    /// The seed of the inputs.
    #[arg(long, default_value_t = 2)]
    seed: u64,
}

/// The module of the targets.
const TARGETS: &str = "wire::fuzz::";
/// The words that each target prints when it has played its inputs.
const PLAYED: &str = " inputs, ";

impl Arguments {
    fn command(&self) -> Command {
        let mut cargo = cargo(&["test", "--release", "-p", "framework-runtime", "--lib"]);
        cargo.args(["--", TARGETS, "--nocapture"]);
        cargo.env("FRAMEWORK_FUZZ_INPUTS", self.inputs.to_string());
        cargo.env("FRAMEWORK_FUZZ_SEED", self.seed.to_string());
        cargo
    }
}

/// Plays the inputs; fails if a decoder failed, or if no target ran.
pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let mut targets = arguments.command().stdout(Stdio::piped()).spawn().context("starting cargo")?;
    let mut played = 0;
    for line in BufReader::new(targets.stdout.take().context("its output is piped")?).lines() {
        let line = line.context("reading its output")?;
        played += usize::from(line.contains(PLAYED));
        writeln!(io::stdout(), "{line}")?;
    }
    ensure!(targets.wait().context("waiting for cargo")?.success(), "a decoder failed");
    ensure!(played > 0, "no target ran");
    eprintln!("{played} targets took {} inputs each", arguments.inputs);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use framework_programs::workspace::root;

    #[test]
    fn the_targets_are_there_and_read_the_variables() {
        let module =
            root().join("crates/runtime/src").join(TARGETS.trim_end_matches("::").replace("::", "/"));
        let source = std::fs::read_to_string(module.with_extension("rs")).unwrap();
        let command = Arguments { inputs: 1, seed: 1 }.command();
        let set = command.get_envs().filter(|(_, value)| value.is_some());
        let names: Vec<&str> = set.map(|(name, _)| name.to_str().unwrap()).collect();
        assert_eq!(names.len(), 2);
        assert!(names.iter().all(|name| source.contains(name)), "{names:?}");
        assert!(source.contains(PLAYED), "a target that has run says so");
    }
}
