//! `cargo xtask soak flakes`: every end-to-end program many times over, to find the tests that fail now and
//! then.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use framework_programs::Binaries;
use framework_programs::workspace::{cargo, target_dir};

use crate::programs::{self, integration_tests};
use crate::test::Tally;
use crate::took::Took;

/// The marks of a test program that starts a control plane.
const MARKS: [&str; 2] = ["framework_testcluster", "CARGO_BIN_EXE_framework-"];

/// The programs, and how often each runs.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How often each program runs.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    times: u32,
    /// Run this test program alone; may be given several times.
    #[arg(long)]
    program: Vec<String>,
    /// Arguments of the test programs, such as a part of the names of tests.
    #[arg(last = true)]
    arguments: Vec<String>,
}

/// The failed runs of a test.
#[derive(Debug, Default, PartialEq, Eq)]
struct Failures {
    /// By program and test, the outputs of the failed runs.
    outputs: BTreeMap<(String, String), Vec<PathBuf>>,
}

/// Runs all programs, also after a failure; fails if a run failed.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    programs::check(&arguments.program)?;
    let programs = if arguments.program.is_empty() { end_to_end()? } else { arguments.program.clone() };
    let dir = target_dir().join("soak/flakes");
    fs::create_dir_all(&dir).with_context(|| format!("creating {}", dir.display()))?;
    eprintln!("{} programs, {} times each: {}", programs.len(), arguments.times, programs.join(", "));
    eprintln!("the outputs go to {}", dir.display());
    Binaries::locate()?;
    let built = cargo(&["test", "--workspace", "--no-run"]).args(tests(&programs)).status();
    ensure!(built.context("starting cargo")?.success(), "the test programs do not compile");
    let (began, mut failures, mut runs) = (Instant::now(), Failures::default(), 0);
    for time in 1..=arguments.times {
        for program in &programs {
            let output = dir.join(format!("{program}-{time}.log"));
            let one = Instant::now();
            let (passed, failed) = once(program, &arguments.arguments, &output)?;
            runs += 1;
            let word = if passed { "passed" } else { "failed" };
            eprintln!("{time:3} of {} {program}: {word} in {}", arguments.times, Took(one.elapsed()));
            if !passed {
                failures.add(program, failed, &output);
            }
        }
    }
    eprintln!("{runs} runs in {}", Took(began.elapsed()));
    write!(io::stdout(), "{}", failures.table(arguments.times))?;
    ensure!(failures.outputs.is_empty(), "{} tests failed at least once", failures.outputs.len());
    Ok(())
}

/// Runs a program once; returns whether it passed, and the tests that failed.
fn once(program: &str, arguments: &[String], output: &Path) -> Result<(bool, Vec<String>)> {
    let file = File::create(output).with_context(|| format!("creating {}", output.display()))?;
    let errors = file.try_clone().context("sharing the output")?;
    let mut test = cargo(&["test", "--workspace"]);
    test.args(tests(&[program.to_owned()])).arg("--").args(arguments);
    let status = test.stdin(Stdio::null()).stdout(file).stderr(errors).status().context("starting cargo")?;
    let mut tally = Tally::default();
    let lines = BufReader::new(File::open(output).context("reading the output")?);
    for line in lines.split(b'\n') {
        tally.count(&String::from_utf8_lossy(&line.context("reading the output")?));
    }
    Ok((status.success(), tally.names))
}

fn tests(programs: &[String]) -> Vec<String> {
    programs.iter().map(|program| format!("--test={program}")).collect()
}

/// The test programs of the workspace that start a control plane, by their sources.
fn end_to_end() -> Result<Vec<String>> {
    let mut programs = Vec::new();
    for (name, sources) in integration_tests()? {
        if sources
            .iter()
            .try_fold(false, |found, path| Ok::<_, anyhow::Error>(found || starts_a_control_plane(path)?))?
        {
            programs.push(name);
        }
    }
    ensure!(!programs.is_empty(), "no end-to-end program was found");
    Ok(programs)
}

/// Whether a test program, or a module in its directory, mentions one of [`MARKS`].
fn starts_a_control_plane(source: &Path) -> Result<bool> {
    let mut todo = match source.file_name() {
        Some(name) if name == "main.rs" => vec![source.parent().unwrap_or(source).to_owned()],
        _ => vec![source.to_owned()],
    };
    while let Some(path) = todo.pop() {
        if path.is_dir() {
            for entry in fs::read_dir(&path).with_context(|| format!("listing {}", path.display()))? {
                todo.push(entry?.path());
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
            if MARKS.iter().any(|mark| text.contains(mark)) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

impl Failures {
    fn add(&mut self, program: &str, tests: Vec<String>, output: &Path) {
        // A program that crashes, or that does not start, names no test.
        let tests = if tests.is_empty() { vec!["(the program itself)".to_owned()] } else { tests };
        for test in tests {
            self.outputs.entry((program.to_owned(), test)).or_default().push(output.to_owned());
        }
    }

    /// A line for each test that failed, with its outputs below.
    fn table(&self, times: u32) -> String {
        if self.outputs.is_empty() {
            return format!("no test failed in {times} runs of each program\n");
        }
        let mut text = format!("{:>8}  {:16} test\n", "failed", "program");
        for ((program, test), outputs) in &self.outputs {
            text.push_str(&format!("{:>8}  {program:16} {test}\n", format!("{}/{times}", outputs.len())));
            outputs.iter().for_each(|output| text.push_str(&format!("{:10}{}\n", "", output.display())));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_every_failed_test_with_its_outputs() {
        let mut failures = Failures::default();
        assert_eq!(failures.table(20), "no test failed in 20 runs of each program\n");
        failures.add("e2e", vec!["wave::late".into()], Path::new("e2e-3.log"));
        failures.add("e2e", vec!["wave::late".into(), "ttl::early".into()], Path::new("e2e-7.log"));
        failures.add("chaos", Vec::new(), Path::new("chaos-1.log"));
        let expected = "  failed  program          test
    1/20  chaos            (the program itself)
          chaos-1.log
    1/20  e2e              ttl::early
          e2e-7.log
    2/20  e2e              wave::late
          e2e-3.log
          e2e-7.log
";
        assert_eq!(failures.table(20), expected);
    }

    #[test]
    fn programs_that_start_a_control_plane_are_found() {
        let programs = end_to_end().unwrap();
        for name in ["cluster", "demo", "e2e_program", "itself"] {
            assert!(programs.iter().any(|program| program == name), "{name} is not among {programs:?}");
        }
        for name in ["gate", "sim"] {
            assert!(!programs.iter().any(|program| program == name), "{name} starts no control plane");
        }
    }
}
