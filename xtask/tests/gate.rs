//! `cargo xtask test` as somebody types it, with a `go` that only pretends.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

const PATIENCE: Duration = Duration::from_secs(20);

/// Ends with all that it started, also if the test fails.
struct Build(Child);

impl Drop for Build {
    fn drop(&mut self) {
        // An error here would mean that it is gone already.
        let _ = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
        let _ = self.0.wait();
    }
}

/// Starts `cargo xtask test` as the gate starts it for its build, with a `go build` that writes its pid to
/// `pid` in `dir` and takes forever. `before` is what a shell does before it becomes that command.
fn start(dir: &Path, before: &str) -> Build {
    let go = dir.join("go");
    let script =
        format!("#!/bin/sh\n[ $1 = version ] || {{ echo $$ >{}/pid; exec sleep 600; }}\n", dir.display());
    fs::write(&go, script).unwrap();
    fs::set_permissions(&go, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", dir.display(), std::env::var("PATH").unwrap());
    let child = Command::new("sh")
        .args(["-c", &format!("{before}\nexec \"$@\""), "sh", env!("CARGO_BIN_EXE_xtask")])
        .args(["test", "--only=programs", "--leashed"])
        .env("PATH", path)
        .env("FRAMEWORK_TESTCLUSTER_CACHE", dir.join("cache"))
        .env_remove("KUBEBUILDER_ASSETS")
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .unwrap();
    Build(child)
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn ends_with_its_leash(before: &str) {
    let dir = tempfile::tempdir().unwrap();
    let mut build = start(dir.path(), before);
    until("go was started", || {
        fs::read_to_string(dir.path().join("pid")).is_ok_and(|pid| pid.ends_with('\n'))
    });
    let pid = fs::read_to_string(dir.path().join("pid")).unwrap();
    // A process that nobody has reaped yet has no arguments any more, and one in its exec none yet.
    let runs =
        || fs::read(Path::new("/proc").join(pid.trim()).join("cmdline")).is_ok_and(|line| !line.is_empty());
    until("go runs", runs);
    drop(build.0.stdin.take());
    until("the build ended", || build.0.try_wait().unwrap().is_some());
    until("go ended", || !runs());
}

#[test]
fn the_build_beside_the_gate_ends_with_it() {
    ends_with_its_leash("");
}

/// As in what a script starts in the background.
#[test]
fn the_build_beside_a_gate_that_ignores_interrupts_ends_with_it() {
    ends_with_its_leash("trap '' INT");
}
