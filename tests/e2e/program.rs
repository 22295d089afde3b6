//! The controller as users run it.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::ffi::OsStr;
use std::path::Path;

use framework_testcluster::running::Running;
use tempfile::TempDir;

/// Starts it with a kubeconfig and a config file of this text.
pub fn start(kubeconfig: &Path, config: &str) -> Running {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("frameworkcontroller.yaml"), config).expect("a config file");
    start_in(dir, &[], &[("KUBECONFIG", kubeconfig.as_os_str())])
}

/// Starts it in a directory, with these arguments and this environment and no other.
pub fn start_in(dir: TempDir, arguments: &[&str], environment: &[(&str, &OsStr)]) -> Running {
    let arguments = [&["--metrics-address=127.0.0.1:0"], arguments].concat();
    let program = Path::new(env!("CARGO_BIN_EXE_frameworkcontroller"));
    Running::start(program, dir, &arguments, environment)
}
