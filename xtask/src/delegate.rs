//! Commands that other programs of the workspace carry out: builds the program, and becomes it.
//!
//! Those programs link clients of Kubernetes and more. This one does not, so that it is compiled in seconds
//! and builds the program beside those of the control plane.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::build::{self, Binaries, Order};

/// The program of the controller.
const CONTROLLER: &str = "frameworkcontroller";
/// The option that names a controller, so that none is built.
const OPTION: &str = "--controller";

/// The arguments of the other program.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Options of the command: `--help` behind its name lists them.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    arguments: Vec<OsString>,
}

impl Arguments {
    /// These arguments.
    pub(crate) fn of(arguments: Vec<OsString>) -> Arguments {
        Arguments { arguments }
    }

    fn has(&self, argument: &str) -> bool {
        self.arguments.iter().any(|one| one == argument)
    }

    fn name_a_controller(&self) -> bool {
        let with_value = format!("{OPTION}=");
        self.has(OPTION)
            || self.arguments.iter().any(|one| one.as_encoded_bytes().starts_with(with_value.as_bytes()))
    }

    fn ask_for_help(&self) -> bool {
        ["--help", "-h", "help"].iter().any(|help| self.has(help))
    }
}

/// A command that another program carries out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delegate {
    Barrier,
    Bench,
    Cluster,
    Demo,
    Differential,
}

impl Delegate {
    /// Its program, which is also the name of its package.
    fn program(self) -> &'static str {
        match self {
            Delegate::Barrier | Delegate::Bench => "framework-bench",
            Delegate::Cluster | Delegate::Demo => "framework-demo",
            Delegate::Differential => "framework-differential",
        }
    }

    /// The first argument, for a program with several commands.
    fn subcommand(self) -> Option<&'static str> {
        match self {
            Delegate::Barrier => Some("barrier"),
            Delegate::Bench => Some("bench"),
            Delegate::Cluster => Some("cluster"),
            Delegate::Demo => Some("demo"),
            Delegate::Differential => None,
        }
    }

    fn needs_a_controller(self, arguments: &Arguments) -> bool {
        matches!(self, Delegate::Demo | Delegate::Differential)
            && !arguments.name_a_controller()
            && !arguments.ask_for_help()
    }

    /// The programs to build before it starts.
    fn order(self, arguments: &Arguments) -> Order {
        let mut programs = vec![self.program()];
        programs.extend(self.needs_a_controller(arguments).then_some(CONTROLLER));
        let profile = match self {
            // A fast build matters more here than a fast program.
            Delegate::Cluster | Delegate::Demo => "quick",
            _ => "dev",
        };
        let binaries = match self {
            _ if arguments.ask_for_help() => Binaries::None,
            // People use kubectl with a cluster that stays.
            Delegate::Cluster if arguments.has("up") => Binaries::All,
            Delegate::Demo if arguments.has("--keep") => Binaries::All,
            Delegate::Demo | Delegate::Differential => Binaries::OfACluster,
            // They check their arguments before they start a cluster.
            Delegate::Barrier | Delegate::Bench | Delegate::Cluster => Binaries::None,
        };
        Order { programs, profile, binaries }
    }

    /// Builds its program and becomes it: returns only an error.
    pub(crate) fn run(self, arguments: &Arguments) -> Result<()> {
        let order = self.order(arguments);
        // The directory of programs that are built already: tests have some that only print their arguments.
        let built = match std::env::var_os("FRAMEWORK_PROGRAMS") {
            Some(dir) => order.programs.iter().map(|program| PathBuf::from(&dir).join(program)).collect(),
            None => build::beside_one_another(&order)?,
        };
        let find = |name: &str| {
            let found = built.iter().find(|path| path.file_name() == Some(OsStr::new(name)));
            found.with_context(|| format!("cargo did not name the program {name} that it built"))
        };
        let program = find(self.program())?;
        let mut command = Command::new(program);
        command.args(self.subcommand());
        if self.needs_a_controller(arguments) {
            command.arg(OPTION).arg(find(CONTROLLER)?);
        }
        let error = command.args(&arguments.arguments).exec();
        Err(error).with_context(|| format!("starting {}", program.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(delegate: Delegate, arguments: &[&str]) -> Order {
        delegate.order(&Arguments { arguments: arguments.iter().map(OsString::from).collect() })
    }

    #[test]
    fn a_controller_is_built_unless_one_is_named() {
        assert_eq!(order(Delegate::Demo, &[]).programs, ["framework-demo", CONTROLLER]);
        for named in [&["--controller", "x"][..], &["--controller=x"], &["--help"]] {
            assert_eq!(order(Delegate::Demo, named).programs, ["framework-demo"]);
        }
        assert_eq!(order(Delegate::Cluster, &["up"]).programs, ["framework-demo"]);
    }

    #[test]
    fn kubectl_is_built_only_for_a_cluster_that_stays() {
        assert_eq!(order(Delegate::Demo, &[]).binaries, Binaries::OfACluster);
        assert_eq!(order(Delegate::Demo, &["--keep"]).binaries, Binaries::All);
        assert_eq!(order(Delegate::Cluster, &["up"]).binaries, Binaries::All);
        assert_eq!(order(Delegate::Cluster, &["down"]).binaries, Binaries::None);
        assert_eq!(order(Delegate::Demo, &["--keep", "--help"]).binaries, Binaries::None);
    }
}
