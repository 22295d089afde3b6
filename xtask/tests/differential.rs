//! `cargo xtask differential` as somebody runs it, with our own program on both sides.

use std::process::{Command, Stdio};

#[test]
fn our_program_does_not_differ_from_itself() {
    let home = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args(["differential", "--itself", "--seeds=4"])
        .env("FRAMEWORK_CLUSTER_HOME", home.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let (told, noise) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{told}\n{noise}");
    assert!(told.contains("4 seeds in "), "{told}");
    assert!(told.contains("\nunexplained: 0 seeds"), "{told}");
    assert!(!told.contains("\nexplained: "), "nothing is meant to differ from itself: {told}");
}
