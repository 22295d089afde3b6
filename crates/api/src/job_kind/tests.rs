//! Rows, and the values that they may not have.

use super::*;
use crate::config::Config;

#[test]
fn every_built_in_row_is_sound() {
    let rows: Vec<JobKindRow> = serde_saphyr::from_str(BUILT_IN).unwrap();
    assert_eq!(rows, built_in());
    for row in &rows {
        assert_eq!(contradiction(row), None, "{}", row.kind);
    }
}

/// A config file with a row, in which one line is replaced.
fn with(line: &str, other: &str) -> String {
    let row = "queueJobKinds:
- apiVersion: example.com/v1
  kind: Sweep
  plural: sweeps
  suspend: {pointer: /spec/suspend}
  podSets:
  - each: /spec/trials/*
    count: [[/replicas]]
    template: /template
  finished: {conditions: [Done]}
";
    assert!(row.contains(line), "{line}");
    row.replace(line, other)
}

#[test]
fn a_row_that_is_not_allowed_is_refused_with_the_allowed_form() {
    for (line, other, key, problem) in [
        ("example.com/v1", "v1", "[0].apiVersion", "'v1' is not allowed, give a group and a version such as"),
        ("kind: Sweep", "kind: sweep", "[0].kind", "'sweep' is not allowed, give a kind such as PyTorchJob"),
        (
            "plural: sweeps",
            "plural: Sweeps",
            "[0].plural",
            "give a resource in lower case such as pytorchjobs",
        ),
        ("/spec/suspend", "spec.suspend", "[0].suspend", "give a JSON pointer of up to 16 parts such as"),
        ("/spec/suspend", "/spec/*", "[0].suspend", "'/spec/*' is not allowed, give a pointer without *"),
        ("[[/replicas]]", "[[]]", "[0].podSets[0].count", "give 1 to 16 pointers"),
        ("[[/replicas]]", "[[/*/replicas]]", "[0].podSets[0].count", "give a pointer to one number"),
        ("template: /template", "template: ''", "[0].podSets[0].template", "give a pointer without *"),
        ("conditions: [Done]", "conditions: []", "[0].finished", "give 1 to 16 entries"),
        ("conditions: [Done]", "pointer: /status/phase", "", "give conditions, or pointer and values"),
        ("  finished", "  ask: example.com/ask\n  finished", "", "give podSets or ask"),
        ("kind: Sweep", "kind: JobSet", "", "JobSet is not allowed, give a kind other than"),
        ("  finished", "  colour: blue\n  finished", "[0].colour", "known are apiVersion, kind, plural"),
        (
            "  finished",
            "  deadline: ours\n  finished",
            "",
            "give deadline for TrainJob of trainer.kubeflow.org",
        ),
        ("  finished", "  child: JobSet\n  finished", "", "give child with ask"),
        (
            "  finished",
            "  child: Pod\n  finished",
            "[0].child",
            "unknown variant `Pod`, expected one of JobSet",
        ),
        ("  finished", "  deadline: mine\n  finished", "[0].deadline", "mine"),
        ("  suspend: {pointer: /spec/suspend}\n", "", "[0]", "missing field `suspend`"),
    ] {
        let error = Config::parse(&with(line, other)).expect_err(other).to_string();
        assert!(error.contains(&format!("queueJobKinds{key}")), "{other}: {error}");
        assert!(error.contains(problem), "{other}: {error}");
    }
    let twice = with("queueJobKinds:\n", "") + &with("queueJobKinds:\n", "");
    let error = Config::parse(&format!("queueJobKinds:\n{twice}")).expect_err("twice").to_string();
    assert!(error.contains("Sweep is not allowed, give one row for each kind"), "{error}");
}

#[test]
fn a_row_replaces_the_built_in_one_of_its_kind() {
    let config = Config::parse(&with("kind: Sweep", "kind: MPIJob")).unwrap();
    let rows = in_force(&config.queue_job_kinds);
    let found: Vec<_> = rows.iter().filter(|row| row.kind == "MPIJob").collect();
    assert_eq!(found, [&config.queue_job_kinds[0]]);
    assert_eq!(in_force(&[]), built_in());
}

#[test]
fn a_unit_is_named_after_kind_and_job() {
    let names = ["PyTorchJob", "Framework", "Job", "JobSet"].map(|kind| unit_name(kind, "a"));
    assert_eq!(names, ["pytorchjob-a", "framework-a", "job-a", "jobset-a"]);
}
