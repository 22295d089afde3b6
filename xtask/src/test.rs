//! `cargo xtask test`: the gate, all that a change has to pass in one command.
//!
//! The steps run in order, and the first failure ends the gate with the command that repeats it. Only the
//! programs of the test cluster are built beside the other steps: their first build takes minutes, and tests
//! that waited for it would run out of time. That build ends with this process, however this process ends.

use std::fmt;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use framework_testcluster::Binaries;
use rustix::process::{Signal, getpid, kill_process_group};

use crate::cluster::root;
use crate::environment::told_by_cargo;

/// What of the gate is to run.
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
    /// No lint fires, neither in all that can be compiled nor in what ships.
    Clippy,
    /// The documentation builds, and its links lead somewhere.
    Docs,
    /// Rules can be switched off one by one, and the tests of each notice.
    Defects,
    /// The programs of the test cluster are built.
    Programs,
    /// All tests pass: unit, property, simulation and real API server.
    Tests,
}

impl Step {
    /// What it runs, as one would type it.
    fn commands(self) -> &'static [&'static str] {
        match self {
            Step::Fmt => &["cargo fmt --all --check"],
            Step::Clippy => &[
                "cargo clippy --workspace --all-targets --all-features -- -D warnings",
                // Without the features and the dependencies that only tests switch on.
                "cargo clippy --workspace -- -D warnings",
            ],
            Step::Docs => &["RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps"],
            // Only these tests: what runs on a real API server is to be the program as it ships. All of the
            // workspace, because the libraries are then compiled as for the last step, not once more.
            Step::Defects => &["cargo test --workspace --all-features --lib --test core --test sim_defects \
                 --test sim_queue_defects"],
            Step::Programs => &["cargo xtask test --only programs"],
            Step::Tests => &["cargo test --workspace"],
        }
    }

    /// Runs it until one of its commands fails.
    fn run(self) -> Result<Outcome> {
        let began = Instant::now();
        let mut tally = Tally::default();
        let mut failed = None;
        if self == Step::Programs {
            say("programs: looking for the programs of the test cluster");
            if let Err(error) = Binaries::locate() {
                say(&error.to_string());
                failed = Some(self.commands()[0]);
            }
        } else {
            for command in self.commands() {
                say(&format!("{self}: {command}"));
                if !shell(command, &mut tally)?.success() {
                    failed = Some(*command);
                    break;
                }
            }
        }
        Ok(Outcome { step: self, took: began.elapsed(), failed, note: tally.to_string() })
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value().expect("every step can be asked for");
        f.pad(value.get_name())
    }
}

/// What became of a step.
struct Outcome {
    step: Step,
    took: Duration,
    failed: Option<&'static str>,
    note: String,
}

impl Outcome {
    fn word(&self) -> &'static str {
        if self.failed.is_none() { "passed" } else { "failed" }
    }
}

/// Runs the gate or a part of it; an error names the command that repeats what failed.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    if arguments.leashed {
        end_with_input();
        Binaries::locate()?;
        return Ok(());
    }
    let began = Instant::now();
    let mut outcomes = Vec::new();
    match arguments.only {
        Some(step) => outcomes.push(step.run()?),
        None => gate(&mut outcomes)?,
    }
    conclude(&outcomes, began.elapsed())
}

fn gate(outcomes: &mut Vec<Outcome>) -> Result<()> {
    let mut build = Build::start()?;
    for step in Step::value_variants() {
        let outcome = if *step == Step::Programs { build.finish()? } else { step.run()? };
        say(&format!("{step} {} after {}", outcome.word(), Took(outcome.took)));
        let failed = outcome.failed.is_some();
        outcomes.push(outcome);
        if failed {
            break;
        }
    }
    Ok(())
}

/// The summary: a line for each step, and how to repeat what failed.
fn conclude(outcomes: &[Outcome], took: Duration) -> Result<()> {
    eprintln!();
    for outcome in outcomes {
        let Outcome { step, took, note, .. } = outcome;
        eprintln!("{step:10}{:8}{:>12}   {note}", outcome.word(), Took(*took).to_string());
    }
    if let Some((step, command)) =
        outcomes.iter().find_map(|one| one.failed.map(|command| (one.step, command)))
    {
        bail!(
            "{step} failed: repeat it with `cargo xtask test --only {step}`, or the one command:\n  {command}"
        );
    }
    eprintln!("all passed in {}", Took(took));
    Ok(())
}

/// Runs a command in the root of the tree, and counts the tests of what it prints.
fn shell(command: &str, tally: &mut Tally) -> Result<ExitStatus> {
    let mut shell = Command::new("sh");
    for name in told_by_cargo() {
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
        // Line by line, so that a test that hangs can be told from the one before it.
        std::io::stdout().write_all(&line)?;
        tally.count(&String::from_utf8_lossy(&line));
        line.clear();
    }
    Ok(child.wait()?)
}

/// The build of the programs that goes on beside the other steps, and ends with this value or this process.
struct Build {
    child: Child,
    leash: Option<ChildStdin>,
    began: Instant,
}

impl Build {
    fn start() -> Result<Build> {
        let mut child = Command::new(std::env::current_exe().context("finding this program")?)
            .args(["test", "--only=programs", "--leashed"])
            .stdin(Stdio::piped())
            // A group of its own, so that it can end what it started and nothing else.
            .process_group(0)
            .spawn()
            .context("starting the build of the programs")?;
        let leash = child.stdin.take();
        Ok(Build { child, leash, began: Instant::now() })
    }

    /// Waits for its end. The time that it took is counted from its start.
    fn finish(&mut self) -> Result<Outcome> {
        say("programs: waiting for those that are still being built");
        let status = self.child.wait().context("waiting for the build of the programs")?;
        let step = Step::Programs;
        let failed = (!status.success()).then(|| step.commands()[0]);
        Ok(Outcome { step, took: self.began.elapsed(), failed, note: "beside the steps before".into() })
    }
}

impl Drop for Build {
    fn drop(&mut self) {
        drop(self.leash.take());
        // An error here would mean that it is gone already.
        let _ = self.child.wait();
    }
}

/// Ends this process and all of its group once the standard input is closed.
fn end_with_input() {
    std::thread::spawn(|| {
        // An error is an end as well.
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        // An interrupt, because that is what `go build` cleans up after.
        let _ = kill_process_group(getpid(), Signal::INT);
        // What a script starts in the background ignores interrupts, and is still here.
        let _ = kill_process_group(getpid(), Signal::TERM);
    });
}

/// How many tests ran, by the last line of each test program.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    programs: u64,
    passed: u64,
    failed: u64,
}

impl Tally {
    fn count(&mut self, line: &str) {
        let Some(result) = line.strip_prefix("test result: ") else { return };
        let number = |of: &str| -> u64 {
            let word = result.split(of).next().and_then(|before| before.split_whitespace().last());
            word.and_then(|word| word.parse().ok()).unwrap_or(0)
        };
        self.programs += 1;
        self.passed += number(" passed");
        self.failed += number(" failed");
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

/// A duration for people.
struct Took(Duration);

impl fmt::Display for Took {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_secs() {
            0..60 => write!(f, "{:.1} s", self.0.as_secs_f64()),
            seconds => write!(f, "{} min {:02} s", seconds / 60, seconds % 60),
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
            "test result: FAILED. 7 passed; 1 failed; 0 ignored; 0 measured; finished in 1s\n",
        ] {
            tally.count(line);
        }
        assert_eq!(tally, Tally { programs: 2, passed: 19, failed: 1 });
        assert_eq!(tally.to_string(), "19 passed, 1 failed in 2 programs");
        assert_eq!(Tally::default().to_string(), "");
    }

    #[test]
    fn a_long_step_is_told_in_minutes() {
        assert_eq!(Took(Duration::from_millis(4_250)).to_string(), "4.2 s");
        assert_eq!(Took(Duration::from_secs(186)).to_string(), "3 min 06 s");
    }

    #[test]
    fn a_failure_names_what_repeats_it() {
        let outcome =
            |step: Step, failed| Outcome { step, took: Duration::ZERO, failed, note: String::new() };
        let [all, shipped] = Step::Clippy.commands() else { panic!("two passes of clippy") };
        assert!(all.contains("--all-features") && !shipped.contains("--all-features"));
        let outcomes = [outcome(Step::Fmt, None), outcome(Step::Clippy, Some(*shipped))];
        let error = conclude(&outcomes, Duration::ZERO).unwrap_err().to_string();
        assert!(error.contains("cargo xtask test --only clippy") && error.ends_with(shipped), "{error}");
        assert!(conclude(&outcomes[..1], Duration::ZERO).is_ok());
    }
}
