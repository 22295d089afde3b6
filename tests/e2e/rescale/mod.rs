//! The manual's section Framework ScaleUp/ScaleDown: its example step by step, every way to rescale, every
//! moment at which one may, and its strong safety guarantees over all that happened meanwhile.

mod elastic;
mod example;
mod moments;
mod policies;
mod ways;

use framework_api::status::{TaskRoleStatus, TaskStatus};
use framework_api::{Framework, FrameworkStatus, State};
use framework_testcluster::Output;
use serde_json::{Value, json};

use crate::cluster::history::History;
use crate::cluster::lease::{self, Shared};
use crate::cluster::recording::Recording;
use crate::cluster::{self, Manifest, TEST, block_on, checkers, installed};

/// Delays of retries long enough to be seen and short enough to be waited for.
const CONFIG: &str = concat!(
    "frameworkMinRetryDelaySecForTransientConflictFailed: 8
",
    "frameworkMaxRetryDelaySecForTransientConflictFailed: 8",
);

/// A user's Framework in a namespace of its own.
struct Job {
    namespace: String,
    name: String,
    recording: Recording,
    _controller: Shared,
}

/// A fresh namespace, on record, in which nothing is yet.
fn job(namespace: &str, name: &str) -> Job {
    let controller = Shared::controller("rescale", CONFIG);
    let namespace = lease::namespace(namespace);
    let recording = Recording::start(&namespace);
    Job { namespace, name: name.to_owned(), recording, _controller: controller }
}

impl Job {
    /// Creates it and waits until so many Tasks run.
    fn start(self, manifest: &Manifest, tasks: i32) -> Job {
        manifest.create(&self.namespace);
        self.running(tasks);
        self
    }

    /// Runs kubectl in the namespace; the Framework is its last argument.
    fn kubectl(&self, arguments: &[&str], input: &str) -> Output {
        let arguments = [&["--namespace", &self.namespace], arguments].concat();
        installed().kubectl_as("admin", &arguments, input).expect("kubectl runs")
    }

    /// The same, for a command that has to succeed.
    fn done(&self, arguments: &[&str], input: &str) -> String {
        let output = self.kubectl(arguments, input);
        assert!(output.status.success(), "kubectl {arguments:?}: {}\n{input}", output.stderr);
        output.stdout
    }

    /// Sends a patch of some type. Gives the complaint if it is refused.
    fn try_patch(&self, kind: &str, patch: &Value) -> Result<(), String> {
        let (kind, patch) = (format!("--type={kind}"), patch.to_string());
        let output = self.kubectl(&["patch", "framework", &self.name, &kind, "-p", &patch], "");
        if output.status.success() { Ok(()) } else { Err(output.stderr) }
    }

    /// Sends a JSON patch.
    fn patch(&self, patch: Value) {
        self.try_patch("json", &patch).expect("the patch fits");
    }

    /// Wants so many Tasks of the TaskRole at an index, as the manual's section Add/Delete Task does.
    fn scale(&self, index: usize, role: &str, number: u32) {
        self.patch(json!([name_is(index, role), replace(index, "taskNumber", number)]));
    }

    /// Waits until its status is as asked.
    fn wait(&self, what: &str, is: impl Fn(&FrameworkStatus) -> bool) -> FrameworkStatus {
        let is = |framework: &Framework| framework.status.as_ref().is_some_and(&is);
        cluster::wait(&self.namespace, &self.name, what, is).status.expect("a status")
    }

    /// Waits until exactly so many Tasks run and no others are there.
    fn running(&self, tasks: i32) -> FrameworkStatus {
        let all = usize::try_from(tasks).expect("a count");
        self.wait("running with no Task too many", |status| {
            let counts = status.task_counts;
            counts.is_some_and(|counts| counts.running == tasks && counts.total == tasks)
                && status.task_roles().iter().map(|role| role.task_statuses.len()).sum::<usize>() == all
        })
    }

    /// Waits until the Framework is Completed, and gives its code.
    fn completed(&self) -> i32 {
        cluster::code(&cluster::completed(&self.namespace, &self.name)).0
    }

    /// The Framework now.
    fn get(&self) -> Framework {
        block_on(cluster::frameworks(&self.namespace).get(&self.name)).expect("it is there")
    }

    /// From now on a Pod hangs once it is deleted, or it does no longer.
    fn hang(&self, pod: &str, hangs: bool) {
        let change =
            if hangs { format!("{TEST}/hang-terminating=true") } else { format!("{TEST}/hang-terminating-") };
        self.done(&["annotate", "pod", pod, &change], "");
    }

    /// Stops it, and asserts that all that ever happened kept every guarantee.
    fn end(self) -> History {
        cluster::execute(&self.namespace, &self.name, "Stop");
        self.completed();
        self.judge()
    }

    /// Asserts of a Framework that is completed that every promise and guarantee was kept.
    fn judge(self) -> History {
        cluster::assert_nothing_is_left(&self.namespace, &self.name);
        let (changes, requests) = self.recording.end_with_changes(|request| request);
        let history = History::complete(changes, requests);
        let mut found = checkers::broken_promises(&history.recorded);
        found.extend(checkers::broken_rescales(&history.recorded));
        assert!(found.is_empty(), "{} breaches:\n{}", found.len(), found.join("\n"));
        history
    }
}

/// The operation by which a patch makes sure of the TaskRole at an index.
fn name_is(index: usize, role: &str) -> Value {
    json!({ "op": "test", "path": format!("/spec/taskRoles/{index}/name"), "value": role })
}

/// The operation that replaces a number of the TaskRole at an index.
fn replace(index: usize, field: &str, value: u32) -> Value {
    json!({ "op": "replace", "path": format!("/spec/taskRoles/{index}/{field}"), "value": value })
}

/// A Task of a status.
fn task<'a>(status: &'a FrameworkStatus, role: &str, index: i32) -> &'a TaskStatus {
    status.task(role, index).unwrap_or_else(|| panic!("no Task {role}-{index} in {status:#?}"))
}

/// A TaskRole of a status.
fn role<'a>(status: &'a FrameworkStatus, name: &str) -> &'a TaskRoleStatus {
    let found = status.task_roles().iter().find(|role| role.name == name);
    found.unwrap_or_else(|| panic!("no TaskRole {name} in {status:#?}"))
}

/// Code and phrase with which a Task's attempt ended.
fn end(task: &TaskStatus) -> Option<(i32, &str)> {
    task.attempt_status.completion_status.as_ref().map(|end| (end.code, end.phrase.as_str()))
}

/// Whether a Task runs and is to stay.
fn runs(task: &TaskStatus) -> bool {
    task.state == State::AttemptRunning && !task.deletion_pending
}

/// The instances of the Tasks of a TaskRole, each with its Pod.
fn instances(status: &FrameworkStatus, name: &str) -> Vec<(String, Option<String>)> {
    let tasks = role(status, name).task_statuses.iter();
    tasks.map(|task| (task.instance_uid.clone(), task.attempt_status.pod_uid.clone())).collect()
}
