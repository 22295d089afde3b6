//! All scenarios in one run: docs/performance.md and docs/capacity.md are made of their reports.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use framework_programs::workspace::{cargo, root};

use super::task::{System, Task};

/// The systems with which a scenario is compared.
#[derive(Clone, Copy)]
enum Peers {
    /// None: other systems do not have the feature.
    None,
    /// Our other profile.
    Profiles,
    /// All but the original, which writes such large statuses uncompressed: etcd refuses them.
    Compressing,
    /// All systems.
    All,
}

/// Requests a second where the budget must not be the limit.
const AMPLE: u32 = 5000;
/// Requests a second where the budget must be the limit: a saturated machine shares nothing fairly.
const SCARCE: u32 = 40;

/// The scenario that kills replicas.
const KILLS: &str = "replica-kills";
/// The scenario that shows what several replicas divide.
const REPLICAS: &str = "replicas";

/// The Pods that kwok patches at the same time: with its default, 4, Pods would wait for it.
const KWOK_WORKERS: u32 = 64;
/// The scenario with kwok's default. Kwok deletes Pods by their names. Many workers send many of these
/// requests after the Pod is gone, and some of them delete the next Pod of that name.
const RESCALES: &str = "rescale-storm";

/// Each scenario: its peers, the factor of its duration, and its requests a second.
const SUITE: [(&str, Peers, f64, u32); 20] = [
    ("burst", Peers::All, 1.0, AMPLE),
    ("burst-small", Peers::All, 1.0, AMPLE),
    ("burst-large", Peers::Compressing, 1.0, AMPLE),
    ("staggered", Peers::Profiles, 1.0, AMPLE),
    ("steady", Peers::Profiles, 1.0, AMPLE),
    ("churn", Peers::Profiles, 1.0, AMPLE),
    (RESCALES, Peers::None, 1.0, AMPLE),
    ("ttl-wave", Peers::None, 1.0, AMPLE),
    ("ttl-wave-5000", Peers::None, 1.0, AMPLE),
    ("deadline-wave", Peers::None, 1.0, AMPLE),
    (REPLICAS, Peers::None, 1.0, AMPLE),
    (KILLS, Peers::None, 1.0, AMPLE),
    ("single-100", Peers::None, 1.0, AMPLE),
    ("single-1000", Peers::None, 1.0, AMPLE),
    ("large-single", Peers::None, 1.0, AMPLE),
    ("small-alone", Peers::None, 1.0, SCARCE),
    ("mixed-sizes", Peers::None, 1.0, SCARCE),
    ("stress-plan", Peers::None, 0.05, AMPLE),
    ("queue-cohorts", Peers::None, 1.0, AMPLE),
    ("queue-50000", Peers::None, 1.0, AMPLE),
];

/// The tasks of the suite.
pub(super) fn tasks(out: &Path, has_reference: bool) -> Vec<Task> {
    let task = |(scenario, peers, shorten, qps): (&str, Peers, f64, u32)| {
        let mut systems = vec![System::Framework];
        if !matches!(peers, Peers::None) {
            systems.push(System::Recommended);
        }
        if let Peers::Compressing | Peers::All = peers {
            systems.extend([System::Floor, System::Job]);
        }
        if let Peers::All = peers {
            systems.extend(has_reference.then_some(System::Reference));
        }
        Task {
            scenario: scenario.to_owned(),
            systems,
            replicas: match scenario {
                REPLICAS => vec![1, 2, 3, 5],
                KILLS => vec![3],
                _ => vec![1],
            },
            shorten,
            qps,
            kwok_workers: (scenario != RESCALES).then_some(KWOK_WORKERS),
            out: out.join(scenario),
        }
    };
    SUITE.map(task).into()
}

/// Keeps the reports without their time series, and writes the documents that are made of them.
pub(super) fn keep(tasks: &[Task], loadtest: &Path) -> Result<()> {
    let kept = root().join("docs/reports");
    std::fs::create_dir_all(&kept).context("creating docs/reports")?;
    for task in tasks {
        let report: PathBuf = task.out.join("report.json");
        let mut trim = Command::new(loadtest);
        trim.arg("trim").arg(&report).arg("--out").arg(kept.join(&task.scenario).with_extension("json"));
        let trimmed = trim.status().context("starting the load test")?;
        ensure!(trimmed.success(), "{} could not be kept", report.display());
    }
    let mut write =
        cargo(&["test", "--package=framework-loadtest", "--test=reports", "made_from_the_reports"]);
    let written = write.env("UPDATE", "1").status().context("starting cargo")?;
    ensure!(written.success(), "the documents could not be written");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::scenarios;
    use super::*;

    #[test]
    fn the_suite_has_every_scenario() {
        let mut names: Vec<&str> = SUITE.iter().map(|(name, ..)| *name).collect();
        names.sort_unstable();
        assert_eq!(names, scenarios().unwrap());
    }

    #[test]
    fn the_original_takes_part_where_its_program_is_given() {
        let systems = |has| tasks(Path::new("/x"), has)[0].systems.clone();
        assert!(!systems(false).contains(&System::Reference));
        assert!(systems(true).contains(&System::Reference));
    }
}
