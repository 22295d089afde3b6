//! The program behind `cargo xtask bench`, with a scenario of a few seconds and the programs built for tests.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use serde_json::Value;

/// The directory of the programs: beside this one, as `cargo test --workspace` builds them. Without it, as by
/// `cargo test -p framework-bench`, they are built first.
fn programs() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let built = Path::new(env!("CARGO_BIN_EXE_framework-bench")).parent().unwrap().to_owned();
        if !["frameworkcontroller", "loadtest"].iter().all(|program| built.join(program).exists()) {
            let mut cargo = Command::new(std::env::var_os("CARGO").unwrap());
            assert!(cargo.args(["build", "--workspace", "--bins"]).status().unwrap().success());
        }
        built
    })
}

/// Runs three Frameworks of two Tasks, with these service levels.
fn bench(dir: &Path, levels: &str, more: &[&str]) -> Output {
    let file = dir.join("tiny.yaml");
    let text = format!(
        "description: A few.\n\
         groups:\n\
         - {{name: job, jobs: 3, taskRoles: [{{name: worker, taskNumber: 2, runSeconds: 1}}]}}\n\
         levels: {levels}\n"
    );
    std::fs::write(&file, text).unwrap();
    let mut program = Command::new(env!("CARGO_BIN_EXE_framework-bench"));
    program.arg("bench").arg("--scenario").arg(&file).arg("--out").arg(dir.join("out"));
    program.arg("--programs").arg(programs()).args(more).stdin(Stdio::null()).output().unwrap()
}

fn report(dir: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(dir.join("out/report.json")).unwrap()).unwrap()
}

#[test]
fn a_scenario_that_keeps_its_levels_succeeds_and_leaves_a_report() {
    let dir = tempfile::tempdir().unwrap();
    let output = bench(dir.path(), "{writeEfficiency: 0.5, refused: 0, reads: 0, unreconciled: 0}", &[]);
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{stdout}\n{stderr}");
    let report = report(dir.path());
    assert!(report["writeEfficiency"].as_f64().is_some_and(|share| share >= 0.5), "{report}");
    let run = &report["runs"][0];
    assert_eq!(run["totals"]["outcomes"]["Succeeded"], 3, "{report}");
    assert_eq!(run["requests"]["source"], "audit log");
    assert!(run["levels"].as_array().unwrap().len() >= 4 && run["processes"].as_array().unwrap().len() >= 5);
    let page = std::fs::read_to_string(dir.path().join("out/report.html")).unwrap();
    assert!(page.contains("write efficiency") && page.contains("drop-in defaults"));
    assert!(dir.path().join("out/controller.log").exists(), "the log of the controller is kept");
}

#[test]
fn replicas_run_it_as_one_controller_does_and_the_report_has_each_of_them() {
    let dir = tempfile::tempdir().unwrap();
    let levels = "{refused: 0, unreconciled: 0}";
    let output = bench(dir.path(), levels, &["--replicas", "1,3"]);
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{stdout}\n{stderr}");
    let report = report(dir.path());
    let runs = report["runs"].as_array().unwrap();
    let of = |run: &Value| run["replicas"].as_array().unwrap().clone();
    assert_eq!(runs.iter().map(|run| of(run).len()).collect::<Vec<_>>(), [1, 3], "{report}");
    assert!(runs[1]["profile"].as_str().unwrap().contains("3 replicas"));
    assert!(runs.iter().all(|run| run["totals"]["outcomes"]["Succeeded"] == 3), "{report}");
    let replicas = of(&runs[1]);
    let sum = |key: &str| replicas.iter().map(|replica| replica[key].as_u64().unwrap()).sum::<u64>();
    assert_eq!(sum("slots"), 256);
    assert_eq!(sum("requests"), runs[1]["requests"]["own"].as_u64().unwrap());
    assert!(replicas.iter().all(|replica| replica["receivedBytes"].as_u64().unwrap() > 0), "{report}");
    assert!(stdout.contains("replica 3: 8"), "{stdout}");
    assert!(dir.path().join("out/framework-3/replica-3.log").exists());
}

#[test]
fn a_missed_level_fails_the_command_by_name_after_the_report() {
    let dir = tempfile::tempdir().unwrap();
    // A report of an earlier run must not be taken for this one's.
    std::fs::create_dir(dir.path().join("out")).unwrap();
    std::fs::write(dir.path().join("out/report.json"), "{}").unwrap();
    let output = bench(dir.path(), "{writeEfficiency: 9, refused: 0}", &[]);
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(!output.status.success(), "{stdout}\n{stderr}");
    let missed = stderr.split_once("error: not all was kept:").map(|(_, missed)| missed);
    let missed = missed.unwrap_or_else(|| panic!("{stdout}\n{stderr}"));
    assert!(missed.contains("writeEfficiency ≥ 9, and it was ") && !missed.contains("refused"), "{missed}");
    assert!(report(dir.path())["writeEfficiency"].as_f64().is_some_and(|share| share < 9.0));
    assert!(dir.path().join("out/report.html").exists());
}

#[test]
fn an_interrupt_starts_no_further_run() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("long.yaml");
    let text = "description: One.\ntimeoutSeconds: 20\n\
         groups: [{name: job, jobs: 1, taskRoles: [{name: worker, taskNumber: 1, runSeconds: 600}]}]\n";
    std::fs::write(&file, text).unwrap();
    let mut program = Command::new(env!("CARGO_BIN_EXE_framework-bench"));
    program.arg("bench").arg("--scenario").arg(&file).arg("--out").arg(dir.path().join("out"));
    program.args(["--as", "framework,recommended", "--programs"]).arg(programs());
    // A group of its own: an interrupt from a terminal goes to all of its processes.
    program.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).process_group(0);
    let mut bench = program.spawn().unwrap();
    let (mut stderr, mut said) = (BufReader::new(bench.stderr.take().unwrap()), String::new());
    while !said.contains("long: 1 job with 1 Task, by frameworkcontroller") {
        assert!(stderr.read_line(&mut said).unwrap() > 0, "it ended: {said}");
    }
    let group = bench.id().to_string();
    assert!(Command::new("sh").args(["-c", "kill -INT \"-$0\"", &group]).status().unwrap().success());
    stderr.read_to_string(&mut said).unwrap();
    assert!(!bench.wait().unwrap().success());
    assert!(said.contains("by Framework: interrupted"), "{said}");
    assert_eq!(said.matches("starting a control plane").count(), 1, "{said}");
}

#[test]
fn a_termination_between_two_runs_is_not_lost() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("tiny.yaml");
    let text = "description: One.\n\
         groups: [{name: job, jobs: 1, taskRoles: [{name: worker, taskNumber: 1, runSeconds: 1}]}]\n";
    std::fs::write(&file, text).unwrap();
    let mut program = Command::new(env!("CARGO_BIN_EXE_framework-bench"));
    program.arg("bench").arg("--scenario").arg(&file).arg("--out").arg(dir.path().join("out"));
    program.args(["--as", "framework,recommended", "--programs"]).arg(programs());
    program.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut bench = program.spawn().unwrap();
    let (mut stderr, mut said) = (BufReader::new(bench.stderr.take().unwrap()), String::new());
    while said.matches("starting a control plane").count() < 2 {
        assert!(stderr.read_line(&mut said).unwrap() > 0, "it ended: {said}");
    }
    let pid = bench.id().to_string();
    assert!(Command::new("sh").args(["-c", "kill -TERM \"$0\"", &pid]).status().unwrap().success());
    stderr.read_to_string(&mut said).unwrap();
    assert!(!bench.wait().unwrap().success());
    assert!(said.contains("by Recommended: interrupted"), "{said}");
    assert_eq!(said.matches("tiny: 1 job with 1 Task, by").count(), 1, "{said}");
}

#[test]
fn an_unknown_scenario_is_refused_before_anything_is_built() {
    let refused = |name: &str| {
        let mut program = Command::new(env!("CARGO_BIN_EXE_framework-bench"));
        let output = program.args(["bench", "--scenario", name]).output().unwrap();
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let said = refused("brust");
    assert!(said.contains("there is no scenario brust: there are burst, "), "{said}");
    assert!(refused("./brust.yaml").contains("there is no scenario ./brust.yaml"));
}

#[test]
fn a_system_or_a_number_of_replicas_named_twice_is_refused() {
    for (option, values, expected) in [
        ("--replicas", "1,2,2", "--replicas: 2 is named twice"),
        ("--as", "job,framework,job", "--as: job is named twice"),
    ] {
        let mut program = Command::new(env!("CARGO_BIN_EXE_framework-bench"));
        // Without programs nothing could be run.
        program.args(["bench", "--scenario", "burst", "--programs", "/nowhere", option, values]);
        let output = program.output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && stderr.contains(expected), "{stderr}");
    }
}

#[test]
fn a_scenario_that_is_not_valid_is_refused_before_a_cluster_starts() {
    let dir = tempfile::tempdir().unwrap();
    let output = bench(dir.path(), "{efficiency: 1}", &[]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && stderr.contains("efficiency"), "{stderr}");
    assert!(stderr.contains("tiny.yaml is not valid") && !stderr.contains("control plane"), "{stderr}");
}

#[test]
fn settings_that_no_run_would_use_are_refused() {
    for (arguments, expected) in [
        (&["--shorten", "0.1"][..], "--scenario <NAME>"),
        (&["--as", "job"], "--scenario <NAME>"),
        (&["--scenario", "burst", "--scale", "0"], "must be a number above 0"),
        (&["--scenario", "burst", "--shorten", "inf"], "must be a number above 0"),
        (&["--scenario", "burst", "--qps", "0"], "'0' for '--qps"),
        (&["--scenario", "burst", "--reference", "/nowhere"], "--reference: there is no program /nowhere"),
    ] {
        let mut program = Command::new(env!("CARGO_BIN_EXE_framework-bench"));
        // Without programs nothing could be run.
        let output = program.arg("bench").args(arguments).args(["--programs", "/nowhere"]).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && stderr.contains(expected), "{arguments:?}: {stderr}");
    }
}

#[test]
fn a_measurement_of_no_barrier_and_one_of_no_task_are_refused() {
    for option in ["--tasks", "--barriers", "--looks"] {
        let output = Command::new(env!("CARGO_BIN_EXE_framework-bench"))
            .args(["barrier", option, "0"])
            // No cluster may start.
            .env("PATH", "/nowhere")
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(stderr.contains(&format!("invalid value '0' for '{option} ")), "{stderr}");
    }
}
