//! The project's commands: `cargo xtask test`, `cargo xtask sim`, `cargo xtask large`, `cargo xtask storm`,
//! `cargo xtask demo`, `cargo xtask differential`, `cargo xtask cluster up|down`, `cargo xtask barrier`,
//! `cargo xtask wave`, `cargo xtask oldest`, `cargo xtask bench`.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod barrier;
mod bench;
mod cluster;
mod demo;
mod differential;
mod environment;
mod interrupt;
mod large;
mod oldest;
mod sim;
mod storm;
mod test;
mod wave;

/// The project's commands.
#[derive(Parser)]
#[command(name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measure what barriers cost the API server.
    Barrier(barrier::Arguments),
    /// Run a scenario of the load test on a fresh control plane, and report what it takes.
    Bench(bench::Arguments),
    /// A control plane to try things on by hand.
    #[command(subcommand)]
    Cluster(cluster::Command),
    /// Run the Frameworks of `examples/` on a real control plane and tell their stories.
    Demo(demo::Arguments),
    /// Play the same Frameworks on another controller's program and on ours, and compare.
    Differential(differential::Arguments),
    /// Run a Framework of 10,000 Tasks on a real control plane, and print what it takes.
    Large(large::Arguments),
    /// Run tests on the oldest version of Kubernetes that is supported.
    Oldest(oldest::Arguments),
    /// Walk more seeds through the simulated cluster than the gate does.
    Sim(sim::Arguments),
    /// Rescale Frameworks at random on a real control plane, more of them than the gate does.
    Storm(storm::Arguments),
    /// Run all that a change has to pass.
    Test(test::Arguments),
    /// Let deadlines pass and Frameworks expire in one second, and print how late everything is.
    Wave(wave::Arguments),
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Barrier(arguments) => barrier::run(&arguments),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Cluster(command) => cluster::run(command),
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Differential(arguments) => differential::run(&arguments),
        Command::Large(arguments) => large::run(&arguments),
        Command::Oldest(arguments) => oldest::run(&arguments),
        Command::Sim(arguments) => sim::run(&arguments),
        Command::Storm(arguments) => storm::run(&arguments),
        Command::Test(arguments) => test::run(&arguments),
        Command::Wave(arguments) => wave::run(&arguments),
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
