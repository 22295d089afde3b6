//! The program `frameworkbarrier`: environment in, files and exit code out.

use std::process::ExitCode;

fn main() -> ExitCode {
    tracing_subscriber::fmt()
        .with_max_level(tracing::Level::INFO)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .with_target(false)
        .init();
    match framework_barrier::start() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("frameworkbarrier: exit code {}: {error}", error.exit_code());
            ExitCode::from(error.exit_code())
        }
    }
}
