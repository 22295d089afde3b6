//! Frameworks as users write them: one change from healthy at a time.

use framework_api::queue::QUEUE_NAME_LABEL;
use framework_sim::User;
use serde_json::{Value, json};

/// Label and prefix of the contract.
pub const SLOT: &str = "frameworkcontroller.microsoft.com/slot";

/// A Framework in the making.
#[derive(Clone, Debug)]
pub struct Manifest(Value);

/// A Framework with no TaskRole yet.
pub fn framework(name: &str) -> Manifest {
    Manifest(json!({
        "apiVersion": "frameworkcontroller.microsoft.com/v1", "kind": "Framework",
        "metadata": { "name": name }, "spec": { "taskRoles": [] },
    }))
}

impl Manifest {
    /// With another TaskRole; the calls that follow are about it.
    #[must_use]
    pub fn role(mut self, name: &str, tasks: u32) -> Self {
        let pod = json!({
            "metadata": { "annotations": {} },
            "spec": { "restartPolicy": "Never", "containers": [{ "name": "main", "image": "x" }] },
        });
        let role = json!({ "name": name, "taskNumber": tasks, "task": { "pod": pod } });
        self.0["spec"]["taskRoles"].as_array_mut().expect("a list").push(role);
        self
    }

    fn last(&mut self) -> &mut Value {
        self.0["spec"]["taskRoles"].as_array_mut().and_then(|roles| roles.last_mut()).expect("a TaskRole")
    }

    /// With a retry policy of the Framework.
    #[must_use]
    pub fn retry(mut self, fancy: bool, count: i32) -> Self {
        self.0["spec"]["retryPolicy"] = json!({ "fancyRetryPolicy": fancy, "maxRetryCount": count });
        self
    }

    /// With a retry policy of the role's Tasks.
    #[must_use]
    pub fn retry_tasks(mut self, fancy: bool, count: i32) -> Self {
        self.last()["task"]["retryPolicy"] = json!({ "fancyRetryPolicy": fancy, "maxRetryCount": count });
        self
    }

    /// With a time-out after which a Pod of the role that hangs is forced.
    #[must_use]
    pub fn force_after(mut self, seconds: i64) -> Self {
        self.last()["task"]["podGracefulDeletionTimeoutSec"] = json!(seconds);
        self
    }

    /// With a completion policy of the role: so many failed, or so many succeeded.
    #[must_use]
    pub fn completes(mut self, failed: i32, succeeded: i32) -> Self {
        self.last()["frameworkAttemptCompletionPolicy"] =
            json!({ "minFailedTaskCount": failed, "minSucceededTaskCount": succeeded });
        self
    }

    /// With an annotation that sets the fate of the role's Pods.
    #[must_use]
    pub fn fate(mut self, key: &str, value: &str) -> Self {
        self.last()["task"]["pod"]["metadata"]["annotations"][format!("sim/{key}")] = json!(value);
        self
    }

    /// With a number of seconds after which it is ended.
    #[must_use]
    pub fn deadline(mut self, seconds: i64) -> Self {
        self.0["spec"]["activeDeadlineSeconds"] = json!(seconds);
        self
    }

    /// With a number of seconds for which it is kept once it has completed.
    #[must_use]
    pub fn kept_for(mut self, seconds: i64) -> Self {
        self.0["spec"]["ttlSecondsAfterFinished"] = json!(seconds);
        self
    }

    /// In a queue.
    #[must_use]
    pub fn queue(mut self, name: &str) -> Self {
        self.0["metadata"]["labels"] = json!({ QUEUE_NAME_LABEL: name });
        self
    }

    /// With Pods that request so much CPU each, as a quantity.
    #[must_use]
    pub fn cpu(mut self, each: &str) -> Self {
        for role in self.0["spec"]["taskRoles"].as_array_mut().into_iter().flatten() {
            role["task"]["pod"]["spec"]["containers"][0]["resources"] =
                json!({ "requests": { "cpu": each } });
        }
        self
    }

    /// With an execution type.
    #[must_use]
    pub fn execution(mut self, execution: &str) -> Self {
        self.0["spec"]["executionType"] = json!(execution);
        self
    }

    /// The manifest.
    pub fn value(self) -> Value {
        self.0
    }

    /// Creates it.
    pub fn create(self, user: &User) {
        user.create(self.0).expect("the manifest is valid");
    }
}

/// A user's actions on a Framework; each returns whether the Framework was there.
pub trait Deeds {
    /// Stops it.
    fn stop(&self, framework: &str) -> bool;
    /// Starts it.
    fn start(&self, framework: &str) -> bool;
    /// Wants so many Tasks of the role at that position.
    fn scale(&self, framework: &str, role: usize, tasks: u32) -> bool;
    /// Takes the label by which the controller finds an object.
    fn strip(&self, plural: &str, name: &str) -> bool;
}

impl Deeds for User {
    fn stop(&self, framework: &str) -> bool {
        self.patch("frameworks", framework, json!({ "spec": { "executionType": "Stop" } })).is_ok()
    }

    fn start(&self, framework: &str) -> bool {
        self.patch("frameworks", framework, json!({ "spec": { "executionType": "Start" } })).is_ok()
    }

    fn scale(&self, framework: &str, role: usize, tasks: u32) -> bool {
        let path = format!("/spec/taskRoles/{role}/taskNumber");
        let patch = json!([{ "op": "replace", "path": path, "value": tasks }]);
        self.json_patch("frameworks", framework, patch).is_ok()
    }

    fn strip(&self, plural: &str, name: &str) -> bool {
        self.patch(plural, name, json!({ "metadata": { "labels": { SLOT: null } } })).is_ok()
    }
}
