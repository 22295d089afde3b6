//! `cargo xtask differential`: the same Frameworks on the original's program and on ours, and what differs.
//!
//! Each side gets a control plane of its own, because the original brings a CRD of its own and writes status
//! through the main resource. Each seed draws a Framework and what happens to it. Both sides play that in
//! lockstep with what is visible: one thing happens at a time, and the next only when the Framework is at
//! rest, so that no race decides the outcome. What is seen each time is compared, and the history snapshots
//! in the end. A difference that no row of `docs/compatibility.md` explains fails the command.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::StreamExt;

mod compare;
mod draw;
mod ending;
mod facts;
mod form;
mod kubelet;
mod plan;
mod play;
mod report;
mod rest;
mod side;
mod snapshot;
#[cfg(test)]
mod tests;

use compare::Seen;
use plan::Plan;
use play::Story;
use report::Report;
use side::Side;

use crate::cluster;
use crate::demo::controller;
use crate::interrupt;

/// How long what a controller logs last may take to reach its log.
const LAST_LINES: Duration = Duration::from_secs(2);

/// What is compared with what.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The program of the original; it brings its own CRD.
    #[arg(long, value_name = "PROGRAM", required_unless_present = "itself")]
    reference: Option<PathBuf>,
    /// Compare our controller with itself, to see that the comparison works.
    #[arg(long, conflicts_with = "reference")]
    itself: bool,
    /// Compare this controller instead of building one.
    #[arg(long, value_name = "PROGRAM")]
    controller: Option<PathBuf>,
    /// How many seeds to play.
    #[arg(long, default_value_t = 200)]
    seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// How many Frameworks there are at a time.
    #[arg(long, default_value_t = 20)]
    at_once: usize,
}

/// Runs it; an error says that something differs without a reason, or that it could not be compared.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    interrupt::run(perform(arguments), &AtomicBool::new(false))
}

async fn perform(arguments: &Arguments) -> Result<()> {
    let absolute =
        |path: &PathBuf| path.canonicalize().with_context(|| format!("finding {}", path.display()));
    let reference = arguments.reference.as_ref().map(absolute).transpose()?;
    let own = match &arguments.controller {
        Some(path) => absolute(path)?,
        None => controller::build().await?,
    };
    let crds = Some(cluster::root().join("deploy/crds"));
    let (reference, reference_crds) =
        reference.map_or_else(|| (own.clone(), crds.clone()), |program| (program, None));
    let dir = |name: &str| cluster::home().join("differential").join(name);
    eprintln!("starting two control planes; the controllers log below {}", dir("").display());
    let began = Instant::now();
    let (reference, ours) = tokio::try_join!(
        Side::start("reference", reference, reference_crds, dir("reference")),
        Side::start("ours", own, crds, dir("ours")),
    )?;
    eprintln!("both controllers are ready after {:.0} s", began.elapsed().as_secs_f64());
    let plans = (arguments.from..arguments.from.saturating_add(arguments.seeds)).map(draw::plan);
    let began = Instant::now();
    let stories = tokio::select! {
        biased;
        ended = reference.work() => return ended,
        ended = ours.work() => return ended,
        stories = play_all(&reference, &ours, plans, arguments.at_once) => stories?,
    };
    tokio::time::sleep(LAST_LINES).await;
    let (their_log, own_log) = (snapshot::read(&reference.log()?), snapshot::read(&ours.log()?));
    // A program that logs no snapshot of anything does not have them.
    let compared = !their_log.is_empty() && !own_log.is_empty();
    let mut report = Report::new(compared);
    for (plan, theirs, own) in stories {
        let name = plan.name();
        let seen = |story: Story, log: &snapshot::Log| Seen {
            story,
            snapshots: compared.then(|| log.get(&name).cloned().unwrap_or_default()),
        };
        report.add(&plan, &seen(theirs, &their_log), &seen(own, &own_log));
    }
    print!("{}", report.tell(began.elapsed()));
    ensure!(report.is_clean(), "the two differ without a reason: see above");
    Ok(())
}

async fn play_all(
    reference: &Side,
    ours: &Side,
    plans: impl Iterator<Item = Plan>,
    at_once: usize,
) -> Result<Vec<(Plan, Story, Story)>> {
    let mut playing = futures::stream::iter(plans)
        .map(async |plan| {
            let (theirs, own) = tokio::try_join!(play::play(reference, &plan), play::play(ours, &plan))?;
            anyhow::Ok((plan, theirs, own))
        })
        .buffered(at_once.max(1));
    let mut played = Vec::new();
    while let Some(one) = playing.next().await {
        played.push(one?);
        if played.len().is_multiple_of(20) {
            eprintln!("{} seeds are played", played.len());
        }
    }
    Ok(played)
}
