//! The real kubectl, for tests of users' commands.

use std::io::Write;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

use crate::error::Error;

/// The output of kubectl, and its exit status.
#[derive(Clone, Debug)]
pub struct Output {
    /// Its exit status.
    pub status: ExitStatus,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

/// Runs it to its end. `dir` takes its cache.
pub(crate) fn run(
    program: &Path,
    kubeconfig: &Path,
    dir: &Path,
    arguments: &[&str],
    input: &str,
) -> Result<Output, Error> {
    let mut child = Command::new(program)
        .args(arguments)
        .env("KUBECONFIG", kubeconfig)
        .env("KUBECACHEDIR", dir.join("kubectl-cache"))
        .env("KUBERC", "off")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(Error::io("starting kubectl"))?;
    if let Some(mut stdin) = child.stdin.take() {
        // It may end without reading; its output then says why.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().map_err(Error::io("running kubectl"))?;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ok(Output { status: output.status, stdout: text(output.stdout), stderr: text(output.stderr) })
}
