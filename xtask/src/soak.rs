//! `cargo xtask soak NAME`: tests of the gate once more, longer, larger or more often.

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::builder::RangedU64ValueParser;
use clap::{Subcommand, ValueEnum};
use framework_programs::workspace::{cargo, root, target_dir};
use framework_programs::{Binaries, OLDEST_KUBERNETES_VERSION};

use crate::programs;
use crate::took::Took;

mod dashboard;
mod flakes;
mod fuzz;
mod operators;
mod run;
mod supply;
mod upgrade;

use run::{Run, soak};

/// The soak test to run.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    test: Test,
}

#[derive(Clone, Debug, Subcommand)]
enum Test {
    /// Render, lint and install the Helm chart by Helm, which is built first.
    Chart,
    /// Run every end-to-end program many times over, and list the tests that failed even once.
    Flakes(flakes::Arguments),
    /// Play more inputs on the fuzz target of each decoder.
    Fuzz(fuzz::Arguments),
    /// Run a Framework of 10,000 Tasks on a real control plane, and print its cost.
    Large {
        /// How many Tasks it has.
        #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=10_000))]
        tasks: u32,
        /// All Tasks fail, each with another message of 4 kB.
        #[arg(long)]
        failing: bool,
        /// The compression of the status of Tasks that fail.
        #[arg(long, requires = "failing", default_value = "zstd", value_parser = ["zstd", "gzip"])]
        codec: String,
    },
    /// Run the tests that depend on the API server most on the oldest supported version of Kubernetes.
    Oldest {
        /// Run this test program instead; may be given several times.
        #[arg(long)]
        test: Vec<String>,
    },
    /// Kill replicas one after the other, and print the throughput that the others lose.
    Kills {
        /// How many are killed.
        #[arg(long, default_value_t = 10, value_parser = at_least_one())]
        runs: usize,
    },
    /// Let jobs of operators wait in queues under the CRDs of these operators, which Go downloads first.
    Operators,
    /// Run good Frameworks alone, beside harmless objects and beside poisoned ones, and print how long they
    /// take.
    Poison {
        /// How many harmless and how many poisoned objects there are, of all kinds in turn.
        #[arg(long, default_value_t = 1_000, value_parser = at_least_one())]
        objects: usize,
        /// How many good Frameworks run each time.
        #[arg(long, default_value_t = 1_000, value_parser = at_least_one())]
        frameworks: usize,
    },
    /// Let Prometheus, which is built first, scrape a real run, and ask it each query and each alert.
    Prometheus {
        /// Let Grafana's components draw the dashboard in Chromium; npm installs them first.
        #[arg(long)]
        draw: bool,
    },
    /// Walk more seeds through the simulated cluster.
    Sim {
        /// How many seeds to walk.
        #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..))]
        seeds: u64,
        /// The first seed.
        #[arg(long, default_value_t = 0)]
        from: u64,
    },
    /// Rescale more Frameworks at random on a real control plane.
    Storm {
        /// How many Frameworks there are.
        #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
        frameworks: u64,
        /// How many rescales there are, over all Frameworks.
        #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..))]
        rescales: u64,
        /// The seed of the users' actions.
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Check the crates by cargo-deny, and compare the two lists of crates that a release carries.
    ///
    /// Cargo installs the tools first.
    Supply,
    /// Run Frameworks of one tenant alone, beside thousands of another one, and beside some that change all
    /// the time, and print how long they take.
    Tenants {
        /// How many Frameworks the other tenant has.
        #[arg(long, default_value_t = 5_000, value_parser = at_least_one())]
        frameworks: usize,
        /// How many Frameworks of the first tenant run each time.
        #[arg(long, default_value_t = 100, value_parser = at_least_one())]
        lives: usize,
    },
    /// Take a cluster with live Frameworks from an earlier commit's controller to this one, and back.
    Upgrade(upgrade::Arguments),
    /// Let deadlines pass and jobs expire in one second, print the delays, and hold the service levels.
    Wave {
        /// The kind of the wave.
        #[arg(long, value_enum)]
        scenario: Scenario,
        /// How many Frameworks or TrainJobs there are; each scenario has a default of its own.
        #[arg(long, visible_alias = "jobs", value_parser = at_least_one())]
        frameworks: Option<usize>,
        /// Over how many seconds their expiries are spread.
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
        over_seconds: u32,
        /// The requests that the controller may send in a second.
        #[arg(long, default_value_t = 5_000, value_parser = clap::value_parser!(u32).range(1..))]
        qps: u32,
    },
}

/// The size of a run that disturbs replicas.
#[derive(clap::Args)]
pub(crate) struct Chaos {
    /// For how long another round of injections begins.
    #[arg(long, default_value_t = 10)]
    minutes: u64,
    /// How many Frameworks of three Tasks run at a time.
    #[arg(long, default_value_t = 300, value_parser = at_least_one())]
    frameworks: usize,
    /// The seed of the order of the injections and of the Frameworks.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The only kind of injection, such as KillLeader: ten of it in each round, instead of one of each kind.
    #[arg(long)]
    only: Option<String>,
}

/// A test of nothing would pass.
fn at_least_one() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..)
}

impl Arguments {
    /// Whether this program becomes another one, which ends its own children.
    pub(crate) fn become_another_program(&self) -> bool {
        matches!(self.test, Test::Upgrade(_))
    }
}

/// The kind of a wave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Scenario {
    /// Completed Frameworks expire (5,000 of them).
    TtlWave,
    /// Running Frameworks reach their deadline (150 of them).
    DeadlineWave,
    /// Frameworks that fail and are retried have both (500 of them).
    Both,
    /// TrainJobs have both (5,000 of them).
    TrainJobs,
}

/// The tests for the oldest version: programs, and parts of the names of their tests.
const ON_THE_OLDEST: [(&[&str], &[&str]); 2] = [
    (&["api"], &[]),
    (
        &["chaos", "e2e", "manual"],
        &[
            "deadline",
            "force_deletion::",
            "job_kinds",
            "job_rows",
            "job_units",
            "queue",
            "skew",
            "smoke::",
            "ttl",
        ],
    ),
];

/// Runs a soak test; fails if a test of it failed.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    match &arguments.test {
        Test::Flakes(arguments) => flakes::run(arguments),
        Test::Fuzz(arguments) => fuzz::run(arguments),
        Test::Oldest { test } => oldest(test),
        Test::Operators => operators::run(),
        Test::Supply => supply::run(),
        Test::Upgrade(arguments) => upgrade::run(arguments),
        Test::Prometheus { draw: true } => dashboard::build().and_then(|()| soak(&dashboard::test())),
        test => soak(&test.run()),
    }
}

/// Disturbs replicas; fails if a Framework was lost, stuck, or a Task ran twice. The last line that it prints
/// counts these.
pub(crate) fn chaos(chaos: &Chaos) -> Result<()> {
    let summary = root().join(target_dir()).join(format!("chaos-{}", std::process::id()));
    let outcome = soak(&chaos.run(&summary));
    let line = fs::read_to_string(&summary).context("the run left no summary");
    // A file that stays does no harm.
    let _ = fs::remove_file(&summary);
    line.iter().try_for_each(|line| write!(io::stdout(), "{line}"))?;
    outcome.and(line.map(drop))
}

impl Chaos {
    /// The run, which writes its last line to this file, too.
    fn run(&self, summary: &Path) -> Run {
        let mut environment = vec![
            ("FRAMEWORK_CHAOS_MINUTES", self.minutes.to_string()),
            ("FRAMEWORK_CHAOS_FRAMEWORKS", self.frameworks.to_string()),
            ("FRAMEWORK_CHAOS_SEED", self.seed.to_string()),
            ("FRAMEWORK_CHAOS_SUMMARY", summary.display().to_string()),
        ];
        environment.extend(self.only.clone().map(|only| ("FRAMEWORK_CHAOS_ONLY", only)));
        Run { programs: &["chaos"], tests: &["replicas::"], environment, optimised: true }
    }
}

impl Test {
    /// The run of a test that is one run.
    fn run(&self) -> Run {
        match self {
            Test::Sim { seeds, from } => Run {
                programs: &["sim"],
                tests: &["queue::", "replicas::", "walk::"],
                environment: vec![(
                    "FRAMEWORK_SIM_SEEDS",
                    format!("{from}..{}", from.saturating_add(*seeds)),
                )],
                ..Run::default()
            },
            Test::Storm { frameworks, rescales, seed } => Run {
                programs: &["chaos"],
                tests: &["rescale::"],
                environment: vec![
                    ("FRAMEWORK_STORM_FRAMEWORKS", frameworks.to_string()),
                    ("FRAMEWORK_STORM_RESCALES", rescales.to_string()),
                    ("FRAMEWORK_STORM_SEED", seed.to_string()),
                ],
                ..Run::default()
            },
            Test::Kills { runs } => Run {
                programs: &["chaos"],
                tests: &["kills::"],
                environment: vec![("FRAMEWORK_KILLS_RUNS", runs.to_string())],
                optimised: true,
            },
            Test::Poison { objects, frameworks } => Run {
                programs: &["e2e"],
                tests: &["poison::poisoned_objects_stop_no_good_framework_and_cost_few_requests"],
                environment: vec![
                    ("FRAMEWORK_POISON_OBJECTS", objects.to_string()),
                    ("FRAMEWORK_POISON_FRAMEWORKS", frameworks.to_string()),
                ],
                optimised: true,
            },
            Test::Tenants { frameworks, lives } => Run {
                programs: &["e2e"],
                tests: &["tenants::"],
                environment: vec![
                    ("FRAMEWORK_TENANTS_FRAMEWORKS", frameworks.to_string()),
                    ("FRAMEWORK_TENANTS_LIVES", lives.to_string()),
                ],
                optimised: true,
            },
            Test::Large { tasks, failing, codec } => Run {
                programs: &["e2e"],
                tests: match failing {
                    true => &["large_failures::tasks_that_all_fail_with_long_messages_fit"],
                    false => &["large::a_large_framework_runs_to_its_end_within_its_bounds"],
                },
                environment: vec![
                    ("FRAMEWORK_LARGE_TASKS", tasks.to_string()),
                    ("FRAMEWORK_LARGE_CODEC", codec.clone()),
                ],
                optimised: true,
            },
            Test::Wave { scenario, frameworks, over_seconds, qps } => {
                scenario.run(*frameworks, *over_seconds, *qps)
            }
            Test::Chart => Run { programs: &["chart"], ..Run::default() },
            Test::Prometheus { draw: false } => Run { programs: &["prometheus"], ..Run::default() },
            Test::Prometheus { draw: true } => dashboard::test(),
            Test::Operators => operators::test(&operators::directory()),
            Test::Flakes(_) | Test::Fuzz(_) | Test::Oldest { .. } | Test::Supply | Test::Upgrade(_) => {
                Run::default()
            }
        }
    }
}

impl Scenario {
    fn run(self, jobs: Option<usize>, over_seconds: u32, qps: u32) -> Run {
        let mut environment = vec![("FRAMEWORK_WAVE_QPS", qps.to_string())];
        let tests: &[&str] = if self == Scenario::TrainJobs {
            environment.push(("FRAMEWORK_WAVE_TRAIN_JOBS", jobs.unwrap_or(5_000).to_string()));
            &["train_jobs::many_with_both_ends_in_one_second_end_once_and_never_early"]
        } else {
            environment.push(("FRAMEWORK_WAVE_SCENARIO", self.name()));
            environment.push(("FRAMEWORK_WAVE_OVER_SECONDS", over_seconds.to_string()));
            environment.extend(jobs.map(|count| ("FRAMEWORK_WAVE_FRAMEWORKS", count.to_string())));
            &["wave::"]
        };
        Run { programs: &["e2e"], tests, environment, optimised: true }
    }

    fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

/// The gate runs on the newest version only: the programs of another version take minutes to build.
fn oldest(tests: &[String]) -> Result<()> {
    programs::check(tests)?;
    let began = Instant::now();
    let programs = Binaries::oldest()?;
    eprintln!("Kubernetes {OLDEST_KUBERNETES_VERSION} is ready after {}", Took(began.elapsed()));
    let mut failed = Vec::new();
    let mut run = |programs_to_run: &[&str], filters: &[&str]| {
        let mut cargo = cargo(&["test", "--workspace", "--no-fail-fast"]);
        cargo.args(programs_to_run.iter().map(|program| format!("--test={program}")));
        cargo.arg("--").args(filters).env("KUBEBUILDER_ASSETS", programs.dir());
        if !cargo.status().context("starting cargo")?.success() {
            failed.push(programs_to_run.join(", "));
        }
        anyhow::Ok(())
    };
    if tests.is_empty() {
        ON_THE_OLDEST.iter().try_for_each(|(programs, filters)| run(programs, filters))?;
    } else {
        run(&tests.iter().map(String::as_str).collect::<Vec<_>>(), &[])?;
    }
    if !failed.is_empty() {
        bail!("tests failed on Kubernetes {OLDEST_KUBERNETES_VERSION} in {}", failed.join(", "));
    }
    eprintln!("all tests passed on Kubernetes {OLDEST_KUBERNETES_VERSION}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn parse(line: &str) -> Test {
        Line::parse_from(std::iter::once("soak").chain(line.split(' '))).arguments.test
    }

    fn source(program: &str, module: &str) -> String {
        let file = root().join("tests").join(program).join(module).with_extension("rs");
        std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
    }

    /// All files of a program.
    fn sources(program: &str) -> String {
        let dir = root().join("tests").join(program);
        let files = std::fs::read_dir(&dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
        let files = files.map(|file| file.expect("a file").path());
        let sources = files.filter(|file| file.extension().is_some_and(|extension| extension == "rs"));
        sources.map(|file| std::fs::read_to_string(file).expect("it is readable")).collect()
    }

    #[test]
    fn every_named_test_is_there_and_reads_its_variables() {
        let chaos = Chaos { minutes: 1, frameworks: 1, seed: 1, only: None }.run(Path::new("summary"));
        let lines = [
            "sim",
            "storm",
            "large",
            "large --failing",
            "kills",
            "operators",
            "poison",
            "prometheus --draw",
            "tenants",
            "wave --scenario ttl-wave --frameworks 1",
            "wave --scenario deadline-wave",
            "wave --scenario both",
            "wave --scenario train-jobs --jobs 1",
        ];
        let soaks = lines.map(|line| (line, parse(line).run()));
        for (line, run) in soaks.into_iter().chain([("chaos", chaos)]) {
            for test in run.tests {
                let (module, name) = test.split_once("::").expect("a module and a name");
                let text = source(run.programs[0], module);
                assert!(name.is_empty() || text.contains(&format!("fn {name}(")), "{line}: {test}");
            }
            let texts = sources(run.programs[0]);
            for (name, value) in &run.environment {
                assert!(texts.contains(name), "{line}: no test reads {name}");
                let known =
                    *name != "FRAMEWORK_WAVE_SCENARIO" || texts.contains(&format!("Some(\"{value}\")"));
                assert!(known, "{line}: no test knows {value}");
            }
        }
    }

    #[test]
    fn a_test_of_nothing_is_refused() {
        for line in [
            "kills --runs 0",
            "poison --objects 0",
            "poison --frameworks 0",
            "sim --seeds 0",
            "storm --frameworks 0",
            "storm --rescales 0",
            "fuzz --inputs 0",
            "tenants --frameworks 0",
            "tenants --lives 0",
            "wave --scenario both --frameworks 0",
            "wave --scenario both --qps 0",
        ] {
            let refused = Line::try_parse_from(std::iter::once("soak").chain(line.split(' ')));
            assert!(refused.is_err_and(|error| error.to_string().contains("0 is not in 1..")), "{line}");
        }
    }

    #[test]
    fn every_filter_of_the_oldest_version_finds_a_module() {
        for (programs, filters) in ON_THE_OLDEST {
            assert!(programs.iter().all(|program| root().join("tests").join(program).is_dir()));
            for filter in filters {
                let module = filter.trim_end_matches("::");
                let found = programs.iter().any(|program| {
                    root().join("tests").join(program).join(module).with_extension("rs").exists()
                });
                assert!(found, "no program of {programs:?} has a module {module}");
            }
        }
    }

    #[test]
    fn the_seeds_are_a_range_from_the_first() {
        let seeds = |line: &str| parse(line).run().environment[0].1.clone();
        assert_eq!(seeds("sim --seeds 10 --from 5"), "5..15");
        assert_eq!(seeds(&format!("sim --seeds 10 --from {}", u64::MAX)), format!("{0}..{0}", u64::MAX));
    }
}
