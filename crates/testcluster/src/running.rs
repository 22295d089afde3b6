//! A program under test as users run it: a process with arguments, an environment, a log and an exit code.

use std::ffi::OsStr;
use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// How long a test waits for a line of the log, or for the end.
const PATIENCE: Duration = Duration::from_secs(120);
/// The time between two checks.
const PAUSE: Duration = Duration::from_millis(20);

/// A running program. It ends with this value.
///
/// # Panics
/// For tests: every method panics with the program's log if the awaited line or end does not come.
pub struct Running {
    child: Child,
    dir: TempDir,
}

impl Running {
    /// Starts a program in a directory, with exactly these arguments and this environment.
    pub fn start(
        program: &Path,
        dir: TempDir,
        arguments: &[&str],
        environment: &[(&str, &OsStr)],
    ) -> Running {
        let log = File::create(dir.path().join("log")).expect("a log");
        let child = Command::new(program)
            .args(arguments)
            .current_dir(dir.path())
            .env_clear()
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap_or_else(|error| panic!("{} does not start: {error}", program.display()));
        Running { child, dir }
    }

    /// Its working directory.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its log so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).expect("the log is there")
    }

    /// Waits for a line of the log that contains `words`, and returns it.
    pub fn says(&mut self, words: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let log = self.log();
            if let Some(line) = log.lines().find(|line| line.contains(words)) {
                return line.to_owned();
            }
            let ended = self.child.try_wait().expect("its state is known");
            assert!(ended.is_none() && Instant::now() < deadline, "{words:?} is not in the log\n{log}");
            std::thread::sleep(PAUSE);
        }
    }

    /// Asks it to stop.
    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it still runs");
    }

    /// Waits for its end: the exit code and the log.
    pub fn end(&mut self) -> (Option<i32>, String) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().expect("its state is known") {
                return (status.code(), self.log());
            }
            assert!(Instant::now() < deadline, "it does not end\n{}", self.log());
            std::thread::sleep(PAUSE);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
