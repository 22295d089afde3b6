//! The `Framework` resource as users write it.
//!
//! Wire names, defaults and bounds are the contract's. The API server enforces them through the schema made
//! in `crate::schema`, so that they hold without an admission webhook. The types here also accept values
//! that an older schema let through, such as a count of 0: a stored object must stay readable.

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::pod_template::PodTemplate;
use crate::status::FrameworkStatus;

/// The desired state of a Framework: which Tasks run, how often they are retried, and when it is complete.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "frameworkcontroller.microsoft.com",
    version = "v1",
    kind = "Framework",
    plural = "frameworks",
    shortname = "fw",
    category = "all",
    namespaced,
    derive = "PartialEq",
    doc = "A Framework runs a batch or AI job: a set of TaskRoles, each a number of Tasks, each Task a Pod.",
    status = "FrameworkStatus",
    validation = crate::schema::name_rule(),
    printcolumn(name = "State", type_ = "string", json_path = ".status.state"),
    printcolumn(name = "Attempt", type_ = "integer", json_path = ".status.attemptStatus.id"),
    printcolumn(name = "Tasks", type_ = "string", json_path = ".status.tasks"),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Running\")].reason"
    ),
    printcolumn(
        name = "Result",
        type_ = "string",
        json_path = ".status.attemptStatus.completionStatus.phrase"
    ),
    printcolumn(
        name = "Running",
        type_ = "integer",
        json_path = ".status.taskCounts.running",
        priority = 1
    ),
    printcolumn(
        name = "Succeeded",
        type_ = "integer",
        json_path = ".status.taskCounts.succeeded",
        priority = 1
    ),
    printcolumn(name = "Failed", type_ = "integer", json_path = ".status.taskCounts.failed", priority = 1),
    printcolumn(
        name = "Queue",
        type_ = "string",
        json_path = ".metadata.labels.frameworkcontroller\\.microsoft\\.com/queue-name",
        priority = 1
    ),
    printcolumn(
        name = "Addressed",
        type_ = "integer",
        json_path = ".status.taskCounts.addressed",
        priority = 1
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = crate::schema::fixed_at_creation)]
pub struct FrameworkSpec {
    /// Free text for people; the controller does not read it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether the Framework waits (`Create`), runs (`Start`) or is stopped (`Stop`).
    /// It may go from Create to Start, and from either to Stop.
    #[serde(default)]
    #[schemars(transform = crate::schema::forward_only)]
    pub execution_type: ExecutionType,
    /// Whether a completed FrameworkAttempt is followed by another.
    #[serde(default)]
    pub retry_policy: RetryPolicy,
    /// Seconds from creation until the Framework is ended as failed, even if it never started: 1 to
    /// 3,153,600,000 (100 years). If unset, there is no limit. Fixed at creation. A value out of bounds is
    /// read as unset.
    #[serde(
        default,
        deserialize_with = "crate::seconds::active_deadline",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(transform = crate::schema::active_deadline)]
    pub active_deadline_seconds: Option<i64>,
    /// Seconds from its completion until the Framework is deleted: 0 (at once) to 2,147,483,647. If unset,
    /// the controller deletes it after frameworkCompletedRetainSec of its config file, 30 days by default.
    /// Fixed at creation. A value out of bounds is read as unset.
    #[serde(
        default,
        deserialize_with = "crate::seconds::ttl_after_finished",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(transform = crate::schema::ttl_after_finished)]
    pub ttl_seconds_after_finished: Option<i32>,
    /// The kinds of Tasks, at most 100, with at most 10,000 Tasks in all.
    #[schemars(length(max = crate::schema::MAX_TASK_ROLES), transform = crate::schema::task_role_map)]
    pub task_roles: Vec<TaskRole>,
}

/// Whether a Framework waits, runs or is stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ExecutionType {
    /// The object exists; nothing runs yet.
    Create,
    /// Run.
    #[default]
    Start,
    /// Complete as stopped; the object stays.
    Stop,
}

/// When a completed attempt is followed by another one, for Frameworks and Tasks alike.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RetryPolicy {
    /// Retry transient failures without counting them, and never retry permanent failures.
    pub fancy_retry_policy: bool,
    /// -2: always retry; -1: retry every failure; n ≥ 0: retry up to n failures.
    #[schemars(range(min = -2, max = 2_147_483_647))]
    pub max_retry_count: i32,
}

/// A named set of Tasks that share one pod template.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskRole {
    /// Unique in the Framework; `^[a-z0-9]{1,63}$`.
    #[schemars(regex(pattern = "^[a-z0-9]{1,63}$"))]
    pub name: String,
    /// How many Tasks: 0 to 10,000.
    #[schemars(range(min = 0, max = crate::schema::MAX_TASKS))]
    pub task_number: i32,
    /// How completed Tasks of this role complete the whole FrameworkAttempt.
    #[serde(default)]
    pub framework_attempt_completion_policy: CompletionPolicy,
    /// The retry policy and the Pod of each Task.
    pub task: TaskSpec,
}

/// How many completed Tasks of a TaskRole complete the FrameworkAttempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CompletionPolicy {
    /// The attempt fails once this many Tasks failed; -1: never by this rule. Not 0.
    #[schemars(range(min = -1, max = 2_147_483_647), transform = crate::schema::never_zero)]
    pub min_failed_task_count: i32,
    /// The attempt succeeds once this many Tasks succeeded; -1: only when all Tasks completed. Not 0.
    #[schemars(range(min = -1, max = 2_147_483_647), transform = crate::schema::never_zero)]
    pub min_succeeded_task_count: i32,
}

impl Default for CompletionPolicy {
    fn default() -> Self {
        CompletionPolicy { min_failed_task_count: 1, min_succeeded_task_count: -1 }
    }
}

/// The retry policy and the Pod of each Task of a TaskRole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskSpec {
    /// Whether a completed TaskAttempt is followed by another.
    #[serde(default)]
    pub retry_policy: RetryPolicy,
    /// Seconds that a Pod may stay terminating before it is force-deleted. If unset, there is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub pod_graceful_deletion_timeout_sec: Option<i64>,
    /// The Pod of a TaskAttempt: a `PodTemplateSpec`, kept as written.
    #[schemars(schema_with = "crate::schema::opaque_object")]
    pub pod: PodTemplate,
}

impl FrameworkSpec {
    /// The TaskRole of that name.
    pub fn task_role(&self, name: &str) -> Option<&TaskRole> {
        self.task_roles.iter().find(|role| role.name == name)
    }

    /// How many Tasks the spec asks for, over all TaskRoles.
    pub fn task_number(&self) -> usize {
        self.task_roles.iter().map(TaskRole::task_count).sum()
    }
}

impl TaskRole {
    /// `taskNumber` as a count: 0 if negative, at most 10,000.
    pub fn task_count(&self) -> usize {
        usize::try_from(self.task_number).unwrap_or(0).min(crate::schema::MAX_TASKS)
    }
}
