//! Builds programs of this workspace and of the control plane side by side, with one line of progress.
//!
//! Cargo and Go leave processors idle in turn, above all while they link, so that both together end sooner
//! than one after the other. The builds run in a child of their own, so that they end with this process.

use std::collections::{BTreeSet, HashSet};
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use framework_programs::Program;
use framework_programs::workspace::cargo;
use serde_json::Value;

use crate::leash::{Leashed, end_group};
use crate::progress::Progress;

/// How often the line of progress is drawn.
const EVERY: Duration = Duration::from_millis(500);

/// How many events may wait; a build that has more waits itself.
const WAITING: usize = 64;

/// An order to build programs.
#[derive(Debug)]
pub(crate) struct Order {
    /// Programs of this workspace; one that is not the controller has its package's name.
    pub(crate) programs: Vec<&'static str>,
    /// The profile of cargo.
    pub(crate) profile: &'static str,
    /// The programs of the control plane.
    pub(crate) binaries: Binaries,
}

/// Programs of the control plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Binaries {
    None,
    /// Those that run in a cluster.
    OfACluster,
    /// These and kubectl.
    All,
}

impl Binaries {
    fn programs(self) -> &'static [Program] {
        match self {
            Binaries::None => &[],
            Binaries::OfACluster => &Program::OF_A_CLUSTER,
            Binaries::All => &Program::ALL,
        }
    }

    fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

/// The order, as arguments of the child.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[arg(long)]
    program: Vec<String>,
    #[arg(long)]
    profile: String,
    #[arg(long, value_enum)]
    binaries: Binaries,
}

/// Builds an order, and returns the paths of the programs of this workspace.
pub(crate) fn beside_one_another(order: &Order) -> Result<Vec<PathBuf>> {
    let binaries = order.binaries.name();
    let mut arguments = vec!["build", "--profile", order.profile, "--binaries", &binaries];
    arguments.extend(order.programs.iter().flat_map(|program| ["--program", program]));
    let mut build = Leashed::start(arguments, Stdio::piped())?;
    let mut paths = String::new();
    let mut output = build.child.stdout.take().context("the output is piped")?;
    output.read_to_string(&mut paths).context("reading the paths of the programs")?;
    ensure!(build.wait()?.success(), "building failed");
    Ok(paths.lines().map(PathBuf::from).collect())
}

/// The child: builds, and prints the paths.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    match build(arguments) {
        Ok(paths) => {
            paths.iter().for_each(|path| println!("{path}"));
            Ok(())
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            // The other build need not go on.
            end_group();
            Err(error)
        }
    }
}

/// A report of a build.
enum Event {
    /// Go is at this.
    Go(String),
    /// The number of packages that cargo builds.
    Packages(usize),
    /// Cargo has built a package.
    Package(String),
    GoEnded(Result<()>),
    CargoEnded(Result<Vec<String>>),
}

fn build(arguments: &Arguments) -> Result<Vec<String>> {
    let wanted = arguments.binaries.programs();
    let mut progress = Progress::start(wanted, &arguments.profile, &arguments.program);
    let (sender, events) = sync_channel(WAITING);
    let go = sender.clone();
    std::thread::spawn(move || {
        // An error means that the receiver is gone.
        let report = |line: &str| drop(go.send(Event::Go(line.to_owned())));
        let built = if wanted.is_empty() {
            Ok(())
        } else {
            framework_programs::Binaries::with(wanted, &report).map(drop).map_err(Into::into)
        };
        drop(go.send(Event::GoEnded(built)));
    });
    let (programs, profile) = (arguments.program.clone(), arguments.profile.clone());
    std::thread::spawn(move || {
        let built = compile(&programs, &profile, &sender);
        drop(sender.send(Event::CargoEnded(built)));
    });
    let (mut go_ended, mut paths) = (false, None);
    while !go_ended || paths.is_none() {
        match events.recv_timeout(EVERY) {
            Ok(Event::Go(line)) => progress.go = line,
            Ok(Event::Packages(count)) => progress.packages = count,
            Ok(Event::Package(name)) => progress.compiled(name),
            Ok(Event::GoEnded(built)) => {
                built?;
                (go_ended, progress.go) = (true, String::new());
            }
            Ok(Event::CargoEnded(built)) => {
                paths = Some(built?);
                progress.cargo_ended = true;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        progress.show();
    }
    progress.end();
    paths.context("a build ended without a result")
}

/// Runs cargo, and returns the paths of the programs.
fn compile(programs: &[String], profile: &str, events: &SyncSender<Event>) -> Result<Vec<String>> {
    let packages: Vec<String> = programs.iter().map(|program| format!("--package={program}")).collect();
    let mut tree = cargo(&["tree", "--quiet", "--edges=normal,build", "--prefix=none", "--format={p}"]);
    let tree = tree.args(&packages).stderr(Stdio::null()).output().context("starting cargo")?;
    drop(events.send(Event::Packages(count(&String::from_utf8_lossy(&tree.stdout)))));
    let mut build = cargo(&["build", "--quiet", "--message-format=json-render-diagnostics"]);
    build.arg(format!("--profile={profile}")).args(&packages);
    build.args(programs.iter().map(|program| format!("--bin={program}")));
    let mut child = build.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context("starting cargo")?;
    // A package that build scripts use, too, is built once more for them.
    let (mut paths, mut built) = (Vec::new(), HashSet::new());
    for line in BufReader::new(child.stdout.take().context("the output is piped")?).lines() {
        let Some(artifact) = artifact(&line.context("reading the messages of cargo")?) else { continue };
        paths.extend(artifact.executable);
        if !artifact.fresh && built.insert(artifact.package) {
            drop(events.send(Event::Package(artifact.name)));
        }
    }
    let status = child.wait().context("waiting for cargo")?;
    ensure!(status.success(), "cargo build failed ({status})");
    Ok(paths)
}

/// The number of packages in the output of `cargo tree`: it marks those that it lists again with `(*)`.
fn count(tree: &str) -> usize {
    let lines = tree.lines().filter(|line| !line.is_empty() && !line.ends_with("(*)"));
    lines.collect::<BTreeSet<_>>().len()
}

/// Something that cargo has built.
#[derive(Debug, PartialEq)]
struct Artifact {
    /// Cargo's identifier of the package.
    package: String,
    name: String,
    /// Whether it was there already.
    fresh: bool,
    executable: Option<String>,
}

fn artifact(message: &str) -> Option<Artifact> {
    let message: Value = serde_json::from_str(message).ok()?;
    let target = &message["target"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let is_script = target["kind"].as_array()?.iter().any(|kind| kind == "custom-build");
    (message["reason"] == "compiler-artifact" && !is_script).then(|| Artifact {
        package: text(&message["package_id"]),
        name: text(&target["name"]),
        fresh: message["fresh"] == true,
        executable: message["executable"].as_str().map(str::to_owned),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_names_its_programs_and_packages() {
        let message = |kind: &str, executable: &str| {
            let target = format!(r#""package_id":"x 1","target":{{"kind":["{kind}"],"name":"x"}}"#);
            format!(r#"{{"reason":"compiler-artifact",{target},"fresh":true,"executable":{executable}}}"#)
        };
        let program = artifact(&message("bin", "\"/target/x\"")).unwrap();
        let (package, name) = ("x 1".into(), "x".into());
        assert_eq!(program, Artifact { package, name, fresh: true, executable: Some("/target/x".into()) });
        assert_eq!(artifact(&message("lib", "null")).unwrap().executable, None);
        assert_eq!(artifact(&message("custom-build", "\"/target/build\"")), None);
        assert_eq!(artifact(r#"{"reason":"build-finished","success":true}"#), None);
    }

    #[test]
    fn a_package_that_cargo_tree_lists_again_counts_once() {
        assert_eq!(count("a v1\nb v2\nc v1\nb v2 (*)\n\na v1\n"), 3);
    }
}
