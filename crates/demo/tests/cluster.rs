//! The program behind `cargo xtask cluster up|down`, as users run it.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// How long anything may take: nothing is claimed about it.
const PATIENCE: Duration = Duration::from_secs(120);

/// The directory of a test's cluster state. The cluster ends with it, also if the test fails.
struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Home {
        Home(tempfile::tempdir().unwrap())
    }

    fn command(&self, command: &str) -> Command {
        let mut program = Command::new(env!("CARGO_BIN_EXE_framework-demo"));
        program.args(["cluster", command]).env("FRAMEWORK_CLUSTER_HOME", self.0.path());
        program
    }

    fn run(&self, command: &str) -> Output {
        self.command(command).output().unwrap()
    }

    fn cluster(&self, command: &str) -> Output {
        let output = self.run(command);
        assert!(output.status.success(), "{command}: {output:?}");
        output
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        self.run("down");
    }
}

fn until(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn last_line(output: &Output) -> PathBuf {
    String::from_utf8_lossy(&output.stdout).lines().last().expect("a path is printed").into()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn up_stays_and_down_leaves_nothing() {
    let home = Home::new();
    let first = home.cluster("up");
    let kubeconfig = last_line(&first);
    let text = std::fs::read_to_string(&kubeconfig).unwrap();
    assert!(text.contains("server: https://127.0.0.1:"), "{text}");
    assert!(stderr(&first).contains("the control plane is ready"), "{first:?}");

    let again = home.cluster("up");
    assert_eq!(last_line(&again), kubeconfig);
    assert!(stderr(&again).contains("already up"), "{again:?}");

    home.cluster("down");
    assert!(!kubeconfig.parent().unwrap().exists());
    assert!(stderr(&home.cluster("down")).contains("not up"));
}

#[test]
fn the_state_of_a_killed_holder_is_ignored() {
    let home = Home::new();
    let killed = last_line(&home.cluster("up"));
    let state = std::fs::read(home.0.path().join("state.json")).unwrap();
    let state: serde_json::Value = serde_json::from_slice(&state).unwrap();
    let pid = state["pid"].as_i64().and_then(|pid| Pid::from_raw(pid.try_into().ok()?)).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
    until("the cluster ends with its holder", || !killed.parent().unwrap().exists());
    let next = last_line(&home.cluster("up"));
    assert_ne!(next, killed);
    home.cluster("down");
}

#[test]
fn an_interrupted_up_leaves_no_cluster_that_is_still_starting() {
    let home = Home::new();
    let mut up = home.command("up").stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let (mut stderr, mut said) = (BufReader::new(up.stderr.take().unwrap()), String::new());
    while !said.contains("starting the control plane") {
        assert!(stderr.read_line(&mut said).unwrap() > 0, "it ended: {said}");
    }
    kill_process(Pid::from_child(&up), Signal::INT).unwrap();
    assert!(!up.wait().unwrap().success());
    stderr.read_to_string(&mut said).unwrap();
    assert!(said.contains("interrupted; nothing is left running"), "{said}");
    // The holder has the lock as long as it lives.
    let lock = File::open(home.0.path().join("lock")).unwrap();
    until("the holder ends", || lock.try_lock().is_ok());
    assert!(!home.0.path().join("state.json").exists(), "it never came up");
}

#[test]
fn a_cluster_whose_directory_stays_can_be_taken_down() {
    let home = Home::new();
    let up = home.command("up").env("FRAMEWORK_KEEP", "1").output().unwrap();
    assert!(up.status.success(), "{up:?}");
    let dir = last_line(&up).parent().unwrap().to_owned();
    let down = home.cluster("down");
    assert!(stderr(&down).contains(&format!("its logs and data stay in {}", dir.display())), "{down:?}");
    assert!(dir.join("kube-apiserver.log").exists());
    std::fs::remove_dir_all(dir).unwrap();
}
