//! The project's commands: `cargo xtask test`, the gate; `cargo xtask soak`, longer tests;
//! `cargo xtask image`, images of the programs; and those that other programs of the workspace carry out:
//! `demo`, `cluster`, `differential`, `bench`, `barrier`.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use framework_programs::output::{CLOSED, is_closed};

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
use leash::end_with_input;

/// The project's commands.
#[derive(Parser)]
#[command(bin_name = "cargo xtask")]
struct Arguments {
    /// End with the standard input: how this program starts itself again.
    #[arg(long, hide = true)]
    leashed: bool,
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

impl Command {
    /// Whether it waits for programs that must end with it. The others start none, or become another program.
    fn waits_for_programs(&self) -> bool {
        match self {
            Command::Chaos(_) | Command::Image(_) | Command::Test(_) => true,
            Command::Soak(arguments) => !arguments.become_another_program(),
            _ => false,
        }
    }

    fn run(&self) -> Result<()> {
        match self {
            Command::Barrier(arguments) => Delegate::Barrier.run(arguments),
            Command::Bench(arguments) => Delegate::Bench.run(arguments),
            Command::Build(arguments) => build::run(arguments),
            Command::Chaos(arguments) => soak::chaos(arguments),
            Command::Cluster(arguments) => Delegate::Cluster.run(arguments),
            Command::Demo(arguments) => Delegate::Demo.run(arguments),
            Command::Differential(arguments) => Delegate::Differential.run(arguments),
            Command::Image(arguments) => image::run(arguments),
            Command::Soak(arguments) => soak::run(arguments),
            Command::Test(arguments) => test::run(arguments),
        }
    }
}

fn main() -> ExitCode {
    let Arguments { leashed, command } = Arguments::parse();
    if leashed {
        end_with_input();
    }
    let outcome = if !leashed && command.waits_for_programs() {
        leash::again()
    } else {
        command.run().map(|()| ExitCode::SUCCESS)
    };
    match outcome {
        Ok(code) => code,
        Err(error) if is_closed(error.downcast_ref()) => ExitCode::from(CLOSED),
        Err(error) => {
            // Not as `main` would return it, which adds a backtrace where RUST_BACKTRACE is set.
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
