//! Writes reports as files, and merges several reports into one.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};

use crate::page::page;
use crate::report::Report;
use crate::saved;
use crate::terminal::note;

/// The files of a report.
const FILES: [&str; 2] = ["report.json", "report.html"];

/// The arguments of `loadtest merge`.
#[derive(clap::Args)]
pub struct Arguments {
    /// The report.json of each run of the same scenario, on the same machine and with the same versions.
    /// Ratios are to the first.
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
        let (ours, theirs) = (&first.machine, &other.machine);
        ensure!(ours == theirs, "the reports are of different machines: {ours:?} and {theirs:?}");
        for (name, theirs) in other.versions {
            let ours = first.versions.entry(name.clone()).or_insert_with(|| theirs.clone());
            ensure!(*ours == theirs, "the reports are of different versions of {name}: {ours} and {theirs}");
        }
        first.runs.extend(other.runs);
    }
    Ok(first)
}

/// An error if a report cannot be written there: better before a run than after it. A report that is there
/// stays as it is.
pub fn check(out: &Path) -> Result<()> {
    make(out)?;
    for name in FILES {
        let path = out.join(name);
        let is_new = !path.exists();
        let opened = File::options().append(true).create(true).open(&path);
        opened.with_context(|| format!("--out: writing {}", path.display()))?;
        if is_new {
            fs::remove_file(&path).with_context(|| format!("--out: removing {}", path.display()))?;
        }
    }
    Ok(())
}

fn make(out: &Path) -> Result<()> {
    fs::create_dir_all(out).with_context(|| format!("--out: creating {}", out.display()))
}

/// Writes `report.json` and `report.html`.
pub fn write(report: &Report, out: &Path) -> Result<()> {
    make(out)?;
    for (name, text) in FILES.into_iter().zip([saved::text(report)?, page(report)]) {
        let path = out.join(name);
        fs::write(&path, text).with_context(|| format!("--out: writing {}", path.display()))?;
    }
    note(format_args!("the report is {}", out.join("report.html").display()));
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
    fn a_directory_that_takes_no_report_is_refused_and_others_stay() {
        let dir = tempfile::tempdir().unwrap();
        let (file, out) = (dir.path().join("file"), dir.path().join("a/b"));
        fs::write(&file, "x").unwrap();
        let why = |out: &Path| format!("{:#}", check(out).unwrap_err());
        assert!(why(&file).starts_with(&format!("--out: creating {}: ", file.display())), "{}", why(&file));
        check(&out).unwrap();
        assert_eq!(fs::read_dir(&out).unwrap().count(), 0, "no report that a reader takes for a run's");
        fs::write(out.join(FILES[0]), "old").unwrap();
        check(&out).unwrap();
        assert_eq!(fs::read_to_string(out.join(FILES[0])).unwrap(), "old");
        fs::create_dir(out.join(FILES[1])).unwrap();
        let expected = format!("--out: writing {}: ", out.join(FILES[1]).display());
        assert!(why(&out).starts_with(&expected), "{}", why(&out));
    }

    #[test]
    fn reports_of_the_same_work_become_one_and_others_are_refused() {
        let both = merged(vec![report(1, &[("a", "1")]), report(1, &[("a", "1"), ("b", "3")])]).unwrap();
        assert_eq!(
            both.versions,
            [("a".to_owned(), "1".to_owned()), ("b".to_owned(), "3".to_owned())].into()
        );
        let error = merged(vec![report(1, &[]), report(2, &[])]).unwrap_err().to_string();
        assert!(error.contains("different scenarios"), "{error}");
        let error = merged(vec![report(1, &[("a", "1")]), report(1, &[("a", "2")])]).unwrap_err();
        assert_eq!(error.to_string(), "the reports are of different versions of a: 1 and 2");
        let mut elsewhere = report(1, &[]);
        elsewhere.machine.processors += 1;
        let error = merged(vec![report(1, &[]), elsewhere]).unwrap_err().to_string();
        assert!(error.starts_with("the reports are of different machines: Machine { "), "{error}");
    }
}
