//! `why`: the state of a Framework, the events it awaits, the rules that decided, and its place in its queue.

mod awaits;
mod decided;
mod line;

use framework_api::Time;
use jiff::Timestamp;
use serde::Serialize;

use crate::cluster::Cluster;
use crate::duration::age;
use crate::error::Error;
use crate::find::{self, Found};
use crate::output::Style;
use crate::pod::{self, PodView};
use crate::visible::visible;

use self::line::Standing;

/// The output of `-o json`.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Why {
    namespace: String,
    name: String,
    state: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<Time>,
    attempt: i32,
    /// The next things that it awaits; empty once nothing more happens.
    awaits: Vec<String>,
    /// The rules that decided so far.
    decided_by: Vec<String>,
    /// Its units, and where those that wait stand.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    queue: Vec<Standing>,
    /// Facts that could not be found out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unknown: Vec<String>,
}

/// The text that `why` prints. Fails if the Framework does not exist, or if the API server refuses to show
/// it, or answers no LIST. Other objects that it refuses to show are named as unknown.
pub async fn run(cluster: &Cluster, name: &str, style: Style) -> Result<String, Error> {
    let found = find::one(cluster, name).await?;
    let mut unknown = Vec::new();
    let pods = line::known(pod::of(cluster, name).await, &mut unknown)?;
    let now = Timestamp::now();
    let queue = line::standings(cluster, &found, now, &mut unknown).await?;
    let why = Why { queue, unknown, ..explain(&found, &pods, now) };
    style.show(&why, || render(&why, style, now))
}

fn explain(found: &Found, pods: &[PodView], now: Timestamp) -> Why {
    let mut why = Why {
        namespace: found.namespace().to_owned(),
        name: found.name().to_owned(),
        state: "New".to_owned(),
        awaits: awaits::of(found, pods, now),
        ..Why::default()
    };
    if let Some(status) = &found.framework.status {
        why.state = format!("{:?}", status.state);
        why.since = Some(status.transition_time);
        why.attempt = status.attempt_status.id;
        why.decided_by = decided::of(found, status);
    }
    why
}

fn render(why: &Why, style: Style, now: Timestamp) -> String {
    let mut text = String::new();
    let mut line = |title: &str, state: &str, words: &str| {
        let title = if title.is_empty() { String::new() } else { format!("{title}:") };
        let title = style.heading(&format!("{title:<13}"));
        text.push_str(&format!("{title}{}{}\n", style.word(&visible(state)), visible(words)));
    };
    line("Framework", "", &format!("{}/{}", why.namespace, why.name));
    let since = why.since.map(|since| format!(" for {}", age(since, now))).unwrap_or_default();
    line("State", &why.state, &format!("{since}, attempt {}", why.attempt));
    let mut lines = |title: &str, all: &[String]| {
        for (at, words) in all.iter().enumerate() {
            line(if at == 0 { title } else { "" }, "", words);
        }
    };
    let nothing = ["nothing more: it is Completed".to_owned()];
    lines("Awaits", if why.awaits.is_empty() { &nothing } else { &why.awaits });
    lines("Decided by", &why.decided_by);
    let standings: Vec<String> = why.queue.iter().flat_map(Standing::lines).collect();
    lines("Queue", &standings);
    let missing: Vec<String> = why.queue.iter().flat_map(|one| one.missing.clone()).collect();
    lines("Missing", &missing);
    lines("Unknown", &why.unknown);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{NOW, PLAIN, found};
    use expect_test::{Expect, expect};

    fn check(file: &str, pods: &[PodView], queue: Vec<Standing>, expected: &Expect) {
        let now = NOW.parse().unwrap();
        let why = Why { queue, ..explain(&found(file), pods, now) };
        expected.assert_eq(&render(&why, PLAIN, now));
    }

    #[test]
    fn a_running_framework_awaits_tasks_retries_and_places() {
        let pod = PodView {
            name: "train-worker-2".into(),
            uid: "w2".into(),
            phase: "Pending".into(),
            obstacle: Some("Unschedulable: 3 Insufficient nvidia.com/gpu.".into()),
        };
        check(
            "running.yaml",
            &[pod],
            Vec::new(),
            &expect![[r#"
                Framework:   team/train
                State:       AttemptRunning for 5m44s, attempt 0
                Awaits:      1 Task (worker-2) to start
                             1 Task (worker-0) to end
                             Unschedulable: 3 Insufficient nvidia.com/gpu. holds up 1 Task (worker-2)
                             attempt 7 of Task worker-1 in 22s, at 2026-01-02T03:10:22Z
                Decided by:  retry policy of TaskRole worker: 1 Task (worker-3 as ContainerPermanentFailed 210): fancyRetryPolicy does not retry a permanent failure
                             retry policy of TaskRole worker: 1 Task (worker-1 as OOMKilled 137): retried, because maxRetryCount is 2 and 1 retry counts so far
            "#]],
        );
    }

    #[test]
    fn the_attempt_after_the_last_number_is_no_panic() {
        let mut last = found("completed.yaml");
        let status = last.framework.status.as_mut().unwrap();
        (status.state, status.attempt_status.id) = (framework_api::State::AttemptCompleted, i32::MAX);
        let awaits = explain(&last, &[], NOW.parse().unwrap()).awaits;
        assert_eq!(awaits, ["attempt 2147483647 now"]);
    }

    #[test]
    fn a_completed_framework_names_the_rules_that_ended_it() {
        check(
            "completed.yaml",
            &[],
            Vec::new(),
            &expect![[r#"
                Framework:   team/done
                State:       Completed for 65m, attempt 1
                Awaits:      nothing more: it is Completed
                Decided by:  completion policy: 1 Task of TaskRole worker failed, and minFailedTaskCount is 1; the last of them is worker-1, which ended as OOMKilled 137
                             retry policy of the Framework: not retried, because maxRetryCount is 1 and 1 retry counts
                             retry policy of TaskRole worker: 1 Task (worker-1 as OOMKilled 137): not retried, because maxRetryCount is 3 and 3 retries count
            "#]],
        );
    }

    #[test]
    fn a_message_forges_no_line_and_only_our_colours_control_the_terminal() {
        let standing = Standing::of(crate::queue::UnitView {
            message: "no room\x1b[8m\nState:       Completed\u{202e}".into(),
            ..Default::default()
        });
        let why = Why { state: "Completed\x1b[8m".into(), queue: vec![standing], ..Why::default() };
        let style = Style { color: true, ..PLAIN };
        let text = render(&why, style, NOW.parse().unwrap());
        assert_eq!(text.lines().count(), 4, "{text:?}");
        let ours = text.replace("\x1b[1m", "").replace("\x1b[0m", "");
        let controls: Vec<char> = ours.chars().filter(|one| one.is_control() && *one != '\n').collect();
        assert_eq!(controls, [], "{text:?}");
        assert!(text.contains("no room^[[8m\\nState:       Completed\\u{202e}"), "{text:?}");
    }

    #[test]
    fn a_waiting_framework_names_its_place_and_the_missing_amount() {
        let standing = Standing {
            place: Some(1),
            before: Some(2),
            directly_before: Some("framework-first".into()),
            missing: vec!["pods: requests 3, 2 too many: quota \"room\" allows 4, 3 are used".into()],
            ..Standing::of(crate::queue::UnitView {
                name: "framework-gang".into(),
                queue: "q".into(),
                phase: Some("Enqueued".into()),
                reason: "InsufficientQuota".into(),
                message: "no room".into(),
                ..Default::default()
            })
        };
        check(
            "queued.yaml",
            &[],
            vec![standing],
            &expect![[r#"
            Framework:   team/gang
            State:       AttemptCreationPending for 5m54s, attempt 0
            Awaits:      its release from the queue "q": InsufficientQuota: no room
            Queue:       QueueUnit framework-gang in "q": Enqueued, InsufficientQuota: no room
                         1 before it in its queue, 2 in all queues, the last of them framework-first
            Missing:     pods: requests 3, 2 too many: quota "room" allows 4, 3 are used
        "#]],
        );
    }
}
