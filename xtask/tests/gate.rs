//! `cargo xtask test` as users run it, with a fake `go` and a fake `cargo`.

mod script;

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

/// How long anything may take: nothing is claimed about it.
const PATIENCE: Duration = Duration::from_secs(120);

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
    let text =
        format!("#!/bin/sh\n[ $1 = version ] || {{ echo $$ >{}/pid; exec sleep 600; }}\n", dir.display());
    script::write(&go, &text);
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

/// Runs the gate in `dir` with a cargo that carries `script` out, and with a Go that builds nothing. Returns
/// its output, and the commands that reached cargo.
fn gate(dir: &Path, arguments: &[&str], script: &str) -> (String, Vec<String>) {
    let cargo = format!("echo \"$@\" >>{}/log\n{script}\necho 'test late ... FAILED'\nexit 1", dir.display());
    for (name, text) in [("cargo", cargo.as_str()), ("go", "[ $1 = version ]")] {
        script::write(&dir.join(name), &format!("#!/bin/sh\n{text}\n"));
    }
    let output = Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args(arguments)
        .env("PATH", format!("{}:{}", dir.display(), std::env::var("PATH").unwrap()))
        .env("CARGO", dir.join("cargo"))
        .env("FRAMEWORK_TESTCLUSTER_CACHE", dir.join("cache"))
        .env_remove("KUBEBUILDER_ASSETS")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(!output.status.success());
    let log = fs::read_to_string(dir.join("log")).unwrap();
    (String::from_utf8_lossy(&output.stderr).into_owned(), log.lines().map(str::to_owned).collect())
}

#[test]
fn a_failing_lane_of_tests_hides_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let targets = r#"{"packages":[{"targets":[
        {"kind":["test"],"name":"e2e","src_path":"a.rs"},
        {"kind":["test"],"name":"chaos","src_path":"b.rs"},
        {"kind":["test"],"name":"sim","src_path":"c.rs"}]}]}"#;
    let script = format!("case \"$*\" in *--no-run*) exit 0;; metadata*) echo '{targets}'; exit 0;; esac");
    let (stderr, commands) = gate(dir.path(), &["test", "--only=tests"], &script);
    assert!(stderr.contains("error: 1 of 1 steps failed after "), "{stderr}");
    assert_eq!(stderr.matches("failed: late").count(), 5, "one for each command: {stderr}");
    let ran = |part: &str| commands.iter().filter(|command| command.contains(part)).count();
    for part in ["--test e2e -- --skip ", "--test e2e -- re", "--test chaos", "--test sim", "--doc"] {
        assert_eq!(ran(part), 1, "{part}: {commands:?}");
        assert!(stderr.contains(part), "{part} can be repeated: {stderr}");
    }
    assert_eq!(ran("--no-fail-fast"), 5, "no program hides another of its lane: {commands:?}");
}

#[test]
fn a_failing_step_hides_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let (stderr, commands) = gate(dir.path(), &["test"], "");
    assert!(stderr.contains("error: 5 of 5 steps failed after "), "{stderr}");
    for step in ["fmt", "clippy", "docs", "programs", "tests"] {
        assert!(stderr.contains(&format!("`cargo xtask test --only {step}`")), "{step}: {stderr}");
    }
    assert_eq!(stderr.matches("failed: late").count(), 5, "one for each command: {stderr}");
    let first: Vec<&str> = commands.iter().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(first, ["fmt", "clippy", "clippy", "doc", "test"], "{commands:?}");
}

/// Builds the programs of the test cluster with this Go. The cache is named relative to `dir`.
fn programs(dir: &Path, go: &str) -> (bool, String) {
    script::write(&dir.join("go"), &format!("#!/bin/sh\n{go}\n"));
    let output = Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args(["test", "--only=programs"])
        .current_dir(dir)
        .env("PATH", format!("{}:{}", dir.display(), std::env::var("PATH").unwrap()))
        .env("FRAMEWORK_TESTCLUSTER_CACHE", "cache")
        .env_remove("KUBEBUILDER_ASSETS")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_go_that_is_too_old_is_named_with_the_one_that_is_needed() {
    let dir = tempfile::tempdir().unwrap();
    let (passed, stderr) = programs(dir.path(), "echo go version go1.19.8 linux/amd64");
    assert!(!passed && stderr.contains("is version 1.19.8; install Go 1.26 or newer"), "{stderr}");
}

#[test]
fn a_relative_cache_is_below_the_working_directory() {
    let dir = tempfile::tempdir().unwrap();
    // As Go does: several programs go to a directory, and a single one to its file.
    let go = r#"[ $1 = version ] && exit
        while [ "$1" != -o ]; do shift; done
        case $2 in
            */unfinished) cd "$2" && touch kube-apiserver kube-controller-manager kube-scheduler kubectl ;;
            *) touch "$2" ;;
        esac"#;
    let (passed, stderr) = programs(dir.path(), go);
    assert!(passed && dir.path().join("cache").is_dir(), "{stderr}");
}
