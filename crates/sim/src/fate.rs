//! The fate of a Pod: set by its annotations, by a script of the test, or drawn from the seed.
//!
//! Each annotation overrides that part of the decision. Those of the left column have the prefix `sim/`.
//! Those of the middle one are the test cluster's, with the prefix `test.frameworkcontroller.microsoft.com/`,
//! so that a manifest does the same in both.
//!
//! | `sim/` | test cluster | meaning |
//! |---|---|---|
//! | `exit-code` | `exit-code` | exit code of the first container; 0 is success |
//! | `reason`, `message`, `signal` | the same | of the terminated container |
//! | `pod-reason`, `message` | `pod-reason`, `pod-message` | the Pod fails as a whole, such as `Evicted` |
//! | `start-ms` | `start-delay` | how long it stays Pending once it is bound |
//! | `never-schedule` | | `true`: it is never bound |
//! | `never-start` | `never-start` | `true`: it never leaves Pending |
//! | `run-ms` | `run-duration` | how long it runs; `forever` until it is deleted |
//! | `terminate-ms` | `stop-delay` | how long it takes to end once it is deleted |
//! | `hang-terminating` | `hang-terminating` | `true`: it never ends once it is deleted |
//! | `only-task-index` | `only-task-index` | a Pod with another `FC_TASK_INDEX` ends with 0 |
//! | `only-task-attempt` | `only-task-attempt` | a Pod with another `FC_TASK_ATTEMPT_ID` ends with 0 |

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use serde_json::Value;

use crate::duration::{self, draw};
use crate::object::Meta;

/// How a Pod ends by itself.
#[derive(Debug, Clone, PartialEq)]
pub enum End {
    /// Its first container exits so; the others exit with 0.
    Exit {
        /// Exit code; 0 is success.
        code: i32,
        /// Reason of the container; `Completed` or `Error` when absent.
        reason: Option<String>,
        /// Message of the container.
        message: Option<String>,
        /// Signal that ended the container.
        signal: Option<i32>,
    },
    /// The Pod fails as a whole, with no container status.
    PodFailed {
        /// Reason, such as `Evicted`.
        reason: String,
        /// Message.
        message: String,
    },
}

/// The fate of one Pod. `None` is never.
#[derive(Debug, Clone, PartialEq)]
pub struct Fate {
    /// Time from its creation until it is bound to a node.
    pub schedule: Option<Duration>,
    /// Time from then until it runs.
    pub start: Option<Duration>,
    /// Time from then until it ends by itself.
    pub run: Option<Duration>,
    /// How it ends by itself.
    pub end: End,
    /// Time from its deletion until it is gone, at most its grace period.
    pub terminate: Option<Duration>,
}

/// A test's own decision about Pods; `None` leaves a Pod to the rest of the [`Behaviour`].
pub type Script = Arc<dyn Fn(&Value) -> Option<Fate> + Send + Sync>;

/// How Pods behave that say nothing about themselves.
#[derive(Clone)]
pub struct Behaviour {
    /// Time from creation to binding.
    pub schedule: RangeInclusive<Duration>,
    /// Time from binding to running.
    pub start: RangeInclusive<Duration>,
    /// Time from running to the end.
    pub run: RangeInclusive<Duration>,
    /// Time from deletion to being gone.
    pub terminate: RangeInclusive<Duration>,
    /// Probability that a Pod fails.
    pub fail: f64,
    /// Exit codes of those that fail.
    pub exit_codes: Vec<i32>,
    /// Probability that a failure is one of the whole Pod.
    pub evict: f64,
    /// Probability that a Pod never leaves Pending.
    pub never_start: f64,
    /// Probability that a Pod runs until it is deleted.
    pub never_end: f64,
    /// Probability that a Pod hangs once it is deleted.
    pub hang_terminating: f64,
    /// Decides first.
    pub script: Option<Script>,
}

impl Default for Behaviour {
    /// All Pods succeed, within a second or so.
    fn default() -> Self {
        let ms = |from, to| Duration::from_millis(from)..=Duration::from_millis(to);
        Self {
            schedule: ms(1, 20),
            start: ms(10, 200),
            run: ms(10, 1_000),
            terminate: ms(10, 2_000),
            fail: 0.0,
            exit_codes: vec![1, 2, 137, 200, 201, 210],
            evict: 0.0,
            never_start: 0.0,
            never_end: 0.0,
            hang_terminating: 0.0,
            script: None,
        }
    }
}

impl fmt::Debug for Behaviour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Behaviour").field("run", &self.run).field("fail", &self.fail).finish_non_exhaustive()
    }
}

impl Behaviour {
    /// Decides the fate of a Pod.
    pub(crate) fn decide(&self, pod: &Value, rng: &mut Rng) -> Fate {
        let drawn = self.draw(rng);
        let scripted = self.script.as_ref().and_then(|script| script(pod));
        annotated(scripted.unwrap_or(drawn), pod)
    }

    fn draw(&self, rng: &mut Rng) -> Fate {
        let mut chance = |probability: f64| rng.f64() < probability;
        let (never_start, never_end) = (chance(self.never_start), chance(self.never_end));
        let (hang, fail, evict) = (chance(self.hang_terminating), chance(self.fail), chance(self.evict));
        let code = if fail { rng.choice(&self.exit_codes).copied().unwrap_or(1) } else { 0 };
        let end = if fail && evict {
            let message = "The node was low on resource: memory.".to_owned();
            End::PodFailed { reason: "Evicted".to_owned(), message }
        } else {
            End::Exit { code, reason: None, message: None, signal: None }
        };
        let mut time = |range, never: bool| {
            let time = draw(rng, range);
            (!never).then_some(time)
        };
        Fate {
            schedule: time(&self.schedule, false),
            start: time(&self.start, never_start),
            run: time(&self.run, never_end),
            end,
            terminate: time(&self.terminate, hang),
        }
    }
}

fn annotated(mut fate: Fate, pod: &Value) -> Fate {
    let annotations = Annotations(pod);
    if let Some(code) = annotations.number("exit-code") {
        fate.end = End::Exit { code, reason: None, message: None, signal: None };
    }
    if let End::Exit { code, reason, message, signal } = &mut fate.end {
        *reason = annotations.owned("reason").or(reason.take());
        *message = annotations.owned("message").or(message.take());
        *signal = annotations.number("signal").or(*signal);
        if let (Some(signal), 0) = (*signal, *code) {
            *code = 128 + signal;
        }
    }
    if let Some(reason) = annotations.owned("pod-reason") {
        let message = annotations.owned("pod-message").or(annotations.owned("message")).unwrap_or_default();
        fate.end = End::PodFailed { reason, message };
    }
    let other =
        |key: &str, own: &str| annotations.text(key).is_some_and(|only| Some(only) != pod.annotation(own));
    if other("only-task-index", "FC_TASK_INDEX") || other("only-task-attempt", "FC_TASK_ATTEMPT_ID") {
        fate.end = End::Exit { code: 0, reason: None, message: None, signal: None };
    }
    fate.schedule = if annotations.yes("never-schedule") { None } else { fate.schedule };
    fate.start = if annotations.yes("never-start") {
        None
    } else {
        annotations.time("start-ms", "start-delay").or(fate.start)
    };
    let forever = annotations.text("run-ms").or(annotations.text("run-duration")) == Some("forever");
    fate.run = if forever { None } else { annotations.time("run-ms", "run-duration").or(fate.run) };
    let hangs = annotations.yes("hang-terminating");
    fate.terminate =
        if hangs { None } else { annotations.time("terminate-ms", "stop-delay").or(fate.terminate) };
    fate
}

/// The annotations of a Pod, under either prefix.
struct Annotations<'a>(&'a Value);

impl<'a> Annotations<'a> {
    fn text(&self, key: &str) -> Option<&'a str> {
        let prefixes = ["sim/", "test.frameworkcontroller.microsoft.com/"];
        prefixes.iter().find_map(|prefix| self.0.annotation(&format!("{prefix}{key}")))
    }

    fn owned(&self, key: &str) -> Option<String> {
        self.text(key).map(str::to_owned)
    }

    fn yes(&self, key: &str) -> bool {
        self.text(key) == Some("true")
    }

    fn number(&self, key: &str) -> Option<i32> {
        self.text(key)?.parse().ok()
    }

    /// A time in milliseconds, or as `1m30s` or `500ms`.
    fn time(&self, millis: &str, words: &str) -> Option<Duration> {
        let from_millis = self.text(millis).and_then(|text| text.parse().ok()).map(Duration::from_millis);
        from_millis.or_else(|| duration::parse(self.text(words)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn annotations_override_the_drawn_fate() {
        let mut rng = Rng::with_seed(1);
        let pod = json!({ "metadata": { "annotations": {
            "sim/exit-code": "210", "sim/reason": "Bad", "sim/run-ms": "forever",
            "sim/hang-terminating": "true",
        } } });
        let fate = Behaviour::default().decide(&pod, &mut rng);
        let reason = Some("Bad".to_owned());
        assert_eq!(fate.end, End::Exit { code: 210, reason, message: None, signal: None });
        assert_eq!((fate.run, fate.terminate), (None, None));
        assert!(fate.start.is_some());
    }

    #[test]
    fn the_annotations_of_the_test_cluster_mean_the_same() {
        let decide = |own: &str| {
            let key = |name: &str| format!("test.frameworkcontroller.microsoft.com/{name}");
            let pod = json!({ "metadata": { "annotations": {
                key("signal"): "9", key("run-duration"): "1m500ms", key("only-task-index"): "2",
                "FC_TASK_INDEX": own,
            } } });
            Behaviour::default().decide(&pod, &mut Rng::with_seed(1))
        };
        let fate = decide("2");
        assert_eq!(fate.end, End::Exit { code: 137, reason: None, message: None, signal: Some(9) });
        assert_eq!(fate.run, Some(Duration::from_millis(60_500)));
        assert!(matches!(decide("1").end, End::Exit { code: 0, .. }));
    }
}
