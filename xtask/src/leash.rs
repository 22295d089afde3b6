//! A child of this program that cannot outlive it: it ends when its standard input is closed.
//!
//! Its group is another one than that of the terminal. So Ctrl-Z does not stop it, and Ctrl-C ends it by the
//! end of this process.

use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdin, Command, ExitCode, ExitStatus, Stdio};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, getpid, kill_process_group, waitid};

/// This program as a child with other arguments. It ends with this value, or with this process.
pub(crate) struct Leashed {
    pub(crate) child: Child,
    leash: Option<ChildStdin>,
}

impl Leashed {
    /// Starts it.
    pub(crate) fn start(
        arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
        stdout: Stdio,
    ) -> Result<Leashed> {
        let mut child = Command::new(std::env::current_exe().context("finding this program")?)
            .arg("--leashed")
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(stdout)
            // A group of its own, so that it can end its own children and no other process.
            .process_group(0)
            .spawn()
            .context("starting this program again")?;
        let leash = child.stdin.take();
        Ok(Leashed { child, leash })
    }

    /// Waits for its end, and ends what it has left in its group.
    pub(crate) fn wait(&mut self) -> Result<ExitStatus> {
        let child = Pid::from_child(&self.child);
        // Until it is reaped, no other group has its number. After an error it is reaped already.
        if waitid(WaitId::Pid(child), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).is_ok() {
            // An error would mean that nothing is left.
            let _ = kill_process_group(child, Signal::TERM);
        }
        self.child.wait().context("waiting for this program's child")
    }
}

impl Drop for Leashed {
    fn drop(&mut self) {
        drop(self.leash.take());
        // An error here would mean that it is gone already.
        let _ = self.child.wait();
    }
}

/// Runs this program with the same arguments, leashed, and returns its exit code. All that it starts so ends
/// with this process, also by a signal that no other process gets.
pub(crate) fn again() -> Result<ExitCode> {
    let status = Leashed::start(std::env::args_os().skip(1), Stdio::inherit())?.wait()?;
    // As a shell counts signals.
    let code = status.code().or_else(|| Some(128 + status.signal()?));
    Ok(code.and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from))
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
