//! The part of a scenario that is about queues: where QueueUnits wait, and what they ask for.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};

/// Namespaces that are alike, each with Queues and one ResourceQuota. The jobs of a group are spread over all
/// of them evenly.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Queues {
    /// How many namespaces: 1 to 1000.
    pub namespaces: usize,
    /// How many Queues in each: 1 to 1000.
    pub queues: usize,
    /// `spec.hard` of the ResourceQuota of each namespace, in whole numbers.
    pub quota: BTreeMap<String, u64>,
}

/// What a job that waits in a queue asks for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Unit {
    /// `spec.resource`, in whole numbers.
    pub resource: BTreeMap<String, u64>,
    /// `spec.priority`.
    #[serde(default)]
    pub priority: i32,
    /// How long its job runs once it is released; then the unit is deleted.
    #[serde(default)]
    pub run_seconds: f64,
    /// Its job runs until all units of the other groups wait, and so much longer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub until_all_wait: bool,
}

/// Where a unit waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueIndex {
    /// The number of its namespace, from 0.
    pub namespace: usize,
    /// The number of its Queue in there, from 0.
    pub queue: usize,
}

impl Queues {
    /// Where the n-th unit of a group waits: one after another goes to another namespace.
    pub fn queue_of(&self, nth: usize) -> QueueIndex {
        QueueIndex { namespace: nth % self.namespaces, queue: nth / self.namespaces % self.queues }
    }

    /// An error that names the first wrong field, and what is allowed there.
    pub(super) fn check(&self) -> Result<()> {
        ensure!((1..=1000).contains(&self.namespaces), "queue: namespaces: 1 to 1000 are allowed");
        ensure!((1..=1000).contains(&self.queues), "queue: queues: 1 to 1000 are allowed");
        Ok(())
    }
}

impl Unit {
    /// An error that names the first wrong field, and what is allowed there.
    pub(super) fn check(&self, queues: &Queues) -> Result<()> {
        ensure!(self.run_seconds >= 0.0, "runSeconds: must be 0 or above");
        for (resource, asked) in &self.resource {
            let limit = queues.quota.get(resource).copied().unwrap_or(u64::MAX);
            ensure!(*asked <= limit, "resource: {resource}: {asked} is more than the quota of {limit}");
        }
        Ok(())
    }
}

impl QueueIndex {
    /// The name of its Queue.
    pub fn queue_name(self) -> String {
        format!("queue-{}", self.queue)
    }
}
