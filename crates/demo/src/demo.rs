//! `cargo xtask demo`: Frameworks on a real control plane, from their creation to their ends.
//!
//! Starts a control plane with the controller beside it, creates the Frameworks of `examples/`, shows them
//! while they run, and prints a summary of each. Fails if a Framework ended in another way than its example
//! says. Everything that it starts ends with it, however it ends; with `--keep` everything stays, and it
//! prints the command that stops it.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, ensure};
use framework_api::Framework;
use framework_testcluster::interrupt;
use kube::api::{Api, PostParams};

use crate::example::EXAMPLES;
use crate::history::History;
use crate::screen::Screen;
use crate::testbed::Testbed;
use crate::{follow, gangs, replicas, requests, summary};

/// The variant of the demo.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Leave the cluster, the controller and the Frameworks behind, and print how to reach them.
    #[arg(long)]
    keep: bool,
    /// Show two gangs and room for one: without a queue, where both hang, and with one.
    #[arg(long, conflicts_with = "keep")]
    queue: bool,
    /// Show so many replicas that share Frameworks, of which one is killed.
    #[arg(long, value_name = "N", conflicts_with_all = ["keep", "queue"])]
    #[arg(value_parser = clap::value_parser!(u8).range(2..=i64::from(replicas::MOST)))]
    replicas: Option<u8>,
    /// Run this controller; `cargo xtask` builds one if none is named.
    #[arg(long, value_name = "PROGRAM")]
    controller: Option<PathBuf>,
}

/// Runs the demo.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let interrupted = Arc::new(AtomicBool::new(false));
    interrupt::run(prepare(arguments, &interrupted), &interrupted)
}

async fn prepare(arguments: &Arguments, interrupted: &Arc<AtomicBool>) -> Result<()> {
    Testbed::check_free(arguments.keep)?;
    let program = arguments.controller.as_ref().context("--controller is needed: name a program")?;
    let program = program.canonicalize().with_context(|| format!("--controller: {}", program.display()))?;
    ensure!(program.is_file(), "--controller: {} is not a program", program.display());
    let (keep, given_up) = (arguments.keep, Arc::clone(interrupted));
    if let Some(replicas) = arguments.replicas {
        let testbed = tokio::task::spawn_blocking(Testbed::without_a_controller).await??;
        return replicas::show(&testbed, &program, replicas).await;
    }
    let testbed = tokio::task::spawn_blocking(move || Testbed::prepare(keep, &program, &given_up)).await??;
    let outcome = if arguments.queue { gangs::show(&testbed).await } else { show(&testbed).await };
    testbed.end()?;
    outcome
}

/// Creates the Frameworks, follows them to their ends, and prints their summaries.
async fn show(testbed: &Testbed) -> Result<()> {
    let client = testbed.client().await?;
    let api: Api<Framework> = Api::default_namespaced(client);
    let mut events = follow::watch(&api).await?;
    let mut histories = Vec::new();
    for example in EXAMPLES {
        let created = api.create(&PostParams::default(), &example.framework()?).await?;
        histories.push(History::new(example, created));
    }
    let followed = follow::follow(&api, &mut events, &mut histories, &mut Screen::of_stdout(), testbed).await;
    if let Some(last) = histories.iter().filter_map(History::resource_version).max() {
        requests::logged(&testbed.audit(), last).await?;
    }
    let records = testbed.audit().records()?;
    for history in &histories {
        writeln!(io::stdout(), "\n{}", summary::of(history, &records))?;
    }
    followed?;
    let wrong: Vec<String> = histories.iter().filter_map(|history| history.check().err()).collect();
    ensure!(wrong.is_empty(), "not all ended as they should:\n  {}", wrong.join("\n  "));
    Ok(())
}
