//! The program `kubectl-framework`, which kubectl runs as `kubectl framework`: arguments in, text and an exit
//! code out. By the name `kubectl_complete-framework`, it completes the words of a line.

use std::io::{ErrorKind, Write};
use std::path::Path;
use std::process::ExitCode;

use framework_cli::args::Args;
use framework_cli::complete;

fn main() -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            complain(&format!("cannot start: {error}"));
            return ExitCode::FAILURE;
        }
    };
    let code = runtime.block_on(run());
    // After a 401, a plugin of the kubeconfig may run for longer than anybody needs its answer.
    runtime.shutdown_background();
    code
}

async fn run() -> ExitCode {
    let mut words = std::env::args_os();
    let program = words.next().unwrap_or_default();
    if Path::new(&program).file_stem().is_some_and(|name| name == complete::PROGRAM) {
        // A word that is not UTF-8 gets a character that no candidate has: nothing completes it.
        let words: Vec<String> = words.map(|word| word.to_string_lossy().into_owned()).collect();
        // The shell may have closed the pipe.
        let _ = std::io::stdout().write_all(complete::run(&words).await.as_bytes());
        return ExitCode::SUCCESS;
    }
    let args = Args::read(std::env::args_os()).unwrap_or_else(|error| error.exit());
    let answer = framework_cli::run(&args).await;
    let text = match &answer {
        Ok(text) => text.as_str(),
        Err(error) => error.output(),
    };
    // A reader such as `head` may close the pipe early.
    if let Err(error) = std::io::stdout().write_all(text.as_bytes())
        && error.kind() != ErrorKind::BrokenPipe
    {
        complain(&format!("cannot write the output: {error}"));
        return ExitCode::FAILURE;
    }
    match answer {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            error.messages().iter().for_each(|message| complain(message));
            ExitCode::FAILURE
        }
    }
}

/// Writes an error. The exit code stays its own also if nobody reads it any more.
fn complain(message: &str) {
    let _ = writeln!(std::io::stderr(), "error: {message}");
}
