//! What becomes of a Pod: told by its annotations, by a script of the test, or drawn from the seed.
//!
//! Annotations, each overriding that part of whatever else was decided:
//!
//! | annotation | meaning |
//! |---|---|
//! | `sim/exit-code` | exit code of the first container; 0 is success |
//! | `sim/run-ms` | how long it runs; `forever` until it is deleted |
//! | `sim/reason`, `sim/message`, `sim/signal` | of the terminated container |
//! | `sim/pod-reason` | the Pod fails as a whole with that reason, such as `Evicted`; `sim/message` is its message |
//! | `sim/start-ms` | how long it stays Pending once it is bound |
//! | `sim/never-schedule`, `sim/never-start` | `true`: it is never bound, or never leaves Pending |
//! | `sim/terminate-ms` | how long it takes to end once it is deleted |
//! | `sim/hang-terminating` | `true`: it never ends once it is deleted |

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use serde_json::Value;

use crate::fault::draw;
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

/// What becomes of one Pod. `None` is never.
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
    /// Decides what becomes of a Pod.
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
    let text = |key: &str| pod.annotation(key);
    let owned = |key: &str| text(key).map(str::to_owned);
    let yes = |key: &str| text(key) == Some("true");
    let time = |key: &str| text(key).and_then(|text| text.parse().ok()).map(Duration::from_millis);
    if let Some(code) = text("sim/exit-code").and_then(|text| text.parse().ok()) {
        fate.end = End::Exit { code, reason: None, message: None, signal: None };
    }
    if let End::Exit { reason, message, signal, .. } = &mut fate.end {
        *reason = owned("sim/reason").or(reason.take());
        *message = owned("sim/message").or(message.take());
        *signal = text("sim/signal").and_then(|text| text.parse().ok()).or(*signal);
    }
    if let Some(reason) = owned("sim/pod-reason") {
        fate.end = End::PodFailed { reason, message: owned("sim/message").unwrap_or_default() };
    }
    fate.schedule = if yes("sim/never-schedule") { None } else { fate.schedule };
    fate.start = if yes("sim/never-start") { None } else { time("sim/start-ms").or(fate.start) };
    fate.run = if text("sim/run-ms") == Some("forever") { None } else { time("sim/run-ms").or(fate.run) };
    fate.terminate =
        if yes("sim/hang-terminating") { None } else { time("sim/terminate-ms").or(fate.terminate) };
    fate
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn annotations_override_what_was_drawn() {
        let mut rng = Rng::with_seed(1);
        let pod = json!({ "metadata": { "annotations": {
            "sim/exit-code": "210", "sim/reason": "Bad", "sim/run-ms": "forever", "sim/hang-terminating": "true",
        } } });
        let fate = Behaviour::default().decide(&pod, &mut rng);
        let reason = Some("Bad".to_owned());
        assert_eq!(fate.end, End::Exit { code: 210, reason, message: None, signal: None });
        assert_eq!((fate.run, fate.terminate), (None, None));
        assert!(fate.start.is_some());
    }
}
