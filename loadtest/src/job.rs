//! The objects that a load test creates: a job of a group as a Framework, a `batch/v1` Job or a QueueUnit.

use framework_api::queue;
use serde_json::{Value, json};

use crate::scenario::{Group, QueueIndex, Scenario, TaskRole, Unit};

/// Label of all objects of a load test: the run.
pub const RUN_LABEL: &str = "loadtest.frameworkcontroller.microsoft.com/run";
/// Label of all objects of a load test: the group.
pub const GROUP_LABEL: &str = "loadtest.frameworkcontroller.microsoft.com/group";
/// Prefix of the annotations that tell fake nodes how a Pod ends.
const ANNOTATION_PREFIX: &str = "test.frameworkcontroller.microsoft.com";

/// One job of a run.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    /// The scenario.
    pub scenario: &'a Scenario,
    /// Its group.
    pub group: &'a Group,
    /// Its index in the group.
    pub index: usize,
    /// The ID of the run.
    pub run: &'a str,
    /// The node that its Pods are bound to, if any.
    pub node: Option<&'a str>,
}

impl Job<'_> {
    /// Its name.
    pub fn name(&self) -> String {
        self.group.job_name(self.index)
    }

    /// The job as a Framework. `deadline` replaces the `activeDeadlineSeconds` of the group.
    pub fn framework(&self, deadline: Option<i64>) -> Value {
        let mut spec = json!({
            // The load test completes Frameworks that are to expire; no Task runs for them.
            "executionType": if self.group.expire_at_seconds.is_some() { "Create" } else { "Start" },
            "taskRoles": self.group.task_roles.iter().map(|role| self.task_role(role)).collect::<Vec<_>>(),
        });
        let deadline = deadline.or(self.group.active_deadline_seconds.map(i64::from));
        let ttl = self.group.ttl_seconds_after_finished.map(i64::from);
        for (field, value) in [("activeDeadlineSeconds", deadline), ("ttlSecondsAfterFinished", ttl)] {
            if let Some(value) = value {
                spec[field] = value.into();
            }
        }
        json!({
            "apiVersion": framework_api::name::API_VERSION,
            "kind": framework_api::name::KIND,
            "metadata": self.metadata(),
            "spec": spec,
        })
    }

    /// The job as a `batch/v1` Job. A Job has one kind of Task, so all Tasks are those of the first TaskRole.
    pub fn batch_job(&self) -> Value {
        let tasks = self.group.tasks();
        let role = self.group.task_roles.first();
        let mut spec = json!({
            "completionMode": "Indexed",
            "completions": tasks,
            "parallelism": tasks,
            "backoffLimitPerIndex": role.map_or(0, |role| role.retries),
            "template": role.map(|role| self.pod(role)),
        });
        if let Some(ttl) = self.group.ttl_seconds_after_finished {
            spec["ttlSecondsAfterFinished"] = ttl.into();
        }
        if let Some(deadline) = self.group.active_deadline_seconds {
            spec["activeDeadlineSeconds"] = deadline.into();
        }
        json!({ "apiVersion": "batch/v1", "kind": "Job", "metadata": self.metadata(), "spec": spec })
    }

    /// The job as a QueueUnit whose consumer is of a kind without a controller.
    pub fn unit(&self, unit: &Unit, queue: QueueIndex) -> Value {
        json!({
            "apiVersion": queue::API_VERSION,
            "kind": queue::UNIT_KIND,
            "metadata": self.metadata(),
            "spec": {
                "consumerRef": {
                    "apiVersion": "loadtest.frameworkcontroller.microsoft.com/v1",
                    "kind": "Job",
                    "name": self.name(),
                },
                "queue": queue.queue_name(),
                "priority": unit.priority,
                "resource": unit.resource,
            },
        })
    }

    fn metadata(&self) -> Value {
        json!({ "name": self.name(), "labels": self.labels() })
    }

    /// The labels of all its objects.
    pub fn labels(&self) -> Value {
        json!({ RUN_LABEL: self.run, GROUP_LABEL: self.group.name })
    }

    fn task_role(&self, role: &TaskRole) -> Value {
        json!({
            "name": role.name,
            "taskNumber": role.task_number,
            "frameworkAttemptCompletionPolicy": {
                "minFailedTaskCount": role.min_failed_task_count,
                "minSucceededTaskCount": -1,
            },
            "task": {
                "retryPolicy": { "fancyRetryPolicy": false, "maxRetryCount": role.retries },
                "pod": self.pod(role),
            },
        })
    }

    /// The Pod template: a command for real nodes, annotations for fake nodes.
    pub fn pod(&self, role: &TaskRole) -> Value {
        let (seconds, code) = (role.run_seconds, role.exit_code);
        let mut pod = json!({
            "metadata": {
                "labels": self.labels(),
                "annotations": {
                    format!("{ANNOTATION_PREFIX}/run-duration"): format!("{}ms", (seconds * 1000.0).round()),
                    format!("{ANNOTATION_PREFIX}/exit-code"): code.to_string(),
                },
            },
            "spec": {
                "restartPolicy": "Never",
                "containers": [{
                    "name": "main",
                    "image": "busybox:stable",
                    "command": ["sh", "-c", format!("sleep {seconds}; exit {code}")],
                }],
            },
        });
        if let Some(node) = self.node {
            pod["spec"]["nodeName"] = node.into();
        }
        pod
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_framework_says_what_its_group_says() {
        let text = "description: d\ngroups: [{name: a, jobs: 2, ttlSecondsAfterFinished: 60, taskRoles: \
            [{name: w, taskNumber: 3, runSeconds: 1.5, exitCode: 7, retries: 2, minFailedTaskCount: -1}]}]";
        let scenario = Scenario::parse(text).unwrap();
        let group = &scenario.groups[0];
        let job = Job { scenario: &scenario, group, index: 1, run: "r1", node: Some("n1") };
        let framework = job.framework(Some(9));
        let typed: framework_api::Framework = serde_json::from_value(framework.clone()).unwrap();
        assert_eq!(
            (typed.spec.active_deadline_seconds, typed.spec.ttl_seconds_after_finished),
            (Some(9), Some(60))
        );
        assert_eq!(framework["metadata"]["name"], "a1");
        assert_eq!(framework["metadata"]["labels"][RUN_LABEL], "r1");
        let pod = &framework["spec"]["taskRoles"][0]["task"]["pod"];
        assert_eq!(pod["spec"]["nodeName"], "n1");
        assert_eq!(pod["spec"]["containers"][0]["command"][2], "sleep 1.5; exit 7");
        assert_eq!(pod["metadata"]["annotations"][format!("{ANNOTATION_PREFIX}/run-duration")], "1500ms");
        let batch = job.batch_job();
        assert_eq!(
            (&batch["spec"]["completions"], &batch["spec"]["backoffLimitPerIndex"]),
            (&json!(3), &json!(2))
        );
    }
}
