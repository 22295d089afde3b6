//! The program `frameworkcontroller`: arguments and environment in, exit code out.

use std::process::ExitCode;

use clap::Parser;
use frameworkcontroller::args::Args;
use frameworkcontroller::logging::{LAST_LINE, last_line};
use frameworkcontroller::settings::Environment;

fn main() -> ExitCode {
    match frameworkcontroller::start(&Args::parse(), &Environment::read()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            last_line(format!("frameworkcontroller: {error}\n"), std::io::stderr(), LAST_LINE);
            ExitCode::from(error.exit_code())
        }
    }
}
