//! `loadtest plan`: extrapolates the needs of a cluster from reports, or the load that replicas hold.

pub mod capacity;
pub mod demand;
pub mod estimate;
pub mod limits;
mod replicas;
pub mod source;
mod table;

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail, ensure};

use crate::report::Report;
use crate::saved;
use crate::terminal::print;
use demand::Demand;
use estimate::{Estimate, estimates, remarks};
use limits::Limits;
use source::{Source, of_replicas, sources};

/// The arguments that limits have no meaning for.
const PLANS: [&str; 3] = ["frameworks", "churn", "markdown"];

/// The arguments of `loadtest plan`.
#[derive(clap::Args)]
pub struct Arguments {
    /// Reports of runs of the load test.
    #[arg(required = true)]
    reports: Vec<PathBuf>,
    /// Frameworks at one time.
    #[arg(
        long,
        required_unless_present_any = ["markdown", "memory_limit"],
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    frameworks: Option<u32>,
    /// Tasks of each Framework.
    #[arg(long, required_unless_present = "markdown", value_parser = tasks_of_one())]
    tasks: Option<u32>,
    /// Rate at which Frameworks come and go: `10/s`, `600/min`, `36000/h`.
    #[arg(long, required_unless_present_any = ["markdown", "memory_limit"], value_parser = demand::rate)]
    churn: Option<f64>,
    /// Replicas of the controller that share the work; with --memory-limit, several numbers are allowed.
    #[arg(long, default_value = "1", value_delimiter = ',')]
    replicas: Vec<NonZeroU32>,
    /// Print the largest load that the replicas hold with this memory for each: `2Gi`.
    #[arg(long, conflicts_with_all = PLANS, value_parser = limits::quantity)]
    memory_limit: Option<f64>,
    /// The processors of each replica.
    #[arg(long, default_value = "1", conflicts_with_all = PLANS, value_parser = limits::quantity)]
    processor_limit: f64,
    /// `kubeClientQps`, of all replicas together.
    #[arg(long, default_value = "80", conflicts_with_all = PLANS, value_parser = limits::quantity)]
    qps: f64,
    /// The processors of the API server.
    #[arg(long, default_value = "2", conflicts_with_all = PLANS, value_parser = limits::quantity)]
    api_server_processors: f64,
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

impl Arguments {
    /// The limits, if the load within them is asked for.
    fn limits(&self) -> Option<Limits> {
        Some(Limits {
            memory: self.memory_limit?,
            processors: self.processor_limit,
            qps: self.qps,
            api_server: self.api_server_processors,
        })
    }

    /// The load within the limits, or the generated part of the capacity page if no limits are given.
    fn held(&self, reports: &[Report], found: &[Source]) -> Result<String> {
        let (Some(limits), Some(tasks)) = (self.limits(), self.tasks) else {
            return Ok(capacity::generated(reports));
        };
        ensure!(!found.is_empty(), "no report has a run of {} to plan with", self.system);
        let table = limits::table_of(tasks, &self.replicas, &limits, found);
        Ok(format!("{}\n\n{table}", limits.sentence()))
    }
}

/// 1 to 10,000: the Tasks that a Framework may have.
fn tasks_of_one() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=10_000)
}

/// Prints the plan, or the load within limits.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let reports = arguments.reports.iter().map(|path| saved::read(path)).collect::<Result<Vec<Report>>>()?;
    let found = sources(&reports, &arguments.system, arguments.profile.as_deref());
    let (Some(frameworks), Some(tasks), Some(churn)) =
        (arguments.frameworks, arguments.tasks, arguments.churn)
    else {
        print(arguments.held(&reports, &found)?)?;
        return Ok(ExitCode::SUCCESS);
    };
    let [replicas] = arguments.replicas[..] else {
        bail!("--replicas: with --frameworks one number is allowed; several need --memory-limit");
    };
    let demand = Demand { frameworks, tasks, churn, replicas };
    let found = of_replicas(&found, replicas.get());
    ensure!(
        !found.is_empty(),
        "no report has a run of {} with {replicas} or 1 replica to plan with",
        arguments.system
    );
    let estimates = estimates(&demand, &found)?;
    print(format_args!("{}\n", demand.sentence()))?;
    for remark in remarks(&demand, &found) {
        print(format_args!("{remark}\n"))?;
    }
    print(format_args!("\n{}\n", columns(&estimates)))?;
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
