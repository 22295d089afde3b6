//! Writes reports as files, and merges several reports into one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};

use crate::page::page;
use crate::report::Report;
use crate::saved;

/// The arguments of `loadtest merge`.
#[derive(clap::Args)]
pub struct Arguments {
    /// The report.json of each run of the same scenario. Ratios are to the first.
    #[arg(required = true, num_args = 2.., value_name = "REPORT")]
    reports: Vec<PathBuf>,
    /// Where report.json and report.html are written.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

/// Puts the runs of several reports side by side.
pub fn merge(arguments: &Arguments) -> Result<ExitCode> {
    let mut reports = Vec::new();
    for path in &arguments.reports {
        reports.push(saved::read(path)?);
    }
    write(&merged(reports)?, &arguments.out)?;
    Ok(ExitCode::SUCCESS)
}

fn merged(reports: Vec<Report>) -> Result<Report> {
    let mut reports = reports.into_iter();
    let Some(mut first) = reports.next() else { bail!("there is no report") };
    for other in reports {
        let (ours, theirs) = (&first.scenario, &other.scenario);
        ensure!(ours == theirs, "the reports are of different scenarios: {} and {}", ours.name, theirs.name);
        first.runs.extend(other.runs);
        let versions: BTreeMap<_, _> = other.versions;
        versions.into_iter().for_each(|(name, version)| {
            first.versions.entry(name).or_insert(version);
        });
    }
    Ok(first)
}

/// Writes `report.json` and `report.html`.
pub fn write(report: &Report, out: &Path) -> Result<()> {
    std::fs::create_dir_all(out).with_context(|| format!("creating {}", out.display()))?;
    for (name, text) in [("report.json", saved::text(report)?), ("report.html", page(report))] {
        let path = out.join(name);
        std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
    }
    eprintln!("the report is {}", out.join("report.html").display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::SCHEMA;
    use crate::scenario::Scenario;

    fn report(tasks: usize, versions: &[(&str, &str)]) -> Report {
        let text = format!(
            "description: d\ngroups: [{{name: a, jobs: 1, taskRoles: [{{name: w, taskNumber: {tasks}}}]}}]"
        );
        Report {
            schema: SCHEMA.into(),
            scenario: Scenario::parse(&text).unwrap(),
            machine: crate::machine::this(true),
            versions: versions.iter().map(|(name, version)| ((*name).into(), (*version).into())).collect(),
            write_efficiency: Some(1.0),
            runs: Vec::new(),
        }
    }

    #[test]
    fn reports_of_the_same_work_become_one_and_others_are_refused() {
        let both = merged(vec![report(1, &[("a", "1")]), report(1, &[("a", "2"), ("b", "3")])]).unwrap();
        assert_eq!(
            both.versions,
            [("a".to_owned(), "1".to_owned()), ("b".to_owned(), "3".to_owned())].into()
        );
        let error = merged(vec![report(1, &[]), report(2, &[])]).unwrap_err().to_string();
        assert!(error.contains("different scenarios"), "{error}");
    }
}
