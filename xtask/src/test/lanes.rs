//! The compiled test programs, run in lanes side by side.
//!
//! The programs that play on a real control plane wait for timers most of their time: `e2e` leaves two thirds
//! of two cores idle, `chaos` five sixths. The others compute. So the slowest have lanes of their own, and
//! the rest runs beside them. Within a lane one program runs after the other.

use std::collections::BTreeMap;
use std::thread;
use std::time::Instant;

use anyhow::Result;

use super::shell::{say, shell};
use super::tally::Tally;
use crate::programs::integration_tests;
use crate::took::Took;

/// Runs every test program of the workspace, also after a failure.
const RUN: &str = "cargo test --workspace --no-fail-fast";

/// The lanes with programs of their own. Those of `e2e2` wait for servers, and run after its part of `e2e`:
/// that lane would end first.
const SLOW: [(&str, &[&str]); 3] = [
    ("chaos", &["chaos", "demo", "manual"]),
    ("e2e", &["e2e"]),
    ("e2e2", &["api", "bench", "cluster", "faults", "itself"]),
];

/// The lane that is divided, and the part of its tests that runs in another lane, by texts in their names.
/// Most tests of `e2e` need the control plane for themselves; each part has one.
const DIVIDED: &str = "e2e";
const SECOND_PART: [&str; 12] = [
    "replicas::",
    "rescale::",
    "restart::",
    "rules::",
    "scenarios::",
    "smoke::",
    "startup::",
    "take_over::",
    "tenants::",
    "train_jobs::",
    "ttl::",
    "wave::",
];

/// Programs that `cargo xtask soak` runs instead: to build Helm or Prometheus takes too long for the gate.
const LEFT_OUT: [&str; 2] = ["chart", "prometheus"];

/// Commands that run one after the other, beside those of other lanes.
#[derive(Debug, PartialEq, Eq)]
struct Lane {
    name: &'static str,
    commands: Vec<String>,
}

/// Runs all lanes to their ends; adds up their tests, and returns the commands that failed.
pub(super) fn run(tally: &mut Tally) -> Result<Vec<String>> {
    let lanes = lanes(integration_tests()?.into_keys());
    let ended: Vec<Result<(Tally, Vec<String>)>> = thread::scope(|scope| {
        let running: Vec<_> = lanes.iter().map(|lane| scope.spawn(|| lane.run())).collect();
        // A panic of a lane is one of the gate.
        running.into_iter().map(|lane| lane.join().expect("a lane does not panic")).collect()
    });
    let mut failed = Vec::new();
    for lane in ended {
        let (its, commands) = lane?;
        *tally += its;
        failed.extend(commands);
    }
    Ok(failed)
}

/// All lanes; `programs` are the names of all integration test programs.
fn lanes(programs: impl Iterator<Item = String>) -> Vec<Lane> {
    let mut by_lane: BTreeMap<&str, String> = BTreeMap::new();
    for program in programs.filter(|program| !LEFT_OUT.contains(&program.as_str())) {
        let slow = SLOW.iter().find(|(_, slow)| slow.contains(&program.as_str()));
        let tests = by_lane.entry(slow.map_or("rest", |(name, _)| name)).or_default();
        tests.push_str(&format!(" --test {program}"));
    }
    let rest = by_lane.remove("rest").unwrap_or_default();
    let mut lanes = Vec::new();
    for (name, tests) in by_lane {
        let command = format!("{RUN}{tests}");
        if name == DIVIDED {
            let others: String = SECOND_PART.iter().map(|text| format!(" --skip {text}")).collect();
            let second = format!("{command} -- {}", SECOND_PART.join(" "));
            lanes.push(Lane { name, commands: vec![format!("{command} --{others}")] });
            lanes.push(Lane { name: "e2e2", commands: vec![second] });
        } else if let Some(lane) = lanes.iter_mut().find(|lane| lane.name == name) {
            lane.commands.push(command);
        } else {
            lanes.push(Lane { name, commands: vec![command] });
        }
    }
    let rest = format!("{RUN} --lib --bins --examples --bench '*'{rest}");
    lanes.push(Lane { name: "rest", commands: vec![rest, format!("{RUN} --doc")] });
    lanes
}

impl Lane {
    /// Runs its commands, also after one has failed; returns those that failed.
    fn run(&self) -> Result<(Tally, Vec<String>)> {
        let (began, mut tally, mut failed) = (Instant::now(), Tally::default(), Vec::new());
        for command in &self.commands {
            say(&format!("{}: {command}", self.name));
            // With cargo's standard error, so that each program's name has its label.
            if !shell(&format!("{command} 2>&1"), &mut tally, &format!("{:5} | ", self.name))?.success() {
                failed.push(command.clone());
            }
        }
        say(&format!("{}: {tally} after {}", self.name, Took(began.elapsed())));
        Ok((tally, failed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_test_program_runs_in_one_lane() {
        let programs =
            ["api", "chaos", "chart", "core", "demo", "e2e", "manual", "prometheus"].map(str::to_owned);
        let lanes = lanes(programs.into_iter());
        let names: Vec<&str> = lanes.iter().map(|lane| lane.name).collect();
        assert_eq!(names, ["chaos", "e2e", "e2e2", "rest"]);
        assert_eq!(lanes[0].commands, [format!("{RUN} --test chaos --test demo --test manual")]);
        assert_eq!(lanes[2].commands[1..], [format!("{RUN} --test api")]);
        let rest = format!("{RUN} --lib --bins --examples --bench '*' --test core");
        assert_eq!(lanes[3].commands, [rest, format!("{RUN} --doc")]);
    }

    #[test]
    fn a_divided_program_runs_each_of_its_tests_once() {
        let lanes = lanes(["e2e".to_owned()].into_iter());
        let arguments = |lane: &Lane| lane.commands[0].split(" -- ").nth(1).expect("a choice").to_owned();
        let (first, second) = (arguments(&lanes[0]), arguments(&lanes[1]));
        let skipped: Vec<&str> = first.split(' ').filter(|word| *word != "--skip").collect();
        assert_eq!(skipped, second.split(' ').collect::<Vec<_>>());
        assert_eq!(first.matches("--skip ").count(), skipped.len());
    }

    #[test]
    fn the_slow_programs_exist() {
        let programs = integration_tests().unwrap();
        for program in SLOW.iter().flat_map(|(_, programs)| *programs) {
            assert!(programs.contains_key(*program), "{program} is not among {:?}", programs.keys());
        }
    }
}
