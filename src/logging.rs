//! The log: plain lines on standard error.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

/// Parts that say at `info` what only their authors need.
const QUIET: &str = "kube_client=error,kube_runtime=error,hyper=warn,hyper_util=warn,rustls=warn,tower=warn";

/// Starts logging: by `RUST_LOG`, else by `level`, else at `info`. Only the first call in a process counts.
pub fn start(level: Option<&str>) {
    let filter = EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| EnvFilter::new(format!("{QUIET},{}", level.unwrap_or("info"))));
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false);
    // A test may have started it before: then that one stays.
    let _ = lines.try_init();
}
