//! The Queues of a scenario, and the resources that QueueUnits request.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};

use super::bounds::check_time;

/// Equal namespaces, each with Queues and one ResourceQuota. The units of a group are spread evenly over all
/// Queues.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Queues {
    /// The number of namespaces, 1 to 1000.
    pub namespaces: usize,
    /// The number of Queues in each namespace, 1 to 1000.
    pub queues: usize,
    /// `spec.hard` of the ResourceQuota of each namespace, in whole numbers.
    pub quota: BTreeMap<String, u64>,
}

/// A QueueUnit without Pods.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Unit {
    /// `spec.resource`, in whole numbers.
    pub resource: BTreeMap<String, u64>,
    /// `spec.priority`.
    #[serde(default)]
    pub priority: i32,
    /// The seconds from its release to its deletion.
    #[serde(default)]
    pub run_seconds: f64,
    /// Its job runs until the units of all other groups are Enqueued, and `runSeconds` longer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub until_all_wait: bool,
}

/// The Queue of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueIndex {
    /// The index of the namespace.
    pub namespace: usize,
    /// The index of the Queue in the namespace.
    pub queue: usize,
}

impl Queues {
    /// The Queue of the n-th unit of a group: successive units go to different namespaces.
    pub fn queue_of(&self, nth: usize) -> QueueIndex {
        QueueIndex { namespace: nth % self.namespaces, queue: nth / self.namespaces % self.queues }
    }

    /// An error that names the first wrong field and the allowed values.
    pub(super) fn check(&self) -> Result<()> {
        ensure!((1..=1000).contains(&self.namespaces), "queue: namespaces: 1 to 1000 are allowed");
        ensure!((1..=1000).contains(&self.queues), "queue: queues: 1 to 1000 are allowed");
        Ok(())
    }
}

impl Unit {
    /// An error that names the first wrong field and the allowed values.
    pub(super) fn check(&self, queues: &Queues) -> Result<()> {
        check_time("runSeconds", self.run_seconds)?;
        for (resource, asked) in &self.resource {
            let limit = queues.quota.get(resource).copied().unwrap_or(u64::MAX);
            ensure!(*asked <= limit, "resource: {resource}: {asked} is more than the quota of {limit}");
        }
        Ok(())
    }
}

impl QueueIndex {
    /// The name of the Queue.
    pub fn queue_name(self) -> String {
        format!("queue-{}", self.queue)
    }
}
