//! From statuses, as the watch would show them, to verdicts and stories.

use framework_api::Framework;
use serde_json::{Value, json};

use super::chronicle::Chronicle;
use super::example::EXAMPLES;
use super::story;

const FLAKY: usize = 0;
const TRAINING: usize = 1;
const OUT_OF_MEMORY: usize = 2;
const STOPPED: usize = 3;

/// A Framework with one TaskRole, as it is at a second of 09:00.
struct Moment<'a> {
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

impl Moment<'_> {
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

fn seen(example: usize, moments: &[Moment<'_>]) -> Chronicle {
    let mut chronicle = Chronicle::begin(&EXAMPLES[example], EXAMPLES[example].framework().unwrap());
    moments.iter().for_each(|moment| chronicle.see(moment.framework(example)));
    chronicle
}

fn completed<'a>(role: &'a str, end: Option<Value>, tasks: &'a [(i32, Option<Value>)]) -> Moment<'a> {
    Moment { second: 9, state: "Completed", end, role, tasks }
}

#[test]
fn a_story_names_states_attempts_and_the_end() {
    let (failed, done) = (end(200, "ContainerTransientFailed"), end(0, "Succeeded"));
    let chronicle = seen(
        FLAKY,
        &[
            Moment {
                second: 0,
                state: "AttemptPreparing",
                end: None,
                role: "worker",
                tasks: &[(0, None), (0, None)],
            },
            Moment {
                second: 1,
                state: "AttemptRunning",
                end: None,
                role: "worker",
                tasks: &[(0, None), (0, None)],
            },
            Moment {
                second: 1,
                state: "AttemptRunning",
                end: None,
                role: "worker",
                tasks: &[(0, None), (0, failed)],
            },
            Moment { second: 9, state: "AttemptCompleted", end: done.clone(), role: "worker", tasks: &[] },
            completed("worker", done.clone(), &[(0, done.clone()), (1, done.clone())]),
        ],
    );
    assert_eq!(chronicle.judge(), Ok(()));
    let story = "\
flaky: a Task fails transiently and is retried (examples/flaky.yaml)
  states    09:00:00 AttemptPreparing; 09:00:01 AttemptRunning; 09:00:09 AttemptCompleted, Completed
  attempts  1 of the Framework; Task worker-1: attempt 0 ended as ContainerTransientFailed (200), attempt 1
            ended as Succeeded (0)
  end       Succeeded (0); because; 9 s after its start
  requests  none: total 0, and 0 for Events; 2n + 11 is 19 for 4 Tasks";
    assert_eq!(story::tell(&chronicle, &[]), story);
}

#[test]
fn an_end_that_was_not_meant_is_named() {
    let done = end(0, "Succeeded");
    let verdict = |example, moment| seen(example, &[moment]).judge().unwrap_err();
    let running = Moment { second: 1, state: "AttemptRunning", end: None, role: "worker", tasks: &[] };
    assert_eq!(verdict(FLAKY, running), "flaky did not complete: it is AttemptRunning");
    assert_eq!(
        verdict(STOPPED, completed("worker", done.clone(), &[])),
        "stopped completed with 0, not with -210"
    );
    let tasks = [(0, done.clone()), (0, done.clone())];
    assert_eq!(
        verdict(FLAKY, completed("worker", done.clone(), &tasks)),
        "flaky: Task worker-1 was not retried"
    );
    assert_eq!(verdict(TRAINING, completed("ps", done.clone(), &tasks)), "training: not all of ps still ran");
    let killed = end(-1200, "ContainerDockerOOMKilled");
    assert_eq!(
        verdict(OUT_OF_MEMORY, completed("worker", killed.clone(), &[(1, killed)])),
        "outofmemory was retried"
    );
}

#[test]
fn what_still_ran_when_the_policy_was_met_is_told() {
    let cut = end(-220, "FrameworkAttemptCompletion");
    let chronicle = seen(TRAINING, &[completed("ps", end(0, "Succeeded"), &[(0, cut.clone()), (0, cut)])]);
    assert_eq!(chronicle.judge(), Ok(()));
    let story = story::tell(&chronicle, &[]);
    assert!(story.contains("still unfinished then, and ended with it: ps-0, ps-1"), "{story}");
}
