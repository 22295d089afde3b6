//! The output of commands, on a terminal or into a pipe whose reader may end early, as `head` does.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};

use anyhow::{Context, Result};

/// Prints a text. A reader that is gone has read all that it wants: it changes no exit code.
pub fn print(text: impl Display) -> Result<()> {
    match write!(io::stdout(), "{text}") {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written.context("writing to standard output"),
    }
}

/// Prints a remark on standard error. If that is closed, it is no reason to stop: objects must be removed.
pub fn note(remark: impl Display) {
    let _ = writeln!(io::stderr(), "{remark}");
}
