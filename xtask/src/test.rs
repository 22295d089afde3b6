//! `cargo xtask test`: the gate, everything that a change has to pass in one command.
//!
//! All steps run in order, also after a failure, so that one run shows every failure. At the end the gate
//! lists each step with its result and time, the tests that failed, and the commands that repeat them. Only
//! the programs of the test cluster are built beside the other steps: their first build takes minutes, and
//! tests that waited for it would run out of time. The test programs are compiled first, and then run in
//! [`lanes`] side by side. All that the gate starts ends with it, however it ends.

use std::fmt;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::ValueEnum;
use framework_programs::{Binaries, Program};

use crate::leash::Leashed;
use crate::took::Took;

mod lanes;
mod shell;
mod tally;

use shell::{say, shell};
pub(crate) use tally::Tally;

/// The part of the gate to run.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Run this step alone.
    #[arg(long, value_enum)]
    only: Option<Step>,
    /// Build the programs and say nothing more: how the gate builds them beside its other steps.
    #[arg(long, hide = true, requires = "only")]
    beside: bool,
}

/// A step of the gate, in the order in which they run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Step {
    /// The formatting is rustfmt's.
    Fmt,
    /// No lint fires, with tests and the features that only tests switch on, and without.
    Clippy,
    /// The documentation builds, and its links are valid.
    Docs,
    /// The programs of the test cluster are built.
    Programs,
    /// All tests pass: unit, property, simulation and real API server.
    Tests,
}

impl Step {
    /// Its commands, as one would type them.
    fn commands(self) -> &'static [&'static str] {
        match self {
            Step::Fmt => &["cargo fmt --all --check"],
            Step::Clippy => &[
                "cargo clippy --workspace --all-targets -- -D warnings",
                // Without the features and the dependencies that only tests switch on.
                "cargo clippy --workspace -- -D warnings",
            ],
            Step::Docs => &["RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps"],
            Step::Programs => &["cargo xtask test --only programs"],
            // The programs are compiled; `lanes` runs them.
            Step::Tests => &["cargo test --workspace --no-run"],
        }
    }

    /// Runs all its commands, also after one has failed.
    fn run(self) -> Result<Outcome> {
        let began = Instant::now();
        let mut tally = Tally::default();
        let mut failed = Vec::new();
        if self == Step::Programs {
            say("programs: looking for the programs of the test cluster");
            if let Err(error) = build_programs() {
                say(&error.to_string());
                failed.push(self.commands()[0].to_owned());
            }
        } else {
            for command in self.commands() {
                say(&format!("{self}: {command}"));
                if !shell(command, &mut tally, "")?.success() {
                    failed.push((*command).to_owned());
                }
            }
        }
        if self == Step::Tests && failed.is_empty() {
            failed = lanes::run(&mut tally)?;
        }
        Ok(Outcome { step: self, took: began.elapsed(), failed, tally, note: "" })
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value().expect("every step can be asked for");
        f.pad(value.get_name())
    }
}

/// The result of a step.
struct Outcome {
    step: Step,
    took: Duration,
    /// The commands that failed.
    failed: Vec<String>,
    tally: Tally,
    note: &'static str,
}

impl Outcome {
    fn word(&self) -> &'static str {
        if self.failed.is_empty() { "passed" } else { "failed" }
    }
}

/// Runs the gate or a step of it; an error names the commands that repeat the failed steps.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    if arguments.beside {
        return Ok(build_programs()?);
    }
    let began = Instant::now();
    let outcomes = match arguments.only {
        Some(step) => vec![step.run()?],
        None => gate()?,
    };
    conclude(&outcomes, began.elapsed())
}

/// Builds the programs that tests start and the cache lacks.
fn build_programs() -> Result<(), framework_programs::Error> {
    Binaries::locate()?;
    Binaries::tool(Program::Promtool, &framework_programs::say).map(drop)
}

fn gate() -> Result<Vec<Outcome>> {
    let mut outcomes = Vec::new();
    let mut build = Build::start()?;
    for step in Step::value_variants() {
        let outcome = if *step == Step::Programs { build.finish()? } else { step.run()? };
        say(&format!("{step} {} after {}", outcome.word(), Took(outcome.took)));
        outcomes.push(outcome);
    }
    Ok(outcomes)
}

/// The summary: a line for each step, the failed tests, and the commands that repeat failed steps.
fn conclude(outcomes: &[Outcome], took: Duration) -> Result<()> {
    eprintln!();
    for outcome in outcomes {
        let Outcome { step, took, tally, note, .. } = outcome;
        eprintln!("{step:10}{:8}{:>12}   {tally}{note}", outcome.word(), Took(*took).to_string());
        tally.names.iter().for_each(|name| eprintln!("{:12}failed: {name}", ""));
        tally.panics.iter().for_each(|panic| eprintln!("{:12}{panic}", ""));
    }
    let failed: Vec<&Outcome> = outcomes.iter().filter(|outcome| !outcome.failed.is_empty()).collect();
    if failed.is_empty() {
        eprintln!("all passed in {}", Took(took));
        return Ok(());
    }
    let repeat = failed.iter().map(|outcome| {
        let step = outcome.step;
        let commands = outcome.failed.join("\n    ");
        format!("\n  {step}: `cargo xtask test --only {step}`, or its failed commands alone:\n    {commands}")
    });
    let (count, all) = (failed.len(), outcomes.len());
    bail!(
        "{count} of {all} steps failed after {}; to repeat them:{}",
        Took(took),
        repeat.collect::<String>()
    );
}

/// The build of the programs beside the other steps. It ends with this value or this process.
struct Build {
    child: Leashed,
    began: Instant,
}

impl Build {
    fn start() -> Result<Build> {
        let child = Leashed::start(["test", "--only=programs", "--beside"], Stdio::inherit())?;
        Ok(Build { child, began: Instant::now() })
    }

    /// Waits for its end. Its time is counted from its start.
    fn finish(&mut self) -> Result<Outcome> {
        let step = Step::Programs;
        say("programs: waiting for those that are still being built");
        let failed =
            if self.child.wait()?.success() { Vec::new() } else { vec![step.commands()[0].to_owned()] };
        let (took, tally) = (self.began.elapsed(), Tally::default());
        Ok(Outcome { step, took, failed, tally, note: "beside the steps before" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failed_step_is_named_with_the_commands_that_repeat_it() {
        let outcome = |step: Step, failed| {
            let (took, tally, note) = Default::default();
            Outcome { step, took, failed, tally, note }
        };
        let [all, shipped] = Step::Clippy.commands() else { panic!("two passes of clippy") };
        assert!(all.contains("--all-targets") && !shipped.contains("--all-targets"));
        let tests = Step::Tests.commands();
        let outcomes = [
            outcome(Step::Fmt, Vec::new()),
            outcome(Step::Clippy, vec![(*shipped).to_owned()]),
            outcome(Step::Tests, vec![tests[0].to_owned()]),
        ];
        let error = conclude(&outcomes, Duration::ZERO).unwrap_err().to_string();
        assert!(error.starts_with("2 of 3 steps failed"), "{error}");
        assert!(!error.contains("--only fmt") && error.contains("cargo xtask test --only clippy"), "{error}");
        assert!(error.contains(shipped) && !error.contains(all) && error.ends_with(tests[0]), "{error}");
        assert!(conclude(&outcomes[..1], Duration::ZERO).is_ok());
    }
}
