//! `cargo xtask demo`: from a fresh clone to finished Frameworks on a real control plane.
//!
//! Builds the controller, starts a control plane with the controller beside it, creates the Frameworks of
//! `examples/`, shows them while they run, and tells the story of each. Fails if any did not end as it
//! should. Whatever it starts ends with it, however it ends; with `--keep` what is left is named, and how to
//! stop it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, ensure};
use framework_api::Framework;
use kube::api::{Api, PostParams};

mod chronicle;
pub(crate) mod controller;
mod example;
mod follow;
mod place;
mod queue;
mod requests;
mod screen;
mod story;
#[cfg(test)]
mod tests;

use chronicle::Chronicle;
use example::EXAMPLES;
use place::Place;
use screen::Screen;

use crate::interrupt;

/// What can be asked of the demo.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Leave the cluster, the controller and the Frameworks behind, and print how to reach them.
    #[arg(long)]
    keep: bool,
    /// Show two gangs and room for one: without a queue, where both hang, and with one.
    #[arg(long, conflicts_with = "keep")]
    queue: bool,
    /// Run this controller instead of building one.
    #[arg(long, value_name = "PROGRAM")]
    controller: Option<PathBuf>,
}

/// Runs the demo.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let interrupted = Arc::new(AtomicBool::new(false));
    interrupt::run(play(arguments, &interrupted), &interrupted)
}

async fn play(arguments: &Arguments, interrupted: &Arc<AtomicBool>) -> Result<()> {
    Place::check_free(arguments.keep)?;
    let program = match &arguments.controller {
        Some(path) => path.canonicalize().with_context(|| format!("finding {}", path.display()))?,
        None => controller::build().await?,
    };
    let (keep, given_up) = (arguments.keep, Arc::clone(interrupted));
    let place = tokio::task::spawn_blocking(move || Place::prepare(keep, &program, &given_up)).await??;
    let outcome = if arguments.queue { queue::perform(&place).await } else { perform(&place).await };
    place.end()?;
    outcome
}

/// Creates the Frameworks, follows them to their ends, and tells their stories.
async fn perform(place: &Place) -> Result<()> {
    let client = place.client().await?;
    let api: Api<Framework> = Api::default_namespaced(client);
    let mut events = follow::watch(&api).await?;
    let mut chronicles = Vec::new();
    for example in EXAMPLES {
        let created = api.create(&PostParams::default(), &example.framework()?).await?;
        chronicles.push(Chronicle::begin(example, created));
    }
    let followed = follow::follow(&api, &mut events, &mut chronicles, &mut Screen::of_stdout(), place).await;
    if let Some(last) = chronicles.iter().filter_map(Chronicle::resource_version).max() {
        requests::logged(&place.audit(), last).await?;
    }
    let records = place.audit().records()?;
    for chronicle in &chronicles {
        println!("\n{}", story::tell(chronicle, &records));
    }
    followed?;
    let wrong: Vec<String> = chronicles.iter().filter_map(|chronicle| chronicle.judge().err()).collect();
    ensure!(wrong.is_empty(), "not all ended as they should:\n  {}", wrong.join("\n  "));
    Ok(())
}
