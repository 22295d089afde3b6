//! The program behind `cargo xtask demo` and `cargo xtask cluster up|down`.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use framework_programs::output::{CLOSED, is_closed};

mod cluster;
mod demo;
mod example;
mod follow;
mod gangs;
mod history;
mod replicas;
mod requests;
mod screen;
mod summary;
mod testbed;
#[cfg(test)]
mod tests;

#[derive(Parser)]
#[command(bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Manage a control plane to try things on by hand.
    #[command(subcommand)]
    Cluster(cluster::ClusterCommand),
    /// Run the Frameworks of `examples/` on a real control plane, and summarize each.
    Demo(demo::Arguments),
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Cluster(command) => cluster::run(command),
        Command::Demo(arguments) => demo::run(&arguments),
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
