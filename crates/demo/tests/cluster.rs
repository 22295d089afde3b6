//! The program behind `cargo xtask cluster up|down`, as users run it.

use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// The directory of a test's cluster state. The cluster ends with it, also if the test fails.
struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Home {
        Home(tempfile::tempdir().unwrap())
    }

    fn run(&self, command: &str) -> Output {
        let mut program = Command::new(env!("CARGO_BIN_EXE_framework-demo"));
        program.args(["cluster", command]).env("FRAMEWORK_CLUSTER_HOME", self.0.path()).output().unwrap()
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
    Command::new("kill").args(["-9", &state["pid"].to_string()]).status().unwrap();
    let deadline = Instant::now() + Duration::from_secs(120);
    while killed.parent().unwrap().exists() {
        assert!(Instant::now() < deadline, "the cluster outlived its holder");
        std::thread::sleep(Duration::from_millis(50));
    }
    let next = last_line(&home.cluster("up"));
    assert_ne!(next, killed);
    home.cluster("down");
}
