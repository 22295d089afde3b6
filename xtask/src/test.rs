//! `cargo xtask test`: the gate, everything that a change has to pass in one command.
//!
//! All steps run in order, also after a failure, so that one run shows every failure. At the end the gate
//! lists each step with its result and time, the tests that failed, and the commands that repeat them. Only
//! the programs of the test cluster are built beside the other steps: their first build takes minutes, and
//! tests that waited for it would run out of time. That build ends with this process, however this process
//! ends. The test programs are compiled first, and then run in [`lanes`] side by side.

use std::fmt;
use std::io::{BufRead, BufReader, Write};
use std::ops::AddAssign;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use framework_programs::workspace::{root, set_by_cargo};
use framework_programs::{Binaries, Program};

use crate::leash::{Leashed, end_with_input};
use crate::took::Took;

mod lanes;

/// The part of the gate to run.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Run this step alone.
    #[arg(long, value_enum)]
    only: Option<Step>,
    /// End with the standard input: how the gate starts the build beside it.
    #[arg(long, hide = true, requires = "only")]
    leashed: bool,
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
    if arguments.leashed {
        end_with_input();
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

/// Runs a command in the root of the tree, and counts the tests of its output. It prints the output with a
/// label before each line.
fn shell(command: &str, tally: &mut Tally, label: &str) -> Result<ExitStatus> {
    let mut shell = Command::new("sh");
    for name in set_by_cargo() {
        shell.env_remove(name);
    }
    let mut child = shell
        .args(["-c", command])
        .current_dir(root())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("starting `{command}`"))?;
    let mut output = BufReader::new(child.stdout.take().context("the output is piped")?);
    let mut line = Vec::new();
    while output.read_until(b'\n', &mut line).with_context(|| format!("reading from `{command}`"))? > 0 {
        // Line by line, so that the last line names the test before one that hangs.
        std::io::stdout().write_all(&[label.as_bytes(), &line].concat())?;
        tally.count(&String::from_utf8_lossy(&line));
        line.clear();
    }
    Ok(child.wait()?)
}

/// The build of the programs beside the other steps. It ends with this value or this process.
struct Build {
    child: Leashed,
    began: Instant,
}

impl Build {
    fn start() -> Result<Build> {
        let child = Leashed::start(&["test", "--only=programs", "--leashed"], Stdio::inherit())?;
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

/// A summary shows so many characters of a panic's message.
const MESSAGE: usize = 300;

/// The tests that ran, by the last line of each test program, and the names of those that failed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    programs: u64,
    passed: u64,
    failed: u64,
    pub(crate) names: Vec<String>,
    /// The panics of failed tests: the place, and the first line of the message.
    panics: Vec<String>,
    reading: Reading,
}

/// Where in the output of a test program the next line is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Reading {
    /// In the output of tests while they run. A panic there may be the one that a test waits for.
    #[default]
    Running,
    /// In the output of a failed test.
    Failed,
    /// At the message of a failed test's panic.
    Message,
}

impl Tally {
    /// Counts a line of the output of `cargo test`.
    pub(crate) fn count(&mut self, line: &str) {
        let failed = line.trim_end().strip_prefix("test ").and_then(|test| test.strip_suffix(" ... FAILED"));
        self.names.extend(failed.map(str::to_owned));
        self.read_panic(line.trim_end());
        let Some(result) = line.strip_prefix("test result: ") else { return };
        let number = |of: &str| -> u64 {
            let word = result.split(of).next().and_then(|before| before.split_whitespace().last());
            word.and_then(|word| word.parse().ok()).unwrap_or(0)
        };
        self.programs += 1;
        self.passed += number(" passed");
        self.failed += number(" failed");
    }

    fn read_panic(&mut self, line: &str) {
        let place = line.strip_prefix("thread '").and_then(|thread| thread.split_once(" panicked at "));
        self.reading = match (self.reading, place) {
            (Reading::Message, _) => {
                let message: String = line.chars().take(MESSAGE).collect();
                if let Some(panic) = self.panics.last_mut() {
                    *panic += &format!(" {message}");
                }
                Reading::Failed
            }
            (Reading::Failed, Some((_, place))) => {
                self.panics.push(place.to_owned());
                Reading::Message
            }
            _ if line.starts_with("---- ") && line.ends_with(" stdout ----") => Reading::Failed,
            _ if line.starts_with("test result: ") => Reading::Running,
            (before, _) => before,
        };
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Tally) {
        self.programs += other.programs;
        self.passed += other.passed;
        self.failed += other.failed;
        self.names.extend(other.names);
        self.panics.extend(other.panics);
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.programs {
            0 => Ok(()),
            n => write!(f, "{} passed, {} failed in {n} programs", self.passed, self.failed),
        }
    }
}

fn say(line: &str) {
    eprintln!("gate: {line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tests_of_every_program_are_counted() {
        let mut tally = Tally::default();
        for line in [
            "running 2 tests\n",
            "test a ... ok\n",
            "test result: ok. 12 passed; 0 failed; 3 ignored; 0 measured; finished in 0.53s\n",
            "thread 'c' (7) panicked at src/c.rs:1:1:\n",
            "test wave::b ... FAILED\n",
            "---- wave::b stdout ----\n",
            "three kills\n",
            "thread 'wave::b' (8) panicked at tests/wave.rs:7:5:\n",
            "[0.9]\n",
            "test result: FAILED. 7 passed; 1 failed; 0 ignored; 0 measured; finished in 1s\n",
        ] {
            tally.count(line);
        }
        let (names, panics) = (vec!["wave::b".into()], vec!["tests/wave.rs:7:5: [0.9]".into()]);
        let reading = Reading::Running;
        assert_eq!(tally, Tally { programs: 2, passed: 19, failed: 1, names, panics, reading });
        assert_eq!(tally.to_string(), "19 passed, 1 failed in 2 programs");
        assert_eq!(Tally::default().to_string(), "");
    }

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
