//! The project's commands: `cargo xtask test`, the gate; `cargo xtask soak`, longer tests;
//! `cargo xtask image`, images of the programs; and those that other programs of the workspace carry out:
//! `demo`, `cluster`, `differential`, `bench`, `barrier`.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod build;
mod delegate;
mod image;
mod leash;
mod programs;
mod progress;
mod soak;
mod test;
mod took;

use delegate::Delegate;

/// The project's commands.
#[derive(Parser)]
#[command(name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measure the cost of barriers for the API server.
    #[command(disable_help_flag = true)]
    Barrier(delegate::Arguments),
    /// Run a scenario of the load test on a fresh control plane, and report the results.
    #[command(disable_help_flag = true)]
    Bench(delegate::Arguments),
    /// Build programs for another command.
    #[command(hide = true)]
    Build(build::Arguments),
    /// Disturb three replicas, the API server and its store under load, and count what is lost.
    Chaos(soak::Chaos),
    /// Manage a control plane to try things on by hand: `up` or `down`.
    #[command(disable_help_flag = true)]
    Cluster(delegate::Arguments),
    /// Run the Frameworks of `examples/` on a real control plane, and summarize each.
    #[command(disable_help_flag = true)]
    Demo(delegate::Arguments),
    /// Play the same Frameworks on another controller's program and on ours, and compare.
    #[command(disable_help_flag = true)]
    Differential(delegate::Arguments),
    /// Build the programs as OCI images, without a container engine.
    Image(image::Arguments),
    /// Run tests longer, larger or more often than the gate.
    Soak(soak::Arguments),
    /// Run everything that a change has to pass.
    Test(test::Arguments),
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Barrier(arguments) => Delegate::Barrier.run(&arguments),
        Command::Bench(arguments) => Delegate::Bench.run(&arguments),
        Command::Build(arguments) => build::run(&arguments),
        Command::Chaos(arguments) => soak::chaos(&arguments),
        Command::Cluster(arguments) => Delegate::Cluster.run(&arguments),
        Command::Demo(arguments) => Delegate::Demo.run(&arguments),
        Command::Differential(arguments) => Delegate::Differential.run(&arguments),
        Command::Image(arguments) => image::run(&arguments),
        Command::Soak(arguments) => soak::run(&arguments),
        Command::Test(arguments) => test::run(&arguments),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Not as `main` would return it, which adds a backtrace where RUST_BACKTRACE is set.
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
