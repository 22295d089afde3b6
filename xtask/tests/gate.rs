//! `cargo xtask test` as users run it, with a fake `go` and a fake `cargo`.

mod script;

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

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
        .args(["--leashed", "test", "--only=programs", "--beside"])
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
    until("go runs", || runs(&pid));
    drop(build.0.stdin.take());
    until("the build ended", || build.0.try_wait().unwrap().is_some());
    until("go ended", || !runs(&pid));
}

/// Whether a process runs. One that is not reaped yet has no arguments any more, and one in its exec has none
/// yet.
fn runs(pid: &str) -> bool {
    fs::read(Path::new("/proc").join(pid.trim()).join("cmdline")).is_ok_and(|line| !line.is_empty())
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

/// The gate in `dir` with a cargo that carries `script` out, and with a Go that builds nothing.
fn command(dir: &Path, arguments: &[&str], script: &str) -> Command {
    let cargo = format!("echo \"$@\" >>{}/log\n{script}", dir.display());
    for (name, text) in [("cargo", cargo.as_str()), ("go", "[ $1 = version ]")] {
        script::write(&dir.join(name), &format!("#!/bin/sh\n{text}\n"));
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command
        .args(arguments)
        .env("PATH", format!("{}:{}", dir.display(), std::env::var("PATH").unwrap()))
        .env("CARGO", dir.join("cargo"))
        .env("FRAMEWORK_TESTCLUSTER_CACHE", dir.join("cache"))
        .env_remove("KUBEBUILDER_ASSETS")
        .stdin(Stdio::null());
    command
}

/// Runs it to its end, with commands that fail unless `script` ends them. Returns its output, and the
/// commands that reached cargo.
fn gate(dir: &Path, arguments: &[&str], script: &str) -> (String, Vec<String>) {
    let script = format!("{script}\necho 'test late ... FAILED'\nexit 1");
    let output = command(dir, arguments, &script).output().unwrap();
    assert!(!output.status.success());
    let log = fs::read_to_string(dir.join("log")).unwrap();
    (String::from_utf8_lossy(&output.stderr).into_owned(), log.lines().map(str::to_owned).collect())
}

/// Lets a cargo compile everything, and name these test programs.
const COMPILED: &str = r#"case "$*" in
    *--no-run*) exit 0 ;;
    metadata*) echo '{"packages":[{"targets":[
        {"kind":["test"],"name":"e2e","src_path":"a.rs"},
        {"kind":["test"],"name":"chaos","src_path":"b.rs"},
        {"kind":["test"],"name":"sim","src_path":"c.rs"}]}]}'; exit 0 ;;
esac"#;

/// Lets each lane write its pid to `pids` in this directory, print a line and take forever.
fn without_end(dir: &Path) -> String {
    format!("{COMPILED}\necho $$ >>{}/pids\necho running 1 test\nexec sleep 600", dir.display())
}

fn pids(dir: &Path) -> Vec<String> {
    let pids = fs::read_to_string(dir.join("pids")).unwrap_or_default();
    pids.split_inclusive('\n').filter(|pid| pid.ends_with('\n')).map(str::to_owned).collect()
}

#[test]
fn a_signal_to_the_gate_alone_ends_its_lanes() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = command(dir.path(), &["test", "--only=tests"], &without_end(dir.path()));
    command.stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    let mut gate = Build(command.spawn().unwrap());
    until("all lanes run", || {
        let pids = pids(dir.path());
        pids.len() == 4 && pids.iter().all(|pid| runs(pid))
    });
    kill_process(Pid::from_child(&gate.0), Signal::TERM).unwrap();
    until("the gate ended", || gate.0.try_wait().unwrap().is_some());
    until("all lanes ended", || !pids(dir.path()).iter().any(|pid| runs(pid)));
}

#[test]
fn a_gate_whose_reader_is_gone_ends_in_silence_with_its_lanes() {
    let dir = tempfile::tempdir().unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = command(dir.path(), &["test", "--only=tests"], &without_end(dir.path()));
    let output = command.stdout(writer).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    // As a shell shows the end by SIGPIPE of another program.
    assert_eq!(output.status.code(), Some(141), "{stderr}");
    assert!(!stderr.contains("panicked") && !stderr.contains("error: "), "{stderr}");
    assert!(!pids(dir.path()).is_empty());
    until("all lanes ended", || !pids(dir.path()).iter().any(|pid| runs(pid)));
}

#[test]
fn a_failing_lane_of_tests_hides_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let (stderr, commands) = gate(dir.path(), &["test", "--only=tests"], COMPILED);
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

/// Builds the programs of the test cluster with this Go, unless a directory has ready ones. The cache is
/// named relative to `dir`.
fn programs(dir: &Path, go: &str, ready: &Path) -> (bool, String) {
    script::write(&dir.join("go"), &format!("#!/bin/sh\n{go}\n"));
    let output = Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args(["test", "--only=programs"])
        .current_dir(dir)
        .env("PATH", format!("{}:{}", dir.display(), std::env::var("PATH").unwrap()))
        .env("FRAMEWORK_TESTCLUSTER_CACHE", "cache")
        .env("KUBEBUILDER_ASSETS", ready)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_go_that_is_too_old_is_named_with_the_one_that_is_needed() {
    let dir = tempfile::tempdir().unwrap();
    let (passed, stderr) = programs(dir.path(), "echo go version go1.19.8 linux/amd64", Path::new(""));
    assert!(!passed && stderr.contains("is version 1.19.8; install Go 1.26 or newer"), "{stderr}");
}

/// As Go does: several programs go to a directory, and a single one to its file.
const GO: &str = r#"[ $1 = version ] && exit
    while [ "$1" != -o ]; do shift; done
    case $2 in
        */unfinished) cd "$2" && touch kube-apiserver kube-controller-manager kube-scheduler kubectl ;;
        *) touch "$2" ;;
    esac"#;

#[test]
fn a_relative_cache_is_below_the_working_directory() {
    let dir = tempfile::tempdir().unwrap();
    let (passed, stderr) = programs(dir.path(), GO, Path::new(""));
    assert!(passed && dir.path().join("cache").is_dir(), "{stderr}");
    assert!(!stderr.contains("KUBEBUILDER_ASSETS"), "{stderr}");
}

#[test]
fn programs_that_a_directory_of_ready_ones_lacks_are_named_and_built() {
    let dir = tempfile::tempdir().unwrap();
    let ready = dir.path().join("ready");
    fs::create_dir(&ready).unwrap();
    for name in ["etcd", "kube-apiserver", "kubectl"] {
        fs::write(ready.join(name), "").unwrap();
    }
    let (passed, stderr) = programs(dir.path(), GO, &ready);
    let lacks = format!("{} lacks kube-controller-manager, kube-scheduler, kwok\n", ready.display());
    assert!(passed && stderr.contains(&lacks), "{stderr}");
    assert_eq!(stderr.matches("KUBEBUILDER_ASSETS").count(), 1, "one line says it: {stderr}");
}
