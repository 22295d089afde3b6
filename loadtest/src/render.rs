//! `loadtest render` makes a page of a report, `loadtest trim` makes a report small enough to be kept.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::page::page;
use crate::saved;
use crate::terminal::print;

/// The arguments of `loadtest render` and `loadtest trim`.
#[derive(clap::Args)]
pub struct Arguments {
    /// The report.json to read.
    report: PathBuf,
    /// The file to write; by default standard output.
    #[arg(long)]
    out: Option<PathBuf>,
}

/// Writes the page.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    write(arguments.out.as_deref(), &page(&saved::read(&arguments.report)?))
}

/// Writes the report without its course over time.
pub fn trim(arguments: &Arguments) -> Result<ExitCode> {
    write(arguments.out.as_deref(), &saved::text(&saved::trimmed(saved::read(&arguments.report)?))?)
}

fn write(out: Option<&Path>, text: &str) -> Result<ExitCode> {
    match out {
        Some(path) => std::fs::write(path, text).with_context(|| format!("writing {}", path.display()))?,
        None => print(text)?,
    }
    Ok(ExitCode::SUCCESS)
}
