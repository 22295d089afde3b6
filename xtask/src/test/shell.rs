//! The commands of the gate, and its own lines between their output.

use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::process::{Command, ExitStatus, Stdio};

use anyhow::{Context, Result};
use framework_programs::output::CLOSED;
use framework_programs::workspace::{root, set_by_cargo};

use super::tally::Tally;

/// Runs a command in the root of the tree, and counts the tests of its output. It prints the output with a
/// label before each line.
pub(super) fn shell(command: &str, tally: &mut Tally, label: &str) -> Result<ExitStatus> {
    let mut shell = Command::new("sh");
    for name in set_by_cargo() {
        shell.env_remove(name);
    }
    let mut child = shell
        .args(["-c", command])
        .current_dir(root())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("starting `{command}`"))?;
    let mut output = BufReader::new(child.stdout.take().context("the output is piped")?);
    let mut line = Vec::new();
    while output.read_until(b'\n', &mut line).with_context(|| format!("reading from `{command}`"))? > 0 {
        // Line by line, so that the last line names the test before one that hangs.
        write(io::stdout(), &[label.as_bytes(), &line].concat())?;
        tally.count(&String::from_utf8_lossy(&line));
        line.clear();
    }
    Ok(child.wait()?)
}

/// Prints a line of the gate's own.
pub(super) fn say(line: &str) {
    // An error is no reason to stop: the exit code tells how the gate ended.
    let _ = write(io::stderr(), format!("gate: {line}\n").as_bytes());
}

/// Writes. Without a reader, such as `head` that has ended, the gate ends at once, and with it all lanes.
fn write(mut output: impl Write, text: &[u8]) -> io::Result<()> {
    match output.write_all(text) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => std::process::exit(CLOSED.into()),
        written => written,
    }
}
