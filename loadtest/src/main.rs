//! The program `loadtest`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use framework_loadtest::scenario::Scenario;
use framework_loadtest::{compare, output, plan, render, start, status_cost};

/// Load tests of a Framework controller.
#[derive(Parser)]
#[command(name = "loadtest", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a scenario, and report what it took.
    Run(Box<start::Arguments>),
    /// Put the runs of several reports side by side.
    Merge(output::Arguments),
    /// Measure what a status write costs the API server, by its size and form.
    StatusCost(status_cost::Arguments),
    /// Say what a scenario file does.
    Check {
        /// The scenario.
        file: PathBuf,
    },
    /// Make a page of a report, which needs neither network nor script to be read.
    Render(render::Arguments),
    /// Leave the course over time out of a report, so that it is small enough to be kept beside the code.
    Trim(render::Arguments),
    /// Say what changed beyond noise: ends with 1 if something became worse, 2 if they cannot be compared.
    Compare(compare::Arguments),
    /// Say what a cluster needs for so much work, and from which report that is known.
    Plan(plan::Arguments),
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Run(arguments) => start::start(&arguments),
        Command::Merge(arguments) => output::merge(&arguments),
        Command::StatusCost(arguments) => status_cost::run(&arguments),
        Command::Check { file } => check(&file),
        Command::Render(arguments) => render::run(&arguments),
        Command::Trim(arguments) => render::trim(&arguments),
        Command::Compare(arguments) => compare::run(&arguments),
        Command::Plan(arguments) => plan::run(&arguments),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

fn check(file: &Path) -> Result<ExitCode> {
    let scenario = Scenario::read(file)?;
    println!("{}: {} jobs, {} Tasks", scenario.name, scenario.jobs(), scenario.tasks());
    Ok(ExitCode::SUCCESS)
}
