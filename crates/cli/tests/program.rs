//! The program itself: exit codes, and which text goes where. Tests of other packages build it by this file.

use std::path::Path;
use std::process::{Command, Output};

fn run(arguments: &[&str]) -> Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_kubectl-framework"));
    program.args(arguments).env_clear().env("HOME", "/nowhere");
    program.output().unwrap()
}

#[test]
fn help_goes_to_stdout_and_errors_to_stderr() {
    let help = run(&["--help"]);
    assert_eq!(help.status.code(), Some(0));
    assert!(String::from_utf8(help.stdout).unwrap().contains("Usage: kubectl framework"));
    for (arguments, code, words) in [
        (&["get", "pod/a"][..], 2, "give NAME or fw/NAME"),
        (&["stop", "fw/a/status"][..], 2, "\"a/status\" is not the name of an object"),
        (&["scale", "a", "w=1", "w=2"][..], 2, "\"w\" is named twice"),
        (&["wait", "a", "--timeout=9223372036854775807s"][..], 2, "is not a duration of at most 8760h"),
        (&["fetch"][..], 2, "unrecognized subcommand"),
        (
            &["get", "--kubeconfig=/nowhere/kubeconfig"][..],
            1,
            "cannot use the kubeconfig /nowhere/kubeconfig",
        ),
    ] {
        let failed = run(arguments);
        assert_eq!((failed.status.code(), failed.stdout.len()), (Some(code), 0), "{arguments:?}");
        let complaint = String::from_utf8(failed.stderr).unwrap();
        assert!(complaint.starts_with("error: ") && complaint.contains(words), "{complaint}");
    }
}

/// kubectl, too, takes no other file than those that KUBECONFIG names.
#[test]
fn a_kubeconfig_that_does_not_exist_leads_to_no_other_cluster() {
    let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join("home");
    std::fs::create_dir_all(home.join(".kube")).unwrap();
    std::fs::write(home.join(".kube/config"), "not read").unwrap();
    let mut program = Command::new(env!("CARGO_BIN_EXE_kubectl-framework"));
    program.arg("get").env_clear().env("HOME", &home).env("KUBECONFIG", "/nowhere/a:/nowhere/b");
    let output = program.output().unwrap();
    let expected = "error: KUBECONFIG=\"/nowhere/a:/nowhere/b\" names no file that exists: correct it, or \
        unset it for ~/.kube/config\n";
    assert_eq!(String::from_utf8(output.stderr).unwrap(), expected);
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn by_its_second_name_the_program_completes_words() {
    let link = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kubectl_complete-framework");
    // An earlier run may have left it.
    let _ = std::fs::remove_file(&link);
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_kubectl-framework"), &link).unwrap();
    let output = Command::new(&link).args(["--output", "j"]).env_clear().output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "json\n:4\n");
}
