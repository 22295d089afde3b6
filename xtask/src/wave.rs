//! `cargo xtask wave`: deadlines that pass and Frameworks that expire in one second, on a real control plane,
//! with an optimised controller. It prints how late everything was and holds the service levels.

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;

use crate::environment::{cargo, optimised};

/// Which wave.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// What happens.
    #[arg(long, value_enum)]
    scenario: Scenario,
    /// How many Frameworks there are; each scenario has a number of its own.
    #[arg(long)]
    frameworks: Option<usize>,
    /// Over how many seconds their expiries are spread.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    over_seconds: u32,
    /// What the controller may send in a second.
    #[arg(long, default_value_t = 5_000)]
    qps: u32,
}

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Scenario {
    /// Completed Frameworks expire (5,000 of them).
    TtlWave,
    /// Running Frameworks reach their deadline (150 of them).
    DeadlineWave,
    /// Frameworks that fail and are retried have both (500 of them).
    Both,
}

impl Arguments {
    /// The wave as the test reads it.
    fn environment(&self) -> Vec<(&'static str, String)> {
        let scenario = self.scenario.to_possible_value();
        let scenario = scenario.map_or_else(String::new, |value| value.get_name().to_owned());
        let mut told = vec![
            ("FRAMEWORK_WAVE_SCENARIO", scenario),
            ("FRAMEWORK_WAVE_OVER_SECONDS", self.over_seconds.to_string()),
            ("FRAMEWORK_WAVE_QPS", self.qps.to_string()),
        ];
        told.extend(self.frameworks.map(|count| ("FRAMEWORK_WAVE_FRAMEWORKS", count.to_string())));
        told
    }
}

/// Lets it come; an error says that a level was missed, and the test has told which.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let built = optimised(&["frameworkcontroller"])?;
    let status = cargo(&["test", "--test=e2e_wave", "--", "--nocapture"])
        .envs(arguments.environment())
        .env("FRAMEWORK_CONTROLLER", built.join("frameworkcontroller"))
        .status()
        .context("starting cargo")?;
    ensure!(status.success(), "a service level was missed, or the wave never came");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::root;

    #[test]
    fn the_test_knows_every_scenario_and_number() {
        let test = std::fs::read_to_string(root().join("tests/e2e_wave.rs")).unwrap();
        for scenario in Scenario::value_variants() {
            let arguments = Arguments { scenario: *scenario, frameworks: Some(1), over_seconds: 1, qps: 1 };
            let told = arguments.environment();
            assert_eq!(told.len(), 4);
            assert!(test.contains(&format!("Some(\"{}\")", told[0].1)), "{scenario:?}");
            for (name, _) in told {
                assert!(test.contains(name), "{name}");
            }
        }
    }
}
