//! The kinds of the lives, as their users, their operator and the checks see them. Nothing here reads a row:
//! the controller knows the fields from rows only.

use std::slice;

use framework_api::config::Config;
use framework_api::queue::QUEUE_NAME_LABEL;
use framework_sim::{Kind, Meta, Options};
use serde_json::{Value, json};

use crate::simulation::controller::Setup;

/// The row of a kind that no other file of the project names. Its Pods come from several templates.
const ROW: &str = "
queueJobKinds:
- apiVersion: lab.example.com/v1beta3
  kind: Campaign
  plural: campaigns
  suspend: {pointer: /spec/paused}
  podSets:
  - each: /spec/stages/*
    count: [[/workers]]
    template: /pod
  finished: {pointer: /status/phase, values: [Done]}
";

/// A kind whose operator is played.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum PlayedKind {
    /// The kind of [`ROW`].
    #[default]
    Campaign,
    /// batch/v1 Job, whose row is built in, and which the controller waits for at its start.
    Job,
}

impl PlayedKind {
    pub const ALL: [PlayedKind; 2] = [PlayedKind::Campaign, PlayedKind::Job];

    /// The kinds take turns.
    pub fn of_seed(seed: u64) -> Self {
        if seed.is_multiple_of(2) { PlayedKind::Campaign } else { PlayedKind::Job }
    }

    /// Makes the API server serve the kind, and gives the controller its row.
    pub fn install(self, options: &mut Options, setup: &mut Setup) {
        if self == PlayedKind::Campaign {
            options.registry.add(Kind::custom("lab.example.com", "v1beta3", "Campaign", "campaigns"));
            setup.job_kinds.extend(Config::parse(ROW).expect("a valid row").queue_job_kinds);
        }
    }

    pub fn api_version(self) -> &'static str {
        match self {
            PlayedKind::Campaign => "lab.example.com/v1beta3",
            PlayedKind::Job => "batch/v1",
        }
    }

    pub fn kind(self) -> &'static str {
        match self {
            PlayedKind::Campaign => "Campaign",
            PlayedKind::Job => "Job",
        }
    }

    pub fn plural(self) -> &'static str {
        match self {
            PlayedKind::Campaign => "campaigns",
            PlayedKind::Job => "jobs",
        }
    }

    /// The name of the unit of a job.
    pub fn unit(self, job: &str) -> String {
        match self {
            PlayedKind::Campaign => format!("campaign-{job}"),
            PlayedKind::Job => format!("job-{job}"),
        }
    }

    /// A suspended job of so many Pods in the queue `q`.
    pub fn job(self, name: &str, pods: i64) -> Value {
        let pod = json!({ "containers": [{ "name": "main", "image": "x" }] });
        let labelled = json!({ "metadata": { "labels": { "stage": "second" } }, "spec": pod });
        let bare = json!({ "spec": pod });
        let spec = match self {
            PlayedKind::Campaign => {
                let first = json!({ "workers": pods - pods / 2, "pod": bare });
                let second = json!({ "workers": pods / 2, "pod": labelled });
                json!({ "paused": true, "stages": [first, second] })
            }
            PlayedKind::Job => json!({ "suspend": true, "parallelism": pods, "template": bare }),
        };
        json!({
            "apiVersion": self.api_version(), "kind": self.kind(),
            "metadata": { "name": name, "labels": { QUEUE_NAME_LABEL: "q" } }, "spec": spec,
        })
    }

    /// The patch of a user that suspends a job, or lets it go on.
    pub fn suspension(self, suspended: bool) -> Value {
        match self {
            PlayedKind::Campaign => json!({ "spec": { "paused": suspended } }),
            PlayedKind::Job => json!({ "spec": { "suspend": suspended } }),
        }
    }

    pub fn is_suspended(self, job: &Value) -> bool {
        match self {
            PlayedKind::Campaign => job["spec"]["paused"] == true,
            PlayedKind::Job => job["spec"]["suspend"] == true,
        }
    }

    /// The status of a job that has ended.
    pub fn end(self) -> Value {
        match self {
            PlayedKind::Campaign => json!({ "phase": "Done" }),
            PlayedKind::Job => json!({ "conditions": [{ "type": "Complete", "status": "True" }] }),
        }
    }

    pub fn is_finished(self, job: &Value) -> bool {
        match self {
            PlayedKind::Campaign => job["status"]["phase"] == "Done",
            PlayedKind::Job => job["status"]["conditions"].as_array().is_some_and(|all| !all.is_empty()),
        }
    }

    /// The Pod templates of a job, each with its number of Pods.
    pub fn templates(self, job: &Value) -> Vec<(i64, &Value)> {
        let (sets, count, template) = match self {
            PlayedKind::Campaign => {
                (job["spec"]["stages"].as_array().map_or(&[][..], Vec::as_slice), "workers", "pod")
            }
            PlayedKind::Job => (slice::from_ref(&job["spec"]), "parallelism", "template"),
        };
        sets.iter().map(|set| (set[count].as_i64().unwrap_or(1), &set[template])).collect()
    }

    /// The number of Pods of a job.
    pub fn pods(self, job: &Value) -> i64 {
        self.templates(job).iter().map(|(pods, _)| pods).sum()
    }

    /// The reference by which the Pods of a job name their owner.
    pub fn owner(self, job: &Value) -> Value {
        json!({ "apiVersion": self.api_version(), "kind": self.kind(), "name": job.name(), "uid": job.uid(),
            "controller": true })
    }
}
