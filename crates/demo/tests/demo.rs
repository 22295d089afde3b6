//! The program behind `cargo xtask demo`: without a terminal, and interrupted.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// How long anything may take: nothing is claimed about it.
const PATIENCE: Duration = Duration::from_secs(120);

/// The controller beside the demo, as `cargo test --workspace` builds it. Without it, as by
/// `cargo test -p framework-demo`, it is built first.
fn controller() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let built = Path::new(env!("CARGO_BIN_EXE_framework-demo")).with_file_name("frameworkcontroller");
        if !built.exists() {
            let mut cargo = Command::new(std::env::var_os("CARGO").unwrap());
            assert!(cargo.args(["build", "--workspace", "--bins"]).status().unwrap().success());
        }
        built
    })
}

fn demo(home: &Path, controller: &Path, arguments: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_framework-demo"))
        .arg("demo")
        .arg("--controller")
        .arg(controller)
        .args(arguments)
        .env("FRAMEWORK_CLUSTER_HOME", home)
        // The directories of clusters.
        .env("TMPDIR", home)
        // As behind a proxy: no request of the demo leaves this machine.
        .env("HTTPS_PROXY", "http://127.0.0.1:9")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// The cluster's directory and the controller's process, by the output of the demo.
struct Started {
    dir: PathBuf,
    controller: PathBuf,
}

impl Started {
    fn read(stderr: &str) -> Option<Started> {
        let dir = stderr.split_once("the control plane is in ")?.1.lines().next()?;
        let controller = stderr.split_once("the controller is process ")?.1.split_once(' ')?.0;
        Some(Started { dir: dir.into(), controller: Path::new("/proc").join(controller) })
    }

    fn assert_gone(&self) {
        let deadline = Instant::now() + PATIENCE;
        while self.dir.exists() || self.controller.exists() {
            assert!(
                Instant::now() < deadline,
                "left behind: {} {}",
                self.dir.display(),
                self.controller.display()
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

#[test]
fn four_frameworks_end_as_expected_and_nothing_is_left() {
    let home = tempfile::tempdir().unwrap();
    let output = demo(home.path(), controller(), &[]).wait_with_output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{stdout}\n{stderr}");
    // The log, for there is no terminal, and the four summaries.
    assert!(stdout.contains("s flaky: AttemptRunning, attempt 0, tasks 4/4"), "{stdout}");
    assert!(!stdout.contains('\u{1b}'), "no table is drawn: {stdout}");
    for (name, end) in [
        ("\nflaky: ", "Task worker-1: attempt 0 ended as ContainerTransientFailed (200)"),
        ("\ntraining: ", "still unfinished then, and ended with it: ps-0, ps-1"),
        ("\noutofmemory: ", "ContainerDockerOOMKilled (-1200)"),
        ("\nstopped: ", "StopFrameworkRequested (-210)"),
    ] {
        let summary = stdout.split_once(name).map(|(_, rest)| rest.split("\n\n").next().unwrap_or_default());
        let summary = summary.unwrap_or_else(|| panic!("no{name:?} in {stdout}"));
        // Lines are broken between words.
        let words: Vec<&str> = summary.split_whitespace().collect();
        assert!(words.join(" ").contains(end), "{summary}");
        assert!(summary.contains(" status writes") && summary.contains("2n + 11 is "), "{summary}");
    }
    Started::read(&stderr).unwrap().assert_gone();
}

#[test]
fn a_kept_cluster_can_be_reached_until_it_is_taken_down() {
    let home = tempfile::tempdir().unwrap();
    let output = demo(home.path(), controller(), &["--keep"]).wait_with_output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{stdout}\n{stderr}");
    let (kubeconfig, rest) = stdout.split_once("export KUBECONFIG=").unwrap().1.split_once('\n').unwrap();
    let mut kubectl = rest.lines().next().unwrap().split_whitespace();
    let listed = Command::new(kubectl.next().unwrap()).args(kubectl).env("KUBECONFIG", kubeconfig).output();
    let listed = listed.unwrap();
    let listed = String::from_utf8_lossy(&listed.stdout);
    assert_eq!(listed.lines().filter(|line| line.contains("Completed")).count(), 5, "{listed}");
    let down = Command::new(env!("CARGO_BIN_EXE_framework-demo"))
        .args(["cluster", "down"])
        .env("FRAMEWORK_CLUSTER_HOME", home.path())
        .status();
    assert!(down.unwrap().success());
    Started::read(&stderr).unwrap().assert_gone();
}

#[test]
fn an_interrupt_cleans_up() {
    let home = tempfile::tempdir().unwrap();
    // Any program that does not end.
    let stays = home.path().join("stays");
    std::fs::write(&stays, "#!/bin/sh\nexec sleep 600\n").unwrap();
    Command::new("chmod").arg("+x").arg(&stays).status().unwrap();
    for keep in [&["--keep"][..], &[]] {
        let mut demo = demo(home.path(), &stays, keep);
        let mut stderr = BufReader::new(demo.stderr.take().unwrap());
        let mut said = String::new();
        let started = loop {
            assert!(stderr.read_line(&mut said).unwrap() > 0, "it ended: {said}");
            if let Some(started) = Started::read(&said) {
                break started;
            }
        };
        assert!(started.dir.exists() && started.controller.exists(), "{said}");
        kill_process(Pid::from_raw(demo.id().try_into().unwrap()).unwrap(), Signal::INT).unwrap();
        assert!(!demo.wait().unwrap().success());
        started.assert_gone();
        stderr.read_to_string(&mut said).unwrap();
        assert!(said.contains("interrupted; nothing is left running"), "{said}");
    }
}

/// Waits for its end after the readers of its output are gone, or only that of standard output. Returns what
/// it said meanwhile.
fn end_without_readers(mut demo: Child, of_errors_too: bool) -> String {
    drop(demo.stdout.take());
    let (mut stderr, mut said) = (demo.stderr.take().unwrap(), String::new());
    if !of_errors_too {
        stderr.read_to_string(&mut said).unwrap();
    }
    drop(stderr);
    // As a shell shows the end by SIGPIPE of another program.
    assert_eq!(demo.wait().unwrap().code(), Some(141), "{said}");
    said
}

#[test]
fn a_demo_whose_reader_is_gone_ends_in_silence_and_leaves_nothing() {
    for (arguments, of_errors_too) in [(&["--keep"][..], false), (&[], false), (&[], true)] {
        let home = tempfile::tempdir().unwrap();
        let said = end_without_readers(demo(home.path(), controller(), arguments), of_errors_too);
        assert!(!said.contains("error: ") && !said.contains("panicked"), "{said}");
        if !of_errors_too {
            Started::read(&said).unwrap().assert_gone();
        }
        let left = std::fs::read_dir(home.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let left: Vec<_> = left.filter(|name| name.to_string_lossy().starts_with("testcluster-")).collect();
        assert!(left.is_empty(), "{left:?}: {said}");
    }
}

#[test]
fn a_controller_that_is_no_program_is_refused_before_a_cluster_starts() {
    let home = tempfile::tempdir().unwrap();
    let refused = |controller: &Path| {
        let output = demo(home.path(), controller, &[]).wait_with_output().unwrap();
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(refused(Path::new("/nowhere")).starts_with("error: --controller: /nowhere: No such file"));
    assert!(refused(home.path()).contains(" is not a program"));
}

#[test]
fn the_help_has_the_name_of_the_command_and_asks_for_no_controller() {
    let mut program = Command::new(env!("CARGO_BIN_EXE_framework-demo"));
    let help = program.args(["demo", "--help"]).output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    assert!(help.contains("Usage: cargo xtask demo [OPTIONS]\n"), "{help}");
}

#[test]
fn two_gangs_hang_without_a_queue_and_run_one_after_the_other_in_it() {
    let home = tempfile::tempdir().unwrap();
    let output = demo(home.path(), controller(), &["--queue"]).wait_with_output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{stdout}\n{stderr}");
    let (without, with) = stdout.split_once("In a queue one goes first:").expect("both are shown");
    assert!(without.contains("this would last for ever"), "{stdout}");
    assert!(!without.contains("40 of 40 Tasks run"), "{stdout}");
    for gang in ["alpha", "beta"] {
        assert!(with.contains(&format!("{gang}: AttemptRunning, 40 of 40 Tasks run")), "{stdout}");
        assert!(with.contains(&format!("{gang}: Completed")), "{stdout}");
    }
    assert!(with.contains("InsufficientQuota"), "{stdout}");
    assert!(!with.contains("ExceedsQuota"), "{stdout}");
    Started::read(&stderr).unwrap().assert_gone();
}

#[test]
fn replicas_share_frameworks_and_go_on_without_one_that_is_killed() {
    let home = tempfile::tempdir().unwrap();
    let output = demo(home.path(), controller(), &["--replicas", "3"]).wait_with_output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{stdout}\n{stderr}");
    let first = stdout.lines().find(|line| line.contains("shares: ")).unwrap_or_else(|| panic!("{stdout}"));
    assert!(["replica-0 ", "replica-1 ", "replica-2 "].iter().all(|host| first.contains(host)), "{stdout}");
    assert!(stdout.contains("the slots of replica-0 went to: "), "{stdout}");
    let last = stdout.lines().rfind(|line| line.contains("shares: ")).unwrap();
    assert!(!last.contains("replica-0"), "{stdout}");
    assert!(stdout.ends_with("Each Framework succeeded, and no Task ran twice.\n"), "{stdout}");
}
