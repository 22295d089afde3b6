//! The phases of a Framework that take time, as the Frameworks of a take-over are in the middle of them.

use anyhow::Result;
use framework_api::status::TaskStatus;
use framework_api::{Framework, State};
use framework_testcluster::pod;
use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::quiescence;

/// The delay of a retry, in seconds: longer than 50 Frameworks take to begin.
const RETRY_DELAY: i64 = 40;
/// How long a Pod that ends by itself runs.
const RUN: &str = "60s";
/// How long a removed Pod takes to end.
const STOP: &str = "40s";
/// Tasks that fail, with messages that make the original compress the status: from 700 KiB on.
const FAILED: usize = 120;
const MESSAGE: usize = 4000;

/// The change that a Framework is in the middle of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Three Tasks run without an end.
    Endless,
    /// The only Task is about to succeed.
    Ending,
    /// The next attempt waits for its delay.
    Retrying,
    /// Two of four Tasks are being removed.
    Shrinking,
    /// It is not started yet.
    Held,
    /// Its status is large, because many of its Tasks have failed.
    Large,
}

/// The settings of [`RETRY_DELAY`].
pub(super) fn retry_delay_settings() -> String {
    let name = "RetryDelaySecForTransientConflictFailed";
    format!("frameworkMin{name}: {RETRY_DELAY}\nframeworkMax{name}: {RETRY_DELAY}\n")
}

/// The code of a Framework that is Completed.
pub(super) fn code(framework: &Framework) -> Option<i32> {
    let status = framework.status.as_ref().filter(|status| status.state == State::Completed)?;
    status.attempt_status.completion_status.as_ref().map(|end| end.code)
}

fn tasks(framework: &Framework) -> impl Iterator<Item = &TaskStatus> {
    framework.status.iter().flat_map(|status| status.all_tasks())
}

/// The names of the Pods of its Tasks that run and are not being removed.
pub(super) fn running_pods(framework: &Framework) -> impl Iterator<Item = String> {
    let running =
        tasks(framework).filter(|task| task.state == State::AttemptRunning && !task.deletion_pending);
    running.map(|task| task.attempt_status.pod_name.clone())
}

impl Phase {
    /// One in ten is large: those take their time.
    pub(super) const ALL: [Phase; 10] = [
        Phase::Large,
        Phase::Endless,
        Phase::Held,
        Phase::Endless,
        Phase::Shrinking,
        Phase::Endless,
        Phase::Ending,
        Phase::Retrying,
        Phase::Ending,
        Phase::Retrying,
    ];

    fn word(self) -> &'static str {
        match self {
            Phase::Endless => "endless",
            Phase::Ending => "ending",
            Phase::Retrying => "retrying",
            Phase::Shrinking => "shrinking",
            Phase::Held => "held",
            Phase::Large => "large",
        }
    }

    pub(super) fn name(self, prefix: &str, place: usize) -> String {
        format!("{prefix}{place}{}", self.word())
    }

    /// The phase of a Framework of that name.
    pub(super) fn of(name: &str) -> Phase {
        Phase::ALL.into_iter().find(|phase| name.ends_with(phase.word())).unwrap_or(Phase::Endless)
    }

    pub(super) fn framework(self, name: &str) -> Result<Framework> {
        let mut roles = vec![match self {
            Phase::Endless | Phase::Large => role("w", 3, &json!({})),
            Phase::Ending => role("w", 1, &json!({ pod::RUN_DURATION: RUN, pod::EXIT_CODE: "0" })),
            Phase::Retrying => role("w", 1, &json!({ pod::EXIT_CODE: "201" })),
            Phase::Shrinking => role("w", 4, &json!({ pod::STOP_DELAY: STOP })),
            Phase::Held => role("w", 1, &json!({ pod::EXIT_CODE: "0" })),
        }];
        if self == Phase::Large {
            let end = json!({ pod::EXIT_CODE: "1", pod::MESSAGE: "m".repeat(MESSAGE) });
            roles.push(role("failed", FAILED, &end));
        }
        let policy = json!({ "fancyRetryPolicy": self == Phase::Retrying, "maxRetryCount": 0 });
        let begins = if self == Phase::Held { "Create" } else { "Start" };
        Ok(serde_json::from_value(json!({
            "apiVersion": "frameworkcontroller.microsoft.com/v1",
            "kind": "Framework",
            "metadata": { "name": name },
            "spec": { "executionType": begins, "retryPolicy": policy, "taskRoles": roles },
        }))?)
    }

    /// The change that begins the phase.
    pub(super) fn patch(self) -> Option<Value> {
        let smaller = role("w", 2, &json!({ pod::STOP_DELAY: STOP }));
        (self == Phase::Shrinking).then(|| json!({ "spec": { "taskRoles": [smaller] } }))
    }

    /// The change that its user makes after the exchange.
    pub(super) fn later(self) -> Option<Value> {
        (self == Phase::Held).then(|| json!({ "spec": { "executionType": "Start" } }))
    }

    /// Whether it is in the middle for a time only.
    pub(super) fn is_short(self) -> bool {
        matches!(self, Phase::Ending | Phase::Retrying)
    }

    /// Whether it is where its phase can begin.
    pub(super) fn has_begun(self, framework: &Framework) -> bool {
        if self == Phase::Shrinking { self.runs(framework) } else { self.is_in_the_middle(framework) }
    }

    /// Whether all Tasks that are to run do so.
    fn runs(self, framework: &Framework) -> bool {
        let running = tasks(framework).filter(|task| task.state == State::AttemptRunning).count();
        running
            == match self {
                Phase::Shrinking => 4,
                Phase::Ending => 1,
                _ => 3,
            }
    }

    pub(super) fn is_in_the_middle(self, framework: &Framework) -> bool {
        match self {
            Phase::Endless | Phase::Ending => self.runs(framework),
            Phase::Retrying => quiescence::is_delayed(framework),
            Phase::Shrinking => {
                let leaves = |task: &&TaskStatus| task.deletion_pending && task.state != State::Completed;
                tasks(framework).filter(leaves).count() == 2
            }
            Phase::Held => {
                framework.status.as_ref().is_some_and(|status| status.state == State::AttemptCreationPending)
            }
            Phase::Large => {
                let failed = tasks(framework).filter(|task| task.state == State::Completed).count();
                failed == FAILED && self.runs(framework)
            }
        }
    }

    /// Whether nothing more happens by itself: an exchange before may have brought it there.
    pub(super) fn is_over(self, framework: &Framework) -> bool {
        match self {
            Phase::Shrinking => tasks(framework).count() == 2,
            Phase::Ending | Phase::Held => code(framework).is_some(),
            _ => false,
        }
    }

    /// Whether a Framework has completed the step it was in the middle of, and nothing else.
    pub(super) fn went_on(self, before: &Framework, now: &Framework) -> bool {
        let (Some(was), Some(is)) = (&before.status, &now.status) else { return false };
        let same_attempt = was.attempt_status.id == is.attempt_status.id;
        let retried =
            is.retry_policy_status.total_retried_count - was.retry_policy_status.total_retried_count;
        match self {
            Phase::Endless | Phase::Large => same_attempt && self.is_in_the_middle(now),
            Phase::Ending | Phase::Held => same_attempt && code(now) == Some(0),
            Phase::Retrying if was.state == State::AttemptCompleted => {
                let ended = was.attempt_status.completion_time.map(|time| time.timestamp());
                let due = ended.map(|time| time + SignedDuration::from_secs(RETRY_DELAY));
                retried > 0 && due.is_some_and(|due| is.attempt_status.start_time.timestamp() >= due)
            }
            Phase::Retrying => retried > 0,
            Phase::Shrinking => {
                let left: Vec<i32> = tasks(now).map(|task| task.index).collect();
                same_attempt && left == [0, 1] && running_pods(now).count() == 2
            }
        }
    }

    /// Whether its Pods run on until it is stopped.
    pub(super) fn keeps_its_pods(self) -> bool {
        matches!(self, Phase::Endless | Phase::Large | Phase::Shrinking)
    }

    /// The code that it has in the end, once those that run on are stopped.
    pub(super) fn last_code(self) -> i32 {
        if matches!(self, Phase::Ending | Phase::Held) { 0 } else { -210 }
    }
}

/// All fields are given: the original has no defaults.
fn role(name: &str, tasks: usize, annotations: &Value) -> Value {
    json!({
        "name": name,
        "taskNumber": tasks,
        "frameworkAttemptCompletionPolicy": {
            "minFailedTaskCount": if name == "failed" { -1 } else { 1 },
            "minSucceededTaskCount": -1,
        },
        "task": {
            "retryPolicy": { "fancyRetryPolicy": false, "maxRetryCount": 0 },
            "podGracefulDeletionTimeoutSec": null,
            "pod": {
                "metadata": { "annotations": annotations },
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [{ "name": "main", "image": "busybox" }],
                },
            },
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: &str = "2026-11-21T09:00:00Z";

    /// A Framework whose first attempt is completed, or is another one that began later.
    fn retrying(attempt: i32, start: &str) -> Framework {
        let (state, completed) =
            if attempt == 0 { ("AttemptCompleted", json!(AT)) } else { ("AttemptPreparing", json!(null)) };
        serde_json::from_value(json!({
            "metadata": { "name": "retrying" },
            "spec": { "taskRoles": [role("w", 1, &json!({}))] },
            "status": {
                "startTime": AT, "state": state, "transitionTime": AT,
                "retryPolicyStatus": {
                    "totalRetriedCount": attempt, "accountableRetriedCount": 0, "retryDelaySec": RETRY_DELAY,
                },
                "attemptStatus": {
                    "id": attempt, "startTime": start, "completionTime": completed,
                    "configMapName": "x-attempt", "taskRoleStatuses": [],
                },
            },
        }))
        .unwrap()
    }

    #[test]
    fn a_retry_has_to_come_and_not_before_its_delay() {
        let before = retrying(0, AT);
        let went_on = |now: &Framework| Phase::Retrying.went_on(&before, now);
        assert!(Phase::Retrying.is_in_the_middle(&before));
        assert!(!went_on(&before), "it is not retried");
        assert!(!went_on(&retrying(1, "2026-11-21T09:00:39Z")), "it is retried too early");
        assert!(went_on(&retrying(1, "2026-11-21T09:00:40Z")));
        assert!(!Phase::Endless.went_on(&before, &retrying(1, AT)), "another one is never retried");
    }

    #[test]
    fn a_phase_is_known_by_the_name_of_its_framework() {
        for (place, phase) in Phase::ALL.into_iter().enumerate() {
            assert_eq!(Phase::of(&phase.name("back", place)), phase);
            assert!(phase.framework("x").unwrap().spec.task_number() > 0);
        }
    }
}
