//! The program `loadtest`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use framework_loadtest::number::count;
use framework_loadtest::scenario::Scenario;
use framework_loadtest::terminal::{note, print};
use framework_loadtest::{
    compare, form_cost, lives, output, plan, render, request_cost, selector_cost, start, status_cost,
    watch_cost,
};

/// Load tests of a Framework controller.
#[derive(Parser)]
#[command(name = "loadtest", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a scenario and write its report.
    Run(Box<start::Arguments>),
    /// Merge the runs of several reports into one report.
    Merge(output::Arguments),
    /// Measure the processor time of the API server for a status write, by its size and form.
    StatusCost(status_cost::Arguments),
    /// Measure the memory that the API server allocates for each other request of a life.
    RequestCost(request_cost::Arguments),
    /// Measure the cost for the API server of other forms of a status write and of the creation of a Pod.
    FormCost(form_cost::Arguments),
    /// Measure what it costs the API server to select the Frameworks of each replica. Its gate
    /// ShardedListAndWatch must be on.
    SelectorCost(selector_cost::Arguments),
    /// Measure what it costs the API server to send changes of Pods to each replica, as JSON and as protobuf.
    WatchCost(watch_cost::Arguments),
    /// Show how long each request about a small Framework takes, and the time between requests.
    Lives(lives::Arguments),
    /// Check a scenario file and print its size.
    Check {
        /// The scenario file.
        file: PathBuf,
    },
    /// Make a self-contained HTML page of a report.
    Render(render::Arguments),
    /// Remove the course over time from a report, so that it is small enough to keep beside the code.
    Trim(render::Arguments),
    /// Compare two reports: exits with 1 if a figure became worse beyond noise, 2 if they cannot be compared.
    Compare(compare::Arguments),
    /// Extrapolate the needs of a cluster from reports, to at most ten times what they measured.
    Plan(plan::Arguments),
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Run(arguments) => start::start(&arguments),
        Command::Merge(arguments) => output::merge(&arguments),
        Command::StatusCost(arguments) => status_cost::run(&arguments),
        Command::RequestCost(arguments) => request_cost::run(&arguments),
        Command::FormCost(arguments) => form_cost::run(&arguments),
        Command::SelectorCost(arguments) => selector_cost::run(&arguments),
        Command::WatchCost(arguments) => watch_cost::run(&arguments),
        Command::Lives(arguments) => lives::run(&arguments),
        Command::Check { file } => check(&file),
        Command::Render(arguments) => render::run(&arguments),
        Command::Trim(arguments) => render::trim(&arguments),
        Command::Compare(arguments) => compare::run(&arguments),
        Command::Plan(arguments) => plan::run(&arguments),
    };
    outcome.unwrap_or_else(|error| {
        note(format_args!("error: {error:#}"));
        ExitCode::FAILURE
    })
}

fn check(file: &Path) -> Result<ExitCode> {
    let scenario = Scenario::read(file)?;
    let (jobs, tasks) = (count(scenario.jobs(), "job"), count(scenario.tasks(), "Task"));
    print(format_args!("{}: {jobs}, {tasks}\n", scenario.name))?;
    Ok(ExitCode::SUCCESS)
}
