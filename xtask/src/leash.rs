//! A child of this program that cannot outlive it: it ends when its standard input is closed.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};

use anyhow::{Context, Result};
use rustix::process::{Signal, getpid, kill_process_group};

/// This program as a child with other arguments. It ends with this value, or with this process.
pub(crate) struct Leashed {
    pub(crate) child: Child,
    leash: Option<ChildStdin>,
}

impl Leashed {
    /// Starts it; it must call [`end_with_input`] first.
    pub(crate) fn start(arguments: &[&str], stdout: Stdio) -> Result<Leashed> {
        let mut child = Command::new(std::env::current_exe().context("finding this program")?)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(stdout)
            // A group of its own, so that it can end its own children and no other process.
            .process_group(0)
            .spawn()
            .context("starting a build")?;
        let leash = child.stdin.take();
        Ok(Leashed { child, leash })
    }

    /// Waits for its end.
    pub(crate) fn wait(&mut self) -> Result<ExitStatus> {
        self.child.wait().context("waiting for a build")
    }
}

impl Drop for Leashed {
    fn drop(&mut self) {
        drop(self.leash.take());
        // An error here would mean that it is gone already.
        let _ = self.child.wait();
    }
}

/// Ends this process and its whole group once the standard input is closed.
pub(crate) fn end_with_input() {
    std::thread::spawn(|| {
        // An error is an end as well.
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        end_group();
    });
}

/// Ends this process and all that it has started.
pub(crate) fn end_group() {
    // An interrupt, because `go build` cleans up after it.
    let _ = kill_process_group(getpid(), Signal::INT);
    // A script ignores interrupts in the programs that it starts in the background.
    let _ = kill_process_group(getpid(), Signal::TERM);
}
