//! The controller as users run it: a process with arguments, an environment, a log and an exit code.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::ffi::OsStr;
use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

const LIMIT: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(20);

/// A running controller. It ends with this value.
pub struct Program {
    child: Child,
    dir: TempDir,
}

impl Program {
    /// Starts it with a kubeconfig and a config file of this text.
    pub fn start(kubeconfig: &Path, config: &str) -> Program {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::write(dir.path().join("frameworkcontroller.yaml"), config).expect("a config file");
        Program::start_in(dir, &[], &[("KUBECONFIG", kubeconfig.as_os_str())])
    }

    /// Starts it in a directory, with these arguments and this environment and no other.
    pub fn start_in(dir: TempDir, arguments: &[&str], environment: &[(&str, &OsStr)]) -> Program {
        let log = File::create(dir.path().join("log")).expect("a log");
        let child = Command::new(env!("CARGO_BIN_EXE_frameworkcontroller"))
            .arg("--metrics-address=127.0.0.1:0")
            .args(arguments)
            .current_dir(dir.path())
            .env_clear()
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("the program starts");
        Program { child, dir }
    }

    /// What it has logged.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).expect("the log is there")
    }

    /// Waits for a line of the log that holds `words`, and gives it.
    pub fn says(&mut self, words: &str) -> String {
        let deadline = Instant::now() + LIMIT;
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
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::TERM).expect("it still runs");
    }

    /// Waits for its end: the exit code and the log.
    pub fn end(mut self) -> (Option<i32>, String) {
        let deadline = Instant::now() + LIMIT;
        loop {
            if let Some(status) = self.child.try_wait().expect("its state is known") {
                return (status.code(), self.log());
            }
            assert!(Instant::now() < deadline, "it does not end\n{}", self.log());
            std::thread::sleep(PAUSE);
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
