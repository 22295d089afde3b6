//! `wait`: until Frameworks are as asked, or until they never will be.

use std::error::Error as _;
use std::time::Duration;

use framework_api::{Framework, State};
use framework_core::queue::{ADMITTED, QUEUED};
use futures::StreamExt;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::watch_object;

use crate::args::{Goal, Wait};
use crate::cluster::Cluster;
use crate::duration;
use crate::error::{Error, problem};
use crate::find::{self, Found};
use crate::visible::visible;

/// How a Framework stands to the goal.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Progress {
    /// It is as asked.
    Reached,
    /// It may still get there; where it is now.
    On(String),
    /// It never gets there, and why.
    Never(String),
}

/// The text that `wait` prints: a line for each Framework that reached the goal. Fails if one never
/// reaches it, does not reach it in time, or cannot be read.
pub async fn run(cluster: &Cluster, asked: &Wait) -> Result<String, Error> {
    let deadline = tokio::time::Instant::now() + asked.timeout;
    let mut text = String::new();
    for name in &asked.name {
        let left = deadline.saturating_duration_since(tokio::time::Instant::now());
        let first = look(cluster, name, asked.goal);
        // Without time left, each Framework is read once, and only --request-timeout bounds that.
        let mut progress = if left.is_zero() {
            first.await?
        } else {
            let late = || Ok(Progress::On("cannot be read: the API server gave no answer".to_owned()));
            tokio::time::timeout(left, first).await.unwrap_or_else(|_| late())?
        };
        let left = deadline.saturating_duration_since(tokio::time::Instant::now());
        if matches!(progress, Progress::On(_)) && !left.is_zero() {
            // A time-out leaves the last progress, which the error names.
            let _ = tokio::time::timeout(left, follow(cluster, name, asked.goal, &mut progress)).await;
        }
        let framework = format!("the Framework {name:?} in the namespace {:?}", cluster.namespace);
        let goal = asked.goal.option();
        match progress {
            Progress::Reached => {
                text.push_str(&format!("framework/{} {}\n", visible(name), asked.goal.words()));
            }
            Progress::Never(why) => return Err(Error::Never { framework, goal, why, text }),
            Progress::On(state) => {
                let after = timeout_words(asked.timeout);
                return Err(Error::TimedOut { framework, goal, after, state, text });
            }
        }
    }
    Ok(text)
}

/// How a Framework stands to the goal now.
async fn look(cluster: &Cluster, name: &str, goal: Goal) -> Result<Progress, Error> {
    let found = match find::one(cluster, name).await {
        Err(Error::NotFound { .. }) if goal == Goal::Deleted => None,
        found => Some(found?),
    };
    Ok(judge(goal, found.as_ref().map(|found| &found.framework)))
}

/// Follows a Framework until it is as asked or never will be. Trouble of the watch is retried.
async fn follow(cluster: &Cluster, name: &str, goal: Goal, progress: &mut Progress) {
    let mut seen = std::pin::pin!(watch_object(find::api(cluster, false), name).default_backoff());
    while let Some(object) = seen.next().await {
        *progress = match object {
            Ok(object) => match object.map(Found::read).transpose() {
                Ok(found) => judge(goal, found.as_ref().map(|found| &found.framework)),
                Err(error) => Progress::On(error.to_string()),
            },
            Err(error) => {
                let cause = error.source().and_then(|cause| cause.downcast_ref::<kube::Error>());
                Progress::On(format!("cannot be read: {}", cause.map_or_else(|| error.to_string(), problem)))
            }
        };
        if !matches!(progress, Progress::On(_)) {
            return;
        }
    }
}

fn judge(goal: Goal, framework: Option<&Framework>) -> Progress {
    let Some(framework) = framework else {
        return match goal {
            Goal::Deleted => Progress::Reached,
            _ => Progress::Never("it was deleted".to_owned()),
        };
    };
    let Some(status) = &framework.status else { return Progress::On("has no status yet".to_owned()) };
    let is_over = status.state == State::Completed;
    let end = status.attempt_status.completion_status.as_deref().filter(|_| is_over);
    let state = match end {
        Some(end) => format!("ended as {} {}", end.phrase, end.code),
        None => format!("is {:?}", status.state),
    };
    let failed = end.is_some_and(|end| end.r#type.is_failed());
    let mut conditions = status.conditions.iter();
    let reached = match goal {
        Goal::Deleted => false,
        Goal::Ended => is_over,
        Goal::Succeeded => end.is_some() && !failed,
        Goal::Failed => failed,
        Goal::Running => status.state == State::AttemptRunning,
        Goal::Released => conditions.any(|one| one.type_ == QUEUED && one.reason == ADMITTED),
    };
    match (reached, is_over, goal) {
        (true, ..) => Progress::Reached,
        (false, true, Goal::Deleted) | (false, false, _) => Progress::On(state),
        (false, true, _) => Progress::Never(format!("it {state}")),
    }
}

fn timeout_words(timeout: Duration) -> String {
    duration::seconds(i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::found;

    #[test]
    fn a_goal_is_reached_open_or_out_of_reach() {
        let on = |state: &str| Progress::On(state.to_owned());
        let never = |state: &str| Progress::Never(state.to_owned());
        let ended = "it ended as OOMKilled 137";
        for (goal, running, queued, completed) in [
            (Goal::Succeeded, on("is AttemptRunning"), on("is AttemptCreationPending"), never(ended)),
            (Goal::Failed, on("is AttemptRunning"), on("is AttemptCreationPending"), Progress::Reached),
            (Goal::Ended, on("is AttemptRunning"), on("is AttemptCreationPending"), Progress::Reached),
            (Goal::Running, Progress::Reached, on("is AttemptCreationPending"), never(ended)),
            (Goal::Released, on("is AttemptRunning"), on("is AttemptCreationPending"), never(ended)),
            (
                Goal::Deleted,
                on("is AttemptRunning"),
                on("is AttemptCreationPending"),
                on("ended as OOMKilled 137"),
            ),
        ] {
            let seen = ["running.yaml", "queued.yaml", "completed.yaml"]
                .map(|file| judge(goal, Some(&found(file).framework)));
            assert_eq!(seen, [running, queued, completed], "{goal:?}");
        }
        let mut unknown = found("completed.yaml").framework;
        unknown.status.as_mut().unwrap().attempt_status.completion_status = None;
        assert_eq!(judge(Goal::Succeeded, Some(&unknown)), never("it is Completed"), "nobody knows how");
        assert_eq!(judge(Goal::Deleted, None), Progress::Reached);
        assert_eq!(judge(Goal::Running, None), never("it was deleted"));
    }
}
