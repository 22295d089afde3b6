//! Commands that other programs carry out, with programs that only print their arguments.

mod script;

use std::process::{Command, Stdio};

fn printed(arguments: &[&str]) -> String {
    let dir = tempfile::tempdir().unwrap();
    for name in ["framework-bench", "framework-demo", "framework-differential"] {
        script::write(&dir.path().join(name), "#!/bin/sh\necho ${0##*/} \"$@\"\n");
    }
    let output = Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args(arguments)
        .env("FRAMEWORK_PROGRAMS", dir.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.trim_end().replace(&format!("{}/", dir.path().display()), "")
}

#[test]
fn the_help_has_the_name_of_the_command_and_says_where_the_options_are() {
    let help = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_xtask")).args(arguments).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(help(&["--help"]).contains("Usage: cargo xtask <COMMAND>\n"), "{}", help(&["--help"]));
    let demo = help(&["help", "demo"]);
    assert!(demo.contains("Usage: cargo xtask demo ") && demo.contains("`--help`"), "{demo}");
}

#[test]
fn a_command_becomes_its_program_with_all_arguments() {
    for (arguments, expected) in [
        (&["demo"][..], "framework-demo demo --controller frameworkcontroller"),
        (&["demo", "--keep", "--controller", "x"], "framework-demo demo --keep --controller x"),
        (&["demo", "--help"], "framework-demo demo --help"),
        (&["cluster", "up"], "framework-demo cluster up"),
        (&["cluster", "down"], "framework-demo cluster down"),
        (&["bench", "--scenario", "burst", "--out=x"], "framework-bench bench --scenario burst --out=x"),
        (&["barrier", "--barriers", "1,2"], "framework-bench barrier --barriers 1,2"),
        (
            &["differential", "--itself", "--seeds=4"],
            "framework-differential --controller frameworkcontroller --itself --seeds=4",
        ),
    ] {
        assert_eq!(printed(arguments), expected);
    }
}
