//! `loadtest plan`: extrapolates the needs of a cluster from reports.

pub mod capacity;
pub mod demand;
pub mod estimate;
mod replicas;
pub mod source;
mod table;

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, ensure};

use crate::report::Report;
use crate::saved;
use demand::Demand;
use estimate::{Estimate, estimates, remarks};
use source::{of_replicas, sources};

/// The arguments of `loadtest plan`.
#[derive(clap::Args)]
pub struct Arguments {
    /// Reports of runs of the load test.
    #[arg(required = true)]
    reports: Vec<PathBuf>,
    /// Frameworks at one time.
    #[arg(long, required_unless_present = "markdown", value_parser = clap::value_parser!(u32).range(1..))]
    frameworks: Option<u32>,
    /// Tasks of each Framework.
    #[arg(long, required_unless_present = "markdown", value_parser = tasks_of_one())]
    tasks: Option<u32>,
    /// Rate at which Frameworks come and go: `10/s`, `600/min`, `36000/h`.
    #[arg(long, required_unless_present = "markdown", value_parser = demand::rate)]
    churn: Option<f64>,
    /// Replicas of the controller that share the work.
    #[arg(long, default_value = "1")]
    replicas: NonZeroU32,
    /// The system to plan for, as the reports name it.
    #[arg(long, default_value = "frameworkcontroller")]
    system: String,
    /// Use only runs of this profile.
    #[arg(long)]
    profile: Option<String>,
    /// Print the generated part of docs/capacity.md instead.
    #[arg(long, conflicts_with_all = ["frameworks", "tasks", "churn", "profile"])]
    markdown: bool,
}

/// 1 to 10,000: the Tasks that a Framework may have.
fn tasks_of_one() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=10_000)
}

/// Prints the plan.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let reports = arguments.reports.iter().map(|path| saved::read(path)).collect::<Result<Vec<Report>>>()?;
    let (Some(frameworks), Some(tasks), Some(churn)) =
        (arguments.frameworks, arguments.tasks, arguments.churn)
    else {
        print!("{}", capacity::generated(&reports));
        return Ok(ExitCode::SUCCESS);
    };
    let demand = Demand { frameworks, tasks, churn, replicas: arguments.replicas };
    let found = sources(&reports, &arguments.system, arguments.profile.as_deref());
    let found = of_replicas(&found, arguments.replicas.get());
    ensure!(
        !found.is_empty(),
        "no report has a run of {} with {} or 1 replica to plan with",
        arguments.system,
        arguments.replicas
    );
    let estimates = estimates(&demand, &found)?;
    println!("{}", demand.sentence());
    for remark in remarks(&demand, &found) {
        println!("{remark}");
    }
    println!("\n{}", columns(&estimates));
    Ok(ExitCode::SUCCESS)
}

/// The plan as a table for the terminal. Numbers refer to the runs below it, whose names are long.
fn columns(estimates: &[Estimate]) -> String {
    let mut runs: Vec<&str> = Vec::new();
    let mut rows = vec![["figure", "needed", "from", "distance"].map(str::to_owned)];
    for one in estimates {
        let at = runs.iter().position(|run| *run == one.from).unwrap_or_else(|| {
            runs.push(&one.from);
            runs.len() - 1
        });
        rows.push([one.name.clone(), one.value.clone(), format!("[{}]", at + 1), one.distance.clone()]);
    }
    let width = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or_default();
    let widths = [width(0), width(1), width(2), width(3)];
    let mut out = String::new();
    for row in &rows {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        out += cells.collect::<Vec<_>>().join("  ").trim_end();
        out.push('\n');
    }
    for (at, run) in runs.iter().enumerate() {
        out += &format!("\n[{}] {run}", at + 1);
    }
    out
}
