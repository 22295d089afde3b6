//! `cargo xtask large [--failing]`: a Framework of 10,000 Tasks on a real control plane, with an optimised
//! controller.

use anyhow::{Context, Result, ensure};

use crate::environment::{cargo, optimised};

/// How large.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// How many Tasks.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    tasks: u32,
    /// All of them fail, each with another message of 4 kB.
    #[arg(long)]
    failing: bool,
    /// With what the status of Tasks that fail is compressed.
    #[arg(long, requires = "failing", default_value = "zstd", value_parser = ["zstd", "gzip"])]
    codec: String,
}

/// Runs it and prints what it took; an error says that it went wrong, or took too much.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let built = optimised(&["frameworkcontroller"])?;
    let (program, test) = if arguments.failing {
        ("--test=e2e_large_failures", "tasks_that_all_fail_with_long_messages_fit")
    } else {
        ("--test=e2e_large", "a_large_framework_runs_to_its_end_within_its_bounds")
    };
    let status = cargo(&["test", program, "--", "--exact", test, "--nocapture"])
        .env("FRAMEWORK_LARGE_TASKS", arguments.tasks.to_string())
        .env("FRAMEWORK_LARGE_CODEC", &arguments.codec)
        .env("FRAMEWORK_CONTROLLER", built.join("frameworkcontroller"))
        .status()
        .context("starting cargo")?;
    ensure!(status.success(), "it did not end as it should, or took more than it may");
    Ok(())
}
