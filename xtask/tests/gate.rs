//! `cargo xtask test` as users run it, with a fake `go` and a fake `cargo`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

const PATIENCE: Duration = Duration::from_secs(20);

/// Ends with everything that it started, also if the test fails.
struct Build(Child);

impl Drop for Build {
    fn drop(&mut self) {
        // An error here would mean that it is gone already.
        let _ = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
        let _ = self.0.wait();
    }
}

/// Starts the build of the gate, with a `go build` that writes its pid to `pid` in `dir` and takes forever.
/// A shell runs `before` before it becomes that command.
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
    // A process that is not reaped yet has no arguments any more, and one in its exec has none yet.
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

/// As in a program that a script starts in the background.
#[test]
fn the_build_beside_a_gate_that_ignores_interrupts_ends_with_it() {
    ends_with_its_leash("trap '' INT");
}

#[test]
fn a_failing_step_hides_no_other() {
    let dir = tempfile::tempdir().unwrap();
    for (name, script) in [
        ("cargo", format!("echo \"$@\" >>{}/log\necho 'test late ... FAILED'\nexit 1", dir.path().display())),
        ("go", "[ $1 = version ]".to_owned()),
    ] {
        let program = dir.path().join(name);
        fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let output = Command::new(env!("CARGO_BIN_EXE_xtask"))
        .arg("test")
        .env("PATH", format!("{}:{}", dir.path().display(), std::env::var("PATH").unwrap()))
        .env("FRAMEWORK_TESTCLUSTER_CACHE", dir.path().join("cache"))
        .env_remove("KUBEBUILDER_ASSETS")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(!output.status.success());
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("error: 5 of 5 steps failed after "), "{stderr}");
    for step in ["fmt", "clippy", "docs", "programs", "tests"] {
        assert!(stderr.contains(&format!("`cargo xtask test --only {step}`")), "{step}: {stderr}");
    }
    assert_eq!(stderr.matches("failed: late").count(), 5, "one for each command: {stderr}");
    let log = fs::read_to_string(dir.path().join("log")).unwrap();
    let commands: Vec<&str> = log.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(commands, ["fmt", "clippy", "clippy", "doc", "test"], "{log}");
}
