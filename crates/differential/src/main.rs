//! The program behind `cargo xtask differential`: plays the same Frameworks on the original's program and on
//! ours, and compares.
//!
//! Each side gets a control plane of its own, because the original brings a CRD of its own and writes status
//! through the main resource. Each seed draws a Framework and the steps that happen to it. Both sides play
//! the steps in lockstep: the next step is done only when the Framework is at rest, so that no race decides
//! the outcome. The observations after each step are compared, and the history snapshots at the end. A
//! difference that no row of `docs/compatibility.md` explains fails the command.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Parser;
use framework_api::pod_failure::DEFAULT_CONFIG;
use framework_programs::workspace::{cluster_home, root};
use framework_testcluster::interrupt;
use futures::StreamExt;

mod compare;
mod draw;
mod ending;
mod example;
mod facts;
mod form;
mod kubelet;
mod plan;
mod play;
mod quiescence;
mod report;
mod side;
mod snapshot;
mod take_over;
#[cfg(test)]
mod tests;

use compare::Record;
use example::Example;
use plan::Plan;
use play::Timeline;
use report::Report;
use side::{Controller, Side};

/// How long the last lines of a controller may take to reach its log.
const LAST_LINES: Duration = Duration::from_secs(2);

/// How many seeds are played by default.
const SEEDS: u64 = 200;
/// How many fates of each example are played by default.
const FATES: u64 = 4;

/// A plan and the timelines of both sides.
type Played = (Plan, Timeline, Timeline);

/// The default config file within a checkout of the original.
const ORIGINAL_CONFIG: &str = "example/config/default/frameworkcontroller.yaml";

/// The default config file within a source of ours, and its CRDs.
const OUR_CONFIG: &str = "crates/api/data/frameworkcontroller.yaml";
const OUR_CRDS: &str = "deploy/crds";

/// Play the same Frameworks on another controller's program and on ours, and compare.
#[derive(Parser)]
#[command(name = "cargo xtask differential")]
struct Arguments {
    /// The program of the original; it brings its own CRD.
    #[arg(long, value_name = "PROGRAM", required_unless_present = "itself", requires = "checkout")]
    reference: Option<PathBuf>,
    /// A checkout of the original: the reference gets the config file that is shipped there.
    #[arg(long, value_name = "DIR")]
    checkout: Option<PathBuf>,
    /// Compare our controller with itself, to see that the comparison works.
    #[arg(long, conflicts_with = "reference")]
    itself: bool,
    /// Give both sides the config file of the checkout, with the rules in it that are comments.
    #[arg(long, requires = "checkout")]
    all_rules: bool,
    /// Compare this controller; `cargo xtask` builds one if none is named.
    #[arg(long, value_name = "PROGRAM")]
    controller: PathBuf,
    /// Play the examples of this checkout of the original instead, as they are written.
    #[arg(long, value_name = "DIR")]
    examples: Option<PathBuf>,
    /// Take a live cluster over from the reference to ours, and back, in the middle of running Frameworks.
    #[arg(long, conflicts_with_all = ["examples", "seeds", "all_rules"])]
    take_over: bool,
    /// The reference is an earlier version of ours, and the checkout its source.
    #[arg(long, requires_all = ["take_over", "checkout"])]
    earlier: bool,
    /// How many Frameworks there are at each exchange of controllers.
    #[arg(long, requires = "take_over", default_value_t = 50, value_parser = at_least_ten)]
    frameworks: usize,
    /// How many seeds to play; with --examples, how many fates of each: in the first, all Pods succeed.
    #[arg(long)]
    seeds: Option<u64>,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// How many Frameworks there are at a time.
    #[arg(long, default_value_t = 20)]
    at_once: usize,
}

fn main() -> ExitCode {
    match interrupt::run(run(&Arguments::parse()), &AtomicBool::new(false)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Not as `main` would return it, which adds a backtrace where RUST_BACKTRACE is set.
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Plays and compares; fails if a difference is unexplained, or if the sides cannot be compared.
async fn run(arguments: &Arguments) -> Result<()> {
    let examples = arguments.examples.as_deref().map(example::read).transpose()?.unwrap_or_default();
    let mut ours = ours(arguments)?;
    let mut reference = match (&arguments.reference, &arguments.checkout) {
        (Some(program), Some(checkout)) if arguments.earlier => earlier(program, checkout)?,
        (Some(program), Some(checkout)) => original(program, checkout, !examples.is_empty())?,
        _ => ours.clone(),
    };
    if arguments.take_over {
        let dir = cluster_home().join("differential/take-over");
        eprintln!("starting a control plane; the controllers log below {}", dir.display());
        return take_over::run(&reference, &ours, dir, arguments.frameworks).await;
    }
    if arguments.all_rules {
        let checkout = arguments.checkout.as_deref().context("--all-rules needs --checkout")?;
        reference.config = with_comments(&shipped(checkout)?);
        ours.config.clone_from(&reference.config);
    }
    let dir = |name: &str| cluster_home().join("differential").join(name);
    eprintln!("starting two control planes; the controllers log below {}", dir("").display());
    let began = Instant::now();
    let (reference, ours) = tokio::try_join!(
        Side::start("reference", reference, dir("reference")),
        Side::start("ours", ours, dir("ours")),
    )?;
    eprintln!("both controllers are ready after {:.0} s", began.elapsed().as_secs_f64());
    for example in &examples {
        reference.prepare(example)?;
        ours.prepare(example)?;
    }
    let plans = plans(arguments, &examples);
    let began = Instant::now();
    let timelines = tokio::select! {
        biased;
        ended = reference.work() => return ended,
        ended = ours.work() => return ended,
        timelines = play_all(&reference, &ours, plans, arguments.at_once) => timelines?,
    };
    tokio::time::sleep(LAST_LINES).await;
    let (their_log, own_log) = (snapshot::read(&reference.log()?), snapshot::read(&ours.log()?));
    // A program that logs no snapshot of anything does not have them.
    let compared = !their_log.is_empty() && !own_log.is_empty();
    let mut report = Report::new(compared);
    for (number, (plan, theirs, own)) in timelines.iter().enumerate() {
        // A log has the snapshots of all plans of one name: they are compared once, with the last plan.
        let others = timelines.iter().filter(|(other, ..)| other.name == plan.name);
        let is_last = !timelines.iter().skip(number + 1).any(|(other, ..)| other.name == plan.name);
        let lost: BTreeSet<i32> = others.flat_map(|(_, theirs, _)| &theirs.lost).copied().collect();
        let record = |timeline: &Timeline, log: &snapshot::Log| Record {
            timeline: Timeline { lost: lost.clone(), ..timeline.clone() },
            snapshots: (compared && is_last).then(|| log.get(&plan.name).cloned().unwrap_or_default()),
        };
        report.add(plan, &record(theirs, &their_log), &record(own, &own_log));
    }
    print!("{}", report.text(began.elapsed()));
    ensure!(report.is_clean(), "the two differ without a reason: see above");
    Ok(())
}

/// Reads the number of Frameworks of a take-over, which has at least one of each phase.
fn at_least_ten(text: &str) -> Result<usize, String> {
    let number: usize = text.parse().map_err(|error| format!("{error}"))?;
    if number < 10 { Err("at least 10, one of each kind".to_owned()) } else { Ok(number) }
}

fn ours(arguments: &Arguments) -> Result<Controller> {
    let program = absolute(&arguments.controller)?;
    Ok(Controller {
        program,
        crds: Some(root().join("deploy/crds")),
        config: DEFAULT_CONFIG.to_owned(),
        examples: arguments.examples.is_some(),
    })
}

/// The original with its own default file: ours classifies more ends of Pods, and in its own order.
fn original(program: &Path, checkout: &Path, examples: bool) -> Result<Controller> {
    Ok(Controller { program: absolute(program)?, crds: None, config: shipped(checkout)?, examples })
}

/// An earlier version of ours, with the CRDs and the default file of its source.
fn earlier(program: &Path, source: &Path) -> Result<Controller> {
    let file = source.join(OUR_CONFIG);
    let config = fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
    let crds = absolute(&source.join(OUR_CRDS))?;
    Ok(Controller { program: absolute(program)?, crds: Some(crds), config, examples: false })
}

/// The default config file of the original.
fn shipped(checkout: &Path) -> Result<String> {
    let file = checkout.join(ORIGINAL_CONFIG);
    fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))
}

/// A config file with the rules in it that are comments. Sentences have one space after the `#`, rules have a
/// dash or two spaces. Settings have neither: both sides have settings of their own.
fn with_comments(config: &str) -> String {
    let is_rule = |line: &str| line.starts_with("#- ") || line.starts_with("#  ");
    let line = |line: &str| format!("{}\n", if is_rule(line) { &line[1..] } else { line });
    config.lines().map(line).collect()
}

fn absolute(path: &Path) -> Result<PathBuf> {
    path.canonicalize().with_context(|| format!("finding {}", path.display()))
}

async fn play_all(
    reference: &Side,
    ours: &Side,
    lives: Vec<Vec<Plan>>,
    at_once: usize,
) -> Result<Vec<Played>> {
    let mut playing = futures::stream::iter(lives)
        .map(async |plans| {
            let mut played: Vec<Played> = Vec::new();
            for plan in plans {
                let (theirs, own) = tokio::try_join!(play::play(reference, &plan), play::play(ours, &plan))?;
                played.push((plan, theirs, own));
            }
            anyhow::Ok(played)
        })
        .buffered(at_once.max(1));
    let mut all = Vec::new();
    while let Some(played) = playing.next().await {
        let before = all.len();
        all.extend(played?);
        if before / 20 < all.len() / 20 {
            eprintln!("{} seeds are played", all.len());
        }
    }
    Ok(all)
}

/// The plans to play. Those of one example have one name: they are played one after the other.
fn plans(arguments: &Arguments, examples: &[Example]) -> Vec<Vec<Plan>> {
    let seeds = |number: u64| arguments.from..arguments.from.saturating_add(number);
    if examples.is_empty() {
        return seeds(arguments.seeds.unwrap_or(SEEDS)).map(|seed| vec![draw::plan(seed)]).collect();
    }
    let seeds = seeds(arguments.seeds.unwrap_or(FATES));
    examples.iter().map(|example| seeds.clone().map(|seed| draw::fate(example, seed)).collect()).collect()
}
