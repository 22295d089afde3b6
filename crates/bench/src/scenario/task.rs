//! One scenario to run, with its systems and settings.

use std::path::PathBuf;

use anyhow::{Result, bail};

/// A system that runs a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum System {
    /// This project's controller with the original's defaults, apart from its request budget.
    Framework,
    /// The same with the settings for large clusters: statuses are compressed from 4 KiB on.
    Recommended,
    /// The original, as `--reference` names it.
    Reference,
    /// Kubernetes' controller of batch/v1 Jobs.
    Job,
    /// The fewest requests that a Framework takes, sent by the load test itself.
    Floor,
}

/// One scenario with its settings.
pub(super) struct Task {
    pub(super) scenario: String,
    pub(super) systems: Vec<System>,
    /// The numbers of replicas that our controller runs it with.
    pub(super) replicas: Vec<u8>,
    pub(super) shorten: f64,
    /// The requests that a controller of Frameworks may send in a second, all its replicas together.
    pub(super) qps: u32,
    /// The Pods that kwok patches at the same time; `None`: its default.
    pub(super) kwok_workers: Option<u32>,
    pub(super) out: PathBuf,
}

impl Task {
    /// An error if a system or a number of replicas is named twice: the second run would overwrite the report
    /// of the first.
    pub(super) fn check(&self) -> Result<()> {
        if let Some(system) = named_twice(&self.systems) {
            let system = format!("{system:?}").to_lowercase();
            bail!("--as: {system} is named twice, and each system may be named once");
        }
        if let Some(number) = named_twice(&self.replicas) {
            bail!("--replicas: {number} is named twice, and each number may be named once");
        }
        Ok(())
    }

    /// Each system with each number of replicas that it can have.
    pub(super) fn variants(&self) -> Vec<(System, u8)> {
        let of = |system: &System| match system {
            System::Framework | System::Recommended => self.replicas.iter().map(|n| (*system, *n)).collect(),
            System::Reference | System::Job | System::Floor => vec![(*system, 1)],
        };
        self.systems.iter().flat_map(of).collect()
    }
}

fn named_twice<T: PartialEq>(all: &[T]) -> Option<&T> {
    all.iter().enumerate().find_map(|(at, one)| all[..at].contains(one).then_some(one))
}
