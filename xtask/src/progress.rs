//! The line of progress of a build: the current steps, the time so far, and the estimated time in all.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use framework_programs::workspace::target_dir;
use framework_programs::{Binaries, Program};
use rustix::termios::tcgetwinsize;

use crate::took::Took;

/// The processors of the machine on which the durations were measured.
const MEASURED_ON: u64 = 2;
/// Seconds to compile the programs of this workspace from nothing.
const COMPILE: u64 = 190;
/// How often a line is printed where there is no terminal.
const PRINTED_EVERY: Duration = Duration::from_secs(30);

/// Seconds to build a program of the control plane, after those before it in [`Program::ALL`].
fn seconds(program: Program) -> u64 {
    match program {
        Program::Etcd => 40,
        Program::KubeApiserver => 200,
        Program::KubeControllerManager => 100,
        Program::KubeScheduler => 12,
        Program::Kubectl => 35,
        Program::Kwok => 45,
        Program::Promtool | Program::Prometheus | Program::Helm => 120,
    }
}

/// A build that is under way.
pub(crate) struct Progress {
    began: Instant,
    /// How long it takes, if programs are missing.
    estimate: Option<Duration>,
    /// The last report of the Go builds; empty if there is none.
    pub(crate) go: String,
    /// The number of packages that cargo builds, those that are fresh among them.
    pub(crate) packages: usize,
    compiled: usize,
    package: String,
    pub(crate) cargo_ended: bool,
    on_terminal: bool,
    printed: Option<(Instant, String)>,
}

impl Progress {
    /// Starts the clock, and estimates how long the missing programs take.
    pub(crate) fn start(wanted: &[Program], profile: &str, programs: &[String]) -> Progress {
        let missing: u64 = Binaries::missing_in_the_cache(wanted).into_iter().map(seconds).sum();
        let dir = target_dir().join(if profile == "dev" { "debug" } else { profile });
        let compiled = programs.iter().all(|program| dir.join(program).exists());
        let total = missing + if compiled { 0 } else { COMPILE };
        let processors = std::thread::available_parallelism().map_or(MEASURED_ON, |count| count.get() as u64);
        let estimate = (total > 0).then(|| Duration::from_secs(total * MEASURED_ON / processors));
        Progress {
            began: Instant::now(),
            estimate,
            go: String::new(),
            packages: 0,
            compiled: 0,
            package: String::new(),
            cargo_ended: false,
            on_terminal: std::io::stderr().is_terminal(),
            printed: None,
        }
    }

    /// Cargo has compiled a package.
    pub(crate) fn compiled(&mut self, package: String) {
        self.compiled += 1;
        self.package = package;
    }

    /// Draws the line over the one before; prints it now and then where there is no terminal.
    pub(crate) fn show(&mut self) {
        // A build with nothing to do is over at once.
        let has_begun = self.estimate.is_some() || self.compiled > 0 || !self.go.is_empty();
        let has_ended = self.cargo_ended && self.go.is_empty();
        if !has_begun || has_ended {
            return;
        }
        let line = self.line();
        if self.on_terminal {
            let width = tcgetwinsize(std::io::stderr()).map_or(80, |size| usize::from(size.ws_col));
            let line: String = line.chars().take(width.saturating_sub(1)).collect();
            self.write(&format!("\r\x1b[2K{line}"));
        } else if self.printed.as_ref().is_none_or(|(at, go)| at.elapsed() > PRINTED_EVERY || *go != self.go)
        {
            self.write(&format!("{line}\n"));
            self.printed = Some((Instant::now(), self.go.clone()));
        }
    }

    /// Clears the line.
    pub(crate) fn end(&self) {
        if self.on_terminal {
            self.write("\r\x1b[2K");
        }
        if self.estimate.is_some() || self.compiled > 0 {
            self.write(&format!("built everything in {}\n", Took(self.began.elapsed())));
        }
    }

    fn line(&self) -> String {
        let mut parts = Vec::new();
        if !self.go.is_empty() {
            parts.push(self.go.trim_end_matches(" ...").to_owned());
        }
        if !self.cargo_ended {
            parts.push(match &*self.package {
                "" => "compiling packages".to_owned(),
                name => format!("compiling {name} ({} of up to {})", self.compiled, self.packages),
            });
        }
        let spent = Took(Duration::from_secs(self.began.elapsed().as_secs()));
        let estimate = self.estimate.map_or_else(String::new, |estimate| {
            format!(" of about {} min", estimate.as_secs().div_ceil(60))
        });
        format!("{spent}{estimate}: {}", parts.join("; "))
    }

    fn write(&self, text: &str) {
        // A closed stderr is no reason to stop.
        let _ = std::io::stderr().write_all(text.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_what_is_built_and_how_long_it_takes() {
        let mut progress = Progress::start(&[], "no such profile", &["demo".into()]);
        progress.estimate = Some(Duration::from_secs(410));
        progress.go = "building etcd ...".into();
        assert_eq!(progress.line(), "0.0 s of about 7 min: building etcd; compiling packages");
        progress.packages = 290;
        progress.compiled("kube".into());
        assert_eq!(progress.line(), "0.0 s of about 7 min: building etcd; compiling kube (1 of up to 290)");
        progress.cargo_ended = true;
        progress.go = "building kwok ...".into();
        assert_eq!(progress.line(), "0.0 s of about 7 min: building kwok");
    }
}
