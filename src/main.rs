//! The program `frameworkcontroller`: arguments and environment in, exit code out.

use std::process::ExitCode;

use clap::Parser;
use frameworkcontroller::args::Args;
use frameworkcontroller::settings::Environment;

fn main() -> ExitCode {
    match frameworkcontroller::start(&Args::parse(), &Environment::read()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("frameworkcontroller: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}
