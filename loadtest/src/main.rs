//! The program `loadtest`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use framework_loadtest::scenario::Scenario;

/// Load tests of a Framework controller.
#[derive(Parser)]
#[command(name = "loadtest", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Say what a scenario file does.
    Check {
        /// The scenario.
        file: PathBuf,
    },
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Check { file } => Scenario::read(&file)
            .map(|scenario| println!("{}: {} jobs, {} Tasks", scenario.name, scenario.jobs(), scenario.tasks())),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
