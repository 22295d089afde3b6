//! `kubectl framework`: a plugin for kubectl that shows Frameworks and explains their state.
//!
//! Guarantees: the answers follow from objects that were read once, by the rules of the controller's own
//! crates. A verb that shows something writes nothing; one that changes something sends one patch.

pub mod args;
mod change;
mod cluster;
pub mod complete;
mod duration;
mod error;
pub mod failure;
mod find;
mod get;
mod history;
mod output;
mod pod;
mod queue;
mod rule;
mod simulate;
mod table;
#[cfg(test)]
mod testing;
mod top;
mod tree;
mod visible;
mod wait;
mod why;

pub use error::Error;

use args::{Args, Command};
use cluster::Cluster;
use output::Style;

/// Runs a command, and returns the text for stdout.
pub async fn run(args: &Args) -> Result<String, Error> {
    let style = Style::new(&args.global);
    let cluster = || Cluster::connect(&args.global);
    match &args.command {
        Command::Get(asked) => get::run(&cluster().await?, asked, style).await,
        Command::Tree(asked) => tree::run(&cluster().await?, &asked.name, style).await,
        Command::Top(asked) => top::run(&cluster().await?, asked, style).await,
        Command::Why(asked) => why::run(&cluster().await?, &asked.name, style).await,
        Command::History(asked) => history::run(&cluster().await?, &asked.name, style).await,
        Command::Scale(asked) => change::scale(&cluster().await?, asked, style).await,
        Command::Start(asked) => change::start(&cluster().await?, &asked.name, style).await,
        Command::Stop(asked) => change::stop(&cluster().await?, &asked.name, style).await,
        Command::Wait(asked) => wait::run(&cluster().await?, asked).await,
        Command::Simulate(asked) => simulate::run(asked, style),
    }
}
