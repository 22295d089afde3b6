//! The program itself: exit codes, and which text goes where. Tests of other packages build it by this file.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
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

#[test]
fn a_server_that_is_not_there_is_named_with_the_cause() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("unreachable");
    let kubeconfig = "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
        clusters: [{name: k, cluster: {server: 'http://127.0.0.1:1'}}]\n\
        contexts: [{name: c, context: {cluster: k, user: u}}]\nusers: [{name: u, user: {}}]\n";
    std::fs::write(&path, kubeconfig).unwrap();
    let failed = run(&["get", "--kubeconfig", path.to_str().unwrap()]);
    let complaint = String::from_utf8(failed.stderr).unwrap();
    let begin = "error: cannot list the Frameworks of the namespace \"default\": ";
    assert!(complaint.starts_with(begin) && complaint.contains("Connection refused"), "{complaint}");
    assert_eq!((failed.status.code(), complaint.lines().count()), (Some(1), 1), "{complaint}");
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

#[test]
fn a_word_that_is_not_utf_8_is_refused_and_completes_to_nothing() {
    let odd = OsStr::from_bytes(b"\xff");
    let run = |name: &OsStr, word: &str| {
        let mut program = Command::new(env!("CARGO_BIN_EXE_kubectl-framework"));
        program.arg0(name).args([OsStr::new(word), odd]).env_clear().output().unwrap()
    };
    let completed = run(OsStr::new("kubectl_complete-framework"), "--output");
    assert_eq!(String::from_utf8(completed.stdout).unwrap(), ":4\n");
    assert_eq!((completed.status.code(), completed.stderr.len()), (Some(0), 0));
    let refused = run(odd, "get");
    let complaint = String::from_utf8(refused.stderr).unwrap();
    assert!(complaint.starts_with("error: invalid UTF-8 was detected"), "{complaint}");
    assert_eq!(refused.status.code(), Some(2), "{complaint}");
}
