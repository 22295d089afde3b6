//! Child processes that cannot outlive their parent.
//!
//! One small shell, the warden, reads the pids of all children from a pipe. When the pipe closes, by a drop
//! or by a SIGKILL of this process, it kills them and removes their directory. No child is ever signalled
//! after it was reaped, so a recycled pid is never hit.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use crate::error::{Error, tail};

/// If this file is in the cluster's directory, the warden keeps the directory.
pub(crate) const KEEP_FILE: &str = "keep";

/// The time between two checks of a process that must end.
const EVERY: Duration = Duration::from_millis(10);

/// `+ pid` adds a child, `- pid` removes one that was reaped. At the end of the input the rest is killed.
const WARDEN: &str = r#"
dir=$1 keep=$2 pids=
while read -r sign pid; do
  case $sign in
    +) pids="$pids $pid" ;;
    -) rest=; for p in $pids; do [ "$p" = "$pid" ] || rest="$rest $p"; done; pids=$rest ;;
  esac
done
[ -z "$pids" ] || kill -9 $pids 2>/dev/null
for pid in $pids; do
  tries=100
  while [ $tries -gt 0 ] && kill -0 $pid 2>/dev/null; do sleep 0.05; tries=$((tries - 1)); done
done
[ -e "$keep" ] || rm -rf "$dir"
"#;

/// The shell that ends the children of this process.
pub(crate) struct Warden {
    shell: Child,
    // None only while it is being dropped.
    pids: Mutex<Option<ChildStdin>>,
}

impl Warden {
    /// Starts the shell. From here on `dir` is removed when this value or this process ends.
    pub(crate) fn start(dir: &Path) -> Result<Warden, Error> {
        let mut shell = Command::new("sh")
            .args(["-c", WARDEN, "testcluster-warden"])
            .arg(dir)
            .arg(dir.join(KEEP_FILE))
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // A group of its own: an interrupt from the terminal must reach it only through the closed pipe.
            .process_group(0)
            .spawn()
            .map_err(Error::io("starting sh"))?;
        let pids = Mutex::new(shell.stdin.take());
        Ok(Warden { shell, pids })
    }

    fn send(&self, sign: char, pid: u32) -> Result<(), Error> {
        let mut pids = self.pids.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        match pids.as_mut() {
            Some(pipe) => writeln!(pipe, "{sign} {pid}").map_err(Error::io("sending the warden a pid")),
            None => Ok(()),
        }
    }
}

impl Drop for Warden {
    fn drop(&mut self) {
        let pipe = self.pids.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
        drop(pipe);
        // An error here would mean that the shell is gone already.
        let _ = self.shell.wait();
    }
}

/// A running component: its process and its log.
pub(crate) struct Process {
    name: &'static str,
    child: Child,
    log: PathBuf,
    reaped: bool,
}

impl Process {
    /// Starts a program; its output is appended to `<dir>/<name>.log`. It gets `kubeconfig`, and no other.
    pub(crate) fn start(
        warden: &Warden,
        dir: &Path,
        name: &'static str,
        program: &Path,
        arguments: &[String],
        kubeconfig: Option<&Path>,
    ) -> Result<Process, Error> {
        let log = dir.join(format!("{name}.log"));
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&log)
            .map_err(Error::io(format!("opening {}", log.display())))?;
        let errors = file.try_clone().map_err(Error::io(format!("opening {}", log.display())))?;
        let child = Command::new(program)
            .args(arguments)
            .current_dir(dir)
            // kwok and kubectl would read settings of the user's.
            .env("HOME", dir)
            .env_remove("KUBECONFIG")
            .envs(kubeconfig.map(|path| ("KUBECONFIG", path)))
            .stdin(Stdio::null())
            .stdout(file)
            .stderr(errors)
            .process_group(0)
            .spawn()
            .map_err(Error::io(format!("starting {}", program.display())))?;
        let process = Process { name, child, log, reaped: false };
        warden.send('+', process.child.id())?;
        Ok(process)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// An error with the end of the log if the process has ended.
    pub(crate) fn check(&mut self, warden: &Warden) -> Result<(), Error> {
        let ended = self.child.try_wait().map_err(Error::io(format!("checking {}", self.name)))?;
        let Some(status) = ended else { return Ok(()) };
        self.forget(warden)?;
        Err(Error::ComponentDied {
            component: self.name,
            status: status.to_string(),
            log: self.log.clone(),
            tail: tail(&self.log),
        })
    }

    /// Sends a signal, if the process has not been reaped.
    pub(crate) fn signal(&self, signal: Signal) -> Result<(), Error> {
        let step = || format!("signalling {}", self.name);
        kill_process(self.living()?, signal).map_err(|errno| Error::Io { step: step(), source: errno.into() })
    }

    /// Stops the process, and waits until all of its threads have stopped: on a busy machine one may still
    /// answer a request after the signal was sent.
    pub(crate) fn pause(&self) -> Result<(), Error> {
        self.signal(Signal::STOP)?;
        // Without EXITED this would wait for ever for a process that has ended by itself.
        let until = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        let step = || format!("stopping {}", self.name);
        let waited = waitid(WaitId::Pid(self.living()?), until);
        waited.map(drop).map_err(|errno| Error::Io { step: step(), source: errno.into() })
    }

    /// The pid, which is no other process's until this one is reaped.
    fn living(&self) -> Result<Pid, Error> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        pid.filter(|_| !self.reaped).ok_or(Error::NotRunning { component: self.name })
    }

    /// Kills the process at once and reaps it; a stopped process dies as well.
    pub(crate) fn kill(&mut self, warden: &Warden) -> Result<(), Error> {
        if !self.reaped {
            self.child.kill().map_err(Error::io(format!("killing {}", self.name)))?;
            self.child.wait().map_err(Error::io(format!("reaping {}", self.name)))?;
            self.forget(warden)?;
        }
        Ok(())
    }

    /// Asks the process to end, and reaps it. It is killed if it has not ended in time, and that is an error.
    pub(crate) fn terminate(&mut self, warden: &Warden, patience: Duration) -> Result<ExitStatus, Error> {
        self.signal(Signal::TERM)?;
        let deadline = Instant::now() + patience;
        loop {
            let ended = self.child.try_wait().map_err(Error::io(format!("checking {}", self.name)))?;
            if let Some(status) = ended {
                self.forget(warden)?;
                return Ok(status);
            }
            if Instant::now() > deadline {
                self.kill(warden)?;
                let what = format!("{} did not end", self.name);
                return Err(Error::NotReady { what, after: patience, last: tail(&self.log) });
            }
            std::thread::sleep(EVERY);
        }
    }

    fn forget(&mut self, warden: &Warden) -> Result<(), Error> {
        if !std::mem::replace(&mut self.reaped, true) {
            warden.send('-', self.child.id())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sleeper(warden: &Warden, dir: &Path) -> Process {
        Process::start(warden, dir, "sleeper", Path::new("sleep"), &["600".into()], None).unwrap()
    }

    fn alive(pid: u32) -> bool {
        // The state is the field after the name in parentheses; a zombie is not alive.
        std::fs::read_to_string(format!("/proc/{pid}/stat"))
            .is_ok_and(|stat| !stat.rsplit(')').next().unwrap_or_default().trim_start().starts_with('Z'))
    }

    fn eventually(what: &str, condition: impl Fn() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(10);
        while !condition() {
            assert!(Instant::now() < deadline, "not seen in time: {what}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn a_closed_pipe_ends_the_children_and_removes_the_directory() {
        let dir = tempfile::tempdir().unwrap().keep();
        let warden = Warden::start(&dir).unwrap();
        let mut process = sleeper(&warden, &dir);
        // As when this process is killed: the kernel closes the pipe, and the child is not reaped.
        warden.pids.lock().unwrap().take();
        eventually("the child is dead", || !alive(process.pid()));
        process.child.wait().unwrap();
        drop(warden);
        assert!(!dir.exists());
    }

    #[test]
    fn a_kept_directory_stays() {
        let dir = tempfile::tempdir().unwrap();
        let warden = Warden::start(dir.path()).unwrap();
        std::fs::write(dir.path().join(KEEP_FILE), "").unwrap();
        drop(warden);
        assert!(dir.path().exists());
    }

    #[test]
    fn a_process_that_dies_quotes_its_log() {
        let dir = tempfile::tempdir().unwrap().keep();
        let warden = Warden::start(&dir).unwrap();
        let script = ["-c".into(), "echo no such flag >&2; exit 7".into()];
        let mut process = Process::start(&warden, &dir, "short", Path::new("sh"), &script, None).unwrap();
        eventually("it is dead", || !alive(process.pid()));
        let error = process.check(&warden).unwrap_err().to_string();
        assert!(error.contains("short ended (exit status: 7)") && error.contains("no such flag"), "{error}");
        assert!(matches!(process.signal(Signal::STOP), Err(Error::NotRunning { component: "short" })));
    }

    #[test]
    fn a_process_that_is_asked_to_end_returns_its_status() {
        let dir = tempfile::tempdir().unwrap().keep();
        let warden = Warden::start(&dir).unwrap();
        let end = |script: &str, patience| {
            let script = ["-c".into(), format!("{script}; echo ready; while :; do sleep 0.01; done")];
            let mut process = Process::start(&warden, &dir, "asked", Path::new("sh"), &script, None).unwrap();
            eventually("it is ready", || tail(&process.log).contains("ready"));
            std::fs::remove_file(&process.log).unwrap();
            let ended = process.terminate(&warden, patience);
            assert!(!alive(process.pid()));
            ended
        };
        let status = end("trap 'exit 5' TERM", Duration::from_secs(10)).unwrap();
        assert_eq!(status.code(), Some(5));
        let error = end("trap '' TERM", Duration::from_millis(50)).unwrap_err().to_string();
        assert!(error.starts_with("asked did not end after 50ms"), "{error}");
    }

    #[test]
    fn a_stopped_process_dies_when_killed() {
        let dir = tempfile::tempdir().unwrap().keep();
        let warden = Warden::start(&dir).unwrap();
        let mut process = sleeper(&warden, &dir);
        process.check(&warden).unwrap();
        process.pause().unwrap();
        process.kill(&warden).unwrap();
        assert!(!alive(process.pid()));
    }
}
