//! The output of commands, also after its reader has ended: `head` ends early, and so closes the pipe.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};

/// The exit code of a command whose output has no reader any more. A shell shows it for other programs, which
/// SIGPIPE ends.
pub const CLOSED: u8 = 141;

/// Takes a line of progress.
pub type Report<'a> = &'a dyn Fn(&str);

/// Whether a write has failed because its reader is gone. The command then ends, and says nothing.
pub fn is_closed(error: Option<&io::Error>) -> bool {
    error.is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
}

/// Prints a remark on standard error. If that is closed, it is no reason to stop.
pub fn note(remark: impl Display) {
    let _ = writeln!(io::stderr(), "{remark}");
}

/// Prints a line of progress, past the capture of the test harness: a silent wait of minutes looks like a
/// hang.
pub fn say(line: &str) {
    note(format_args!("testcluster: {line}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_reader_that_is_gone_ends_a_command_in_silence() {
        assert!(is_closed(Some(&ErrorKind::BrokenPipe.into())));
        assert!(!is_closed(Some(&ErrorKind::StorageFull.into())));
        assert!(!is_closed(None));
    }
}
