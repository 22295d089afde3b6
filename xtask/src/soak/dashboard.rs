//! `cargo xtask soak prometheus --draw`: Grafana's components, as the script that draws the dashboard.

use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use framework_programs::workspace::{root, target_dir};

use super::run::Run;

/// The sources of the script, below the root.
const SOURCES: &str = "tests/prometheus/grafana";
const FILES: [&str; 2] = ["package.json", "draw.jsx"];

/// The directory of the script and of its pictures.
pub(super) fn directory() -> PathBuf {
    target_dir().join("dashboard")
}

/// Installs the imports of the script by npm, and puts all into one file.
pub(super) fn build() -> Result<()> {
    let directory = directory();
    fs::create_dir_all(&directory).with_context(|| format!("making {}", directory.display()))?;
    for name in FILES {
        let from = root().join(SOURCES).join(name);
        fs::copy(&from, directory.join(name)).with_context(|| format!("copying {}", from.display()))?;
    }
    // No package runs a script of its own.
    start(
        OsStr::new("npm"),
        &["install", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"],
    )?;
    let bundle = ["draw.jsx", "--bundle", "--jsx=automatic", "--outfile=draw.js", "--log-level=warning"];
    let kinds = ["--loader:.ttf=dataurl", "--define:process.env.NODE_ENV=\"production\""];
    start(directory.join("node_modules/.bin/esbuild").as_os_str(), &[&bundle[..], &kinds[..]].concat())
}

/// The test, which draws by that script.
pub(super) fn test() -> Run {
    let directory = directory().display().to_string();
    Run { programs: &["prometheus"], environment: vec![("FRAMEWORK_DASHBOARD", directory)], ..Run::default() }
}

fn start(program: &OsStr, arguments: &[&str]) -> Result<()> {
    let status = Command::new(program).args(arguments).current_dir(directory()).status();
    let status = status.with_context(|| format!("starting {}", program.display()))?;
    ensure!(status.success(), "{} {} failed", program.display(), arguments.join(" "));
    Ok(())
}
