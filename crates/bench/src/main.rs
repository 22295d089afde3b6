//! The program behind `cargo xtask bench` and `cargo xtask barrier`.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use framework_programs::output::{CLOSED, is_closed};

mod barrier;
mod scenario;

#[derive(Parser)]
#[command(bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measure the cost of barriers for the API server.
    Barrier(barrier::Arguments),
    /// Run a scenario of the load test on a fresh control plane, and report the results.
    Bench(scenario::Arguments),
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Barrier(arguments) => barrier::run(&arguments),
        Command::Bench(arguments) => scenario::run(&arguments),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_closed(error.downcast_ref()) => ExitCode::from(CLOSED),
        Err(error) => {
            // Not as `main` would return it, which adds a backtrace where RUST_BACKTRACE is set.
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
