//! The log: plain lines on standard error.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use framework_runtime::stderr::Stderr;
use tracing_subscriber::EnvFilter;

/// Dependencies whose `info` lines help only their authors.
const QUIET: &str = "kube_client=error,kube_runtime=error,hyper=warn,hyper_util=warn,rustls=warn,tower=warn";
/// How long the last lines may delay the end of the program.
const FLUSH: Duration = Duration::from_secs(5);

/// The running log. Dropping it writes the buffered lines.
#[derive(Debug)]
pub struct Log(Stderr);

impl Log {
    /// Starts logging: by `RUST_LOG`, else by `level`, else at `info`. Only the first log of a process
    /// receives log lines; history lines go to each, at any level.
    pub fn start(level: Option<&str>) -> io::Result<Log> {
        let filter = EnvFilter::try_from_default_env()
            .unwrap_or_else(|_| EnvFilter::new(format!("{QUIET},{}", level.unwrap_or("info"))));
        let stderr = Stderr::start()?;
        let writer = stderr.clone();
        let lines = tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(move || Lines(writer.clone()))
            .with_ansi(io::stderr().is_terminal())
            .with_target(false);
        // A test may have started it before: then that one stays.
        let _ = lines.try_init();
        Ok(Log(stderr))
    }

    /// The writer to standard error.
    pub fn stderr(&self) -> &Stderr {
        &self.0
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.0.flush(FLUSH);
    }
}

/// Writes lines of the log, each in one piece.
struct Lines(Stderr);

impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.log(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
