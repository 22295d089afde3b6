//! From statuses, as the watch would show them, to checks and summaries.

use framework_api::Framework;
use serde_json::{Value, json};

use crate::example::EXAMPLES;
use crate::history::History;
use crate::summary;

const FLAKY: usize = 0;
const TRAINING: usize = 1;
const OUT_OF_MEMORY: usize = 2;
const STOPPED: usize = 3;

/// A Framework with one TaskRole, as it is at a second of 09:00.
struct Snapshot<'a> {
    second: u8,
    state: &'a str,
    /// How the Framework's attempt ended.
    end: Option<Value>,
    role: &'a str,
    /// Attempt of each Task, and how that ended.
    tasks: &'a [(i32, Option<Value>)],
}

fn end(code: i32, phrase: &str) -> Option<Value> {
    let name = if code == 0 { "Succeeded" } else { "Failed" };
    let kind = json!({"name": name, "attributes": []});
    Some(json!({"code": code, "phrase": phrase, "type": kind, "diagnostics": "because"}))
}

fn time(second: u8) -> String {
    format!("2026-11-21T09:00:{second:02}Z")
}

impl Snapshot<'_> {
    fn framework(&self, example: usize) -> Framework {
        let mut framework = EXAMPLES[example].framework().unwrap();
        framework.status = Some(serde_json::from_value(self.status()).unwrap());
        framework
    }

    fn status(&self) -> Value {
        let completion = (self.state == "Completed").then(|| time(self.second));
        let task = |(index, (attempt, end)): (usize, &(i32, Option<Value>))| {
            json!({
                "index": index, "instanceUID": "", "startTime": time(0), "state": "AttemptRunning",
                "transitionTime": time(1), "retryPolicyStatus": retried(*attempt),
                "attemptStatus": {
                    "id": attempt, "startTime": time(0), "runTime": time(1), "podName": "",
                    "completionStatus": end,
                },
            })
        };
        let tasks: Vec<Value> = self.tasks.iter().enumerate().map(task).collect();
        json!({
            "startTime": time(0), "state": self.state, "transitionTime": time(self.second),
            "completionTime": completion, "retryPolicyStatus": retried(0),
            "attemptStatus": {
                "id": 0, "startTime": time(0), "configMapName": "", "completionStatus": self.end,
                "taskRoleStatuses": [{"name": self.role, "instanceUID": "", "taskStatuses": tasks}],
            },
        })
    }
}

fn retried(count: i32) -> Value {
    json!({"totalRetriedCount": count, "accountableRetriedCount": 0, "retryDelaySec": null})
}

fn history(example: usize, snapshots: &[Snapshot<'_>]) -> History {
    let mut history = History::new(&EXAMPLES[example], EXAMPLES[example].framework().unwrap());
    snapshots.iter().for_each(|snapshot| history.record(snapshot.framework(example)));
    history
}

fn completed<'a>(role: &'a str, end: Option<Value>, tasks: &'a [(i32, Option<Value>)]) -> Snapshot<'a> {
    Snapshot { second: 9, state: "Completed", end, role, tasks }
}

#[test]
fn a_summary_names_states_attempts_and_the_end() {
    let (failed, done) = (end(200, "ContainerTransientFailed"), end(0, "Succeeded"));
    let history = history(
        FLAKY,
        &[
            Snapshot {
                second: 0,
                state: "AttemptPreparing",
                end: None,
                role: "worker",
                tasks: &[(0, None), (0, None)],
            },
            Snapshot {
                second: 1,
                state: "AttemptRunning",
                end: None,
                role: "worker",
                tasks: &[(0, None), (0, None)],
            },
            Snapshot {
                second: 1,
                state: "AttemptRunning",
                end: None,
                role: "worker",
                tasks: &[(0, None), (0, failed)],
            },
            Snapshot { second: 9, state: "AttemptCompleted", end: done.clone(), role: "worker", tasks: &[] },
            completed("worker", done.clone(), &[(0, done.clone()), (1, done.clone())]),
        ],
    );
    assert_eq!(history.check(), Ok(()));
    let summary = "\
flaky: a Task fails transiently and is retried (examples/flaky.yaml)
  states    09:00:00 AttemptPreparing; 09:00:01 AttemptRunning; 09:00:09 AttemptCompleted, Completed
  attempts  1 of the Framework; Task worker-1: attempt 0 ended as ContainerTransientFailed (200), attempt 1
            ended as Succeeded (0)
  end       Succeeded (0); because; 9 s after its start
  requests  none: total 0, and 0 for Events; 2n + 11 is 19 for 4 Tasks";
    assert_eq!(summary::of(&history, &[]), summary);
}

#[test]
fn an_unexpected_end_is_named() {
    let done = end(0, "Succeeded");
    let failure = |example, snapshot| history(example, &[snapshot]).check().unwrap_err();
    let running = Snapshot { second: 1, state: "AttemptRunning", end: None, role: "worker", tasks: &[] };
    assert_eq!(failure(FLAKY, running), "flaky did not complete: it is AttemptRunning");
    assert_eq!(
        failure(STOPPED, completed("worker", done.clone(), &[])),
        "stopped completed with 0, not with -210"
    );
    let tasks = [(0, done.clone()), (0, done.clone())];
    assert_eq!(
        failure(FLAKY, completed("worker", done.clone(), &tasks)),
        "flaky: Task worker-1 was not retried"
    );
    assert_eq!(failure(TRAINING, completed("ps", done.clone(), &tasks)), "training: not all of ps still ran");
    let killed = end(-1200, "ContainerDockerOOMKilled");
    assert_eq!(
        failure(OUT_OF_MEMORY, completed("worker", killed.clone(), &[(1, killed)])),
        "outofmemory was retried"
    );
}

#[test]
fn tasks_that_still_ran_at_the_end_are_named() {
    let cut = end(-220, "FrameworkAttemptCompletion");
    let history = history(TRAINING, &[completed("ps", end(0, "Succeeded"), &[(0, cut.clone()), (0, cut)])]);
    assert_eq!(history.check(), Ok(()));
    let summary = summary::of(&history, &[]);
    assert!(summary.contains("still unfinished then, and ended with it: ps-0, ps-1"), "{summary}");
}
