//! `cargo xtask soak upgrade`: takes a cluster with live Frameworks from an earlier version to this one, and
//! back. No Pod that runs may be replaced, and each Framework has to go on.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use framework_programs::workspace::{cargo, root};

use crate::delegate::{self, Delegate};

/// Takes a cluster from an earlier version to this one, and back.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The commit of the earlier version.
    #[arg(long, value_name = "COMMIT")]
    from: String,
    /// How many Frameworks there are at each exchange of controllers.
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u32).range(10..))]
    frameworks: u32,
}

/// Builds the earlier version, and becomes the program that exchanges both: returns only an error.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let source = source(&arguments.from)?;
    let program = build(&source)?;
    let words = ["--take-over".to_owned(), "--earlier".to_owned()];
    let reference =
        [format!("--reference={}", program.display()), format!("--checkout={}", source.display())];
    let frameworks = format!("--frameworks={}", arguments.frameworks);
    let all = words.into_iter().chain(reference).chain([frameworks]).map(Into::into);
    Delegate::Differential.run(&delegate::Arguments::of(all.collect()))
}

/// The directory of everything that is built for this.
fn home() -> PathBuf {
    root().join("target/upgrade")
}

/// Puts the files of a commit into a directory of its own.
fn source(commit: &str) -> Result<PathBuf> {
    let git = |arguments: &[&str]| {
        let mut git = Command::new("git");
        git.args(arguments).current_dir(root());
        git
    };
    let parsed =
        git(&["rev-parse", "--verify", &format!("{commit}^{{commit}}")]).output().context("starting git")?;
    ensure!(parsed.status.success(), "{commit} is no commit: {}", String::from_utf8_lossy(&parsed.stderr));
    let hash = String::from_utf8(parsed.stdout)?.trim().to_owned();
    let source = home().join(&hash);
    std::fs::create_dir_all(&source).with_context(|| format!("creating {}", source.display()))?;
    let mut archive = git(&["archive", &hash]).stdout(Stdio::piped()).spawn().context("starting git")?;
    let files = archive.stdout.take().context("git has an output")?;
    let unpacked =
        Command::new("tar").arg("-x").arg("-C").arg(&source).stdin(files).status().context("starting tar")?;
    ensure!(archive.wait()?.success() && unpacked.success(), "the files of {hash} were not unpacked");
    Ok(source)
}

/// Builds the controller of a source, and returns its program.
fn build(source: &std::path::Path) -> Result<PathBuf> {
    let target = home().join("build");
    let mut build = cargo(&["build", "--package=frameworkcontroller", "--bin=frameworkcontroller"]);
    build.current_dir(source).env("CARGO_TARGET_DIR", &target);
    ensure!(build.status().context("starting cargo")?.success(), "{} is not built", source.display());
    Ok(target.join("debug/frameworkcontroller"))
}
