//! The part of a scenario that is about queues: where QueueUnits wait, and what they ask for.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};

use super::{Group, Scenario};
use crate::job::name_of;

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
pub struct Seat {
    /// The number of its namespace, from 0.
    pub namespace: usize,
    /// The number of its Queue in there, from 0.
    pub queue: usize,
}

impl Queues {
    /// Where the n-th unit of a group waits: one after another goes to another namespace.
    pub fn seat(&self, nth: usize) -> Seat {
        Seat { namespace: nth % self.namespaces, queue: nth / self.namespaces % self.queues }
    }
}

impl Seat {
    /// The name of its Queue.
    pub fn queue_name(self) -> String {
        format!("queue-{}", self.queue)
    }
}

impl Scenario {
    /// All units by name, with their number in the group.
    pub fn units(&self) -> impl Iterator<Item = (String, usize, &Unit)> {
        self.groups.iter().flat_map(|group| {
            let numbers = 0..group.unit.as_ref().map_or(0, |_| group.jobs);
            numbers.filter_map(move |index| Some((name_of(&group.name, index), index, group.unit.as_ref()?)))
        })
    }

    /// Whether the jobs of a group run until all others wait.
    pub fn runs_until_all_wait(&self, group: &str) -> bool {
        let waits = |group: &Group| group.unit.as_ref().is_some_and(|unit| unit.until_all_wait);
        self.groups.iter().any(|one| one.name == group && waits(one))
    }

    pub(super) fn check_units(&self) -> Result<()> {
        let Some(queues) = &self.queue else {
            let units = self.groups.iter().any(|group| group.unit.is_some());
            ensure!(!units, "groups: units need a `queue` in the scenario");
            return Ok(());
        };
        ensure!((1..=1000).contains(&queues.namespaces), "queue: namespaces: 1 to 1000 are allowed");
        ensure!((1..=1000).contains(&queues.queues), "queue: queues: 1 to 1000 are allowed");
        self.groups.iter().try_for_each(|group| check(queues, group))
    }
}

fn check(queues: &Queues, group: &Group) -> Result<()> {
    let at = format!("groups: {}", group.name);
    let unit = group.unit.as_ref().filter(|_| group.task_roles.is_empty() && group.rescale.is_empty());
    let Some(unit) = unit else {
        anyhow::bail!(
            "{at}: with a `queue`, every group needs a `unit` and has neither taskRoles nor rescale"
        );
    };
    ensure!(unit.run_seconds >= 0.0, "{at}: unit: runSeconds: must be 0 or above");
    for (resource, asked) in &unit.resource {
        let limit = queues.quota.get(resource).copied().unwrap_or(u64::MAX);
        ensure!(
            *asked <= limit,
            "{at}: unit: resource: {resource}: {asked} is more than the quota of {limit}"
        );
    }
    Ok(())
}
