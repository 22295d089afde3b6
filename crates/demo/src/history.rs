//! The observed history of one Framework.
//!
//! The watch shows every status that was persisted. States that were entered and left within one write are
//! not among them.

use std::collections::BTreeMap;

use framework_api::code::Code;
use framework_api::status::{FrameworkAttemptCompletionStatus, TaskAttemptCompletionStatus, TaskStatus};
use framework_api::{Framework, FrameworkStatus, State, Time};
use jiff::Timestamp;

use crate::example::{Example, Expectation};

/// One Framework from its creation on.
pub(crate) struct History {
    pub(crate) example: &'static Example,
    latest: Framework,
    /// Each observed state, and when the Framework entered it.
    pub(crate) states: Vec<(Time, State)>,
    /// How attempts of Tasks ended, by TaskRole, index and attempt.
    pub(crate) task_ends: BTreeMap<(String, i32, i32), TaskAttemptCompletionStatus>,
    /// How attempts of the Framework ended.
    pub(crate) ends: BTreeMap<i32, FrameworkAttemptCompletionStatus>,
}

impl History {
    /// Starts with the created object.
    pub(crate) fn new(example: &'static Example, created: Framework) -> History {
        let (states, task_ends, ends) = Default::default();
        History { example, latest: created, states, task_ends, ends }
    }

    /// Records an object that the watch shows.
    pub(crate) fn record(&mut self, framework: Framework) {
        let Some(status) = &framework.status else { return };
        if self.states.last() != Some(&(status.transition_time, status.state)) {
            self.states.push((status.transition_time, status.state));
        }
        if let Some(end) = &status.attempt_status.completion_status {
            self.ends.insert(status.attempt_status.id, (**end).clone());
        }
        for role in status.task_roles() {
            for task in &role.task_statuses {
                if let Some(end) = &task.attempt_status.completion_status {
                    let key = (role.name.clone(), task.index, task.attempt_status.id);
                    self.task_ends.insert(key, (**end).clone());
                }
            }
        }
        self.latest = framework;
    }

    /// The Framework's name.
    pub(crate) fn name(&self) -> &str {
        self.latest.metadata.name.as_deref().unwrap_or_default()
    }

    /// How many Tasks the spec asks for.
    pub(crate) fn task_number(&self) -> usize {
        self.latest.spec.task_number()
    }

    /// The latest status.
    pub(crate) fn status(&self) -> Option<&FrameworkStatus> {
        self.latest.status.as_ref()
    }

    /// The resourceVersion of the latest object.
    pub(crate) fn resource_version(&self) -> Option<u64> {
        self.latest.metadata.resource_version.as_ref()?.parse().ok()
    }

    /// When it was created.
    pub(crate) fn created(&self) -> Option<Timestamp> {
        self.latest.metadata.creation_timestamp.as_ref().map(|time| time.0)
    }

    /// Whether it is Completed.
    pub(crate) fn is_completed(&self) -> bool {
        self.status().is_some_and(|status| status.state == State::Completed)
    }

    /// Whether all its Tasks run.
    pub(crate) fn all_tasks_run(&self) -> bool {
        let counts = self.status().and_then(|status| status.task_counts);
        counts.is_some_and(|counts| counts.running > 0 && counts.running == counts.total)
    }

    /// Its Tasks, each with the name of its TaskRole.
    pub(crate) fn tasks(&self) -> impl Iterator<Item = (&str, &TaskStatus)> {
        let roles = self.status().into_iter().flat_map(FrameworkStatus::task_roles);
        roles.flat_map(|role| role.tasks().map(|task| (role.name.as_str(), task)))
    }

    /// The Tasks that were ended because the Framework ended.
    pub(crate) fn stopped_tasks(&self) -> Vec<(&str, i32)> {
        let completion = Code::FrameworkAttemptCompletion.number();
        let stopped = |task: &TaskStatus| {
            task.attempt_status.completion_status.as_ref().is_some_and(|end| end.code == completion)
        };
        self.tasks().filter(|(_, task)| stopped(task)).map(|(role, task)| (role, task.index)).collect()
    }

    /// Checks that it ended as its example says; the error describes the actual end.
    pub(crate) fn check(&self) -> Result<(), String> {
        let name = self.name();
        let end = self
            .status()
            .filter(|_| self.is_completed())
            .and_then(|s| s.attempt_status.completion_status.as_ref());
        let Some(end) = end else {
            let state =
                self.states.last().map_or("untouched by the controller".into(), |(_, s)| format!("{s:?}"));
            return Err(format!("{name} did not complete: it is {state}"));
        };
        if end.code != self.example.code {
            return Err(format!("{name} completed with {}, not with {}", end.code, self.example.code));
        }
        match self.example.expectation {
            Expectation::TaskRetried { task_role, index, code } => {
                let ended = self.task_ends.get(&(task_role.to_owned(), index, 0)).map(|end| end.code);
                let followed = self.task_ends.contains_key(&(task_role.to_owned(), index, 1));
                let as_expected = ended == Some(code) && followed;
                as_expected
                    .then_some(())
                    .ok_or_else(|| format!("{name}: Task {task_role}-{index} was not retried"))
            }
            Expectation::TasksStopped { task_role } => {
                let stopped = self.stopped_tasks();
                let all = self.tasks().filter(|(role, _)| *role == task_role).all(|(role, task)| {
                    stopped.contains(&(role, task.index)) && task.attempt_status.run_time.is_some()
                });
                let as_expected = all && !stopped.is_empty();
                as_expected.then_some(()).ok_or_else(|| format!("{name}: not all of {task_role} still ran"))
            }
            Expectation::NotRetried => {
                let retried = self.ends.len() > 1 || self.task_ends.keys().any(|(.., attempt)| *attempt > 0);
                if retried { Err(format!("{name} was retried")) } else { Ok(()) }
            }
            Expectation::Stopped => {
                let all = self.tasks().all(|(_, task)| task.attempt_status.run_time.is_some());
                all.then_some(()).ok_or_else(|| format!("{name} was stopped before all its Tasks ran"))
            }
        }
    }
}
