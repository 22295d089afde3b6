//! The differential test with our own program on both sides.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The controller beside the test, as `cargo test --workspace` builds it. Without it, as by
/// `cargo test -p framework-differential`, it is built first.
fn controller() -> PathBuf {
    let built = Path::new(env!("CARGO_BIN_EXE_framework-differential")).with_file_name("frameworkcontroller");
    if !built.exists() {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap());
        assert!(cargo.args(["build", "--workspace", "--bins"]).status().unwrap().success());
    }
    built
}

#[test]
fn our_program_does_not_differ_from_itself() {
    let home = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_framework-differential"))
        .args(["--itself", "--seeds=4", "--controller"])
        .arg(controller())
        .env("FRAMEWORK_CLUSTER_HOME", home.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{stdout}\n{stderr}");
    assert!(stdout.contains("4 seeds in "), "{stdout}");
    assert!(stdout.contains("\nunexplained: 0 seeds"), "{stdout}");
    assert!(!stdout.contains("\nexplained: "), "nothing is meant to differ from itself: {stdout}");
}
