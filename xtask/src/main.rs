//! The project's commands: `cargo xtask cluster up|down`.

use clap::{Parser, Subcommand};

mod cluster;

/// The project's commands.
#[derive(Parser)]
#[command(name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// A control plane to try things on by hand.
    #[command(subcommand)]
    Cluster(cluster::Command),
}

fn main() -> anyhow::Result<()> {
    match Arguments::parse().command {
        Command::Cluster(command) => cluster::run(command),
    }
}
