//! The plugin `kubectl framework`, as kubectl finds it: a program on the search path.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use framework_programs::workspace::cargo;
use serde_json::Value;

use super::installed;

/// The directory of the program, which cargo builds first. It is of another package than the tests, so that
/// cargo does not build it for them. With its own tests it gets the features that the whole workspace has in
/// tests: its libraries are compiled already.
pub fn directory() -> &'static Path {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    DIRECTORY.get_or_init(|| {
        let arguments = ["--workspace", "--test=program", "--no-run", "--quiet", "--message-format=json"];
        let mut build = cargo(&["test"]);
        let output = build.args(arguments).output().expect("cargo runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let messages = String::from_utf8(output.stdout).expect("it is text");
        let mut messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let program = messages.find(|message| {
            message["target"]["name"] == "kubectl-framework" && message["executable"].is_string()
        });
        let program = program.expect("cargo names the program");
        let program = Path::new(program["executable"].as_str().expect("a path"));
        // Tests of other programs may have made it.
        let _ = std::os::unix::fs::symlink(program, program.with_file_name("kubectl_complete-framework"));
        program.parent().expect("a directory").to_owned()
    })
}

/// The search path for kubectl and its plugin.
pub fn search_path() -> OsString {
    search_path_with(installed().programs())
}

/// The same with the programs of another cluster.
pub fn search_path_with(programs: &Path) -> OsString {
    let inherited = std::env::var_os("PATH").unwrap_or_default();
    let own = [directory().to_owned(), programs.to_owned()];
    std::env::join_paths(own.into_iter().chain(std::env::split_paths(&inherited))).expect("a search path")
}

/// The output of `kubectl framework` with these arguments in a namespace: whether it succeeded, its standard
/// output, and its standard error.
pub fn run(namespace: &str, arguments: &[&str]) -> (bool, String, String) {
    kubectl(&[&["framework"], arguments, &["--namespace", namespace]].concat())
}

/// The candidates for the last word of a line.
pub fn completions(namespace: &str, line: &[&str]) -> String {
    let (succeeded, output, complaint) =
        kubectl(&[&["__complete", "framework", "--namespace", namespace], line].concat());
    assert!(succeeded, "{complaint}");
    output
}

fn kubectl(arguments: &[&str]) -> (bool, String, String) {
    let cluster = installed();
    let mut kubectl = Command::new(cluster.programs().join("kubectl"));
    kubectl.args(arguments);
    kubectl.env("KUBECONFIG", cluster.kubeconfig_path()).env("PATH", search_path());
    let output = kubectl.output().expect("kubectl runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("it is text");
    (output.status.success(), text(output.stdout), text(output.stderr))
}

/// The standard output of a command that succeeds.
pub fn output(namespace: &str, arguments: &[&str]) -> String {
    let (succeeded, output, complaint) = run(namespace, arguments);
    assert!(succeeded, "kubectl framework {arguments:?}: {complaint}");
    output
}
