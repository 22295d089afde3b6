//! Creates the jobs of a scenario when it wants them, whatever becomes of those before: an open loop.
//!
//! A generator that waits for a slow system would stop asking just when it is slowest, and never see how long
//! its users wait. Each creation has its moment; what comes late is late by that moment.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use jiff::{SignedDuration, Timestamp};
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::core::DynamicObject;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::floor::FloorClient;
use crate::follow::{SharedTracker, lock};
use crate::job::Job;
use crate::namespace::Namespace;
use crate::partial_status::Phase;
use crate::scenario::{Group, Scenario};
use crate::system::System;

mod units;

/// Requests at a time. Each has a connection of its own; more would make the API server's work, not the load.
pub const AT_ONCE: usize = 64;
/// How long a controller may take to notice a Framework that is to be completed for it.
const ACCEPTED: Duration = Duration::from_secs(60);
const EVERY: Duration = Duration::from_millis(20);
/// For Frameworks that the load test completes: long enough that nothing expires before its time.
const LONG_TTL: i64 = 3600;

/// What is needed to create jobs.
#[derive(Clone)]
pub struct Generator {
    /// Where.
    pub namespace: Namespace,
    /// For whom.
    pub system: System,
    /// What.
    pub scenario: Arc<Scenario>,
    /// The run that they belong to.
    pub run: String,
    /// Nodes that Pods are bound to, in turn; none: the scheduler chooses.
    pub nodes: Arc<Vec<String>>,
    /// Who follows them.
    pub tracked: SharedTracker,
    /// Who does the work, if no controller does.
    pub floor: Option<FloorClient>,
    /// Deletions of units at a time.
    pub deletions: Arc<Semaphore>,
}

/// One creation.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Arrival {
    after: Duration,
    group: usize,
    index: usize,
}

/// All creations in the order of their moments.
fn arrivals(scenario: &Scenario) -> Vec<Arrival> {
    let of = |(number, group): (usize, &Group)| {
        let (start, rate) = (group.start_seconds, group.per_second);
        (0..group.jobs)
            .map(|index| {
                let after = start + rate.map_or(0.0, |rate| index as f64 / rate);
                Arrival { after: Duration::from_secs_f64(after), group: number, index }
            })
            .collect::<Vec<_>>()
    };
    let mut all: Vec<Arrival> = scenario.groups.iter().enumerate().flat_map(of).collect();
    all.sort_by_key(|arrival| arrival.after);
    all
}

impl Generator {
    /// Tells the tracker of all jobs. Before the first is created: it must not look as if all were over.
    pub fn announce(&self, start: Instant) {
        let mut tracker = lock(&self.tracked);
        for arrival in arrivals(&self.scenario) {
            let job = self.job(arrival);
            tracker.expect(job.name(), &job.group.name, start + arrival.after);
        }
    }

    /// Lets the API server check the first job of each group, which it does not store. What is wrong with
    /// the scenario is said before the run, and what an API server does once for a new resource (its schema
    /// and rules are compiled on the first request) is not taken for the load's work.
    pub async fn rehearse(&self) -> Result<()> {
        for group in 0..self.scenario.groups.len() {
            let job = self.job(Arrival { after: Duration::ZERO, group, index: 0 });
            if self.system == System::Queue {
                self.rehearse_unit(&job).await?;
                continue;
            }
            let dry = PostParams { dry_run: true, ..PostParams::default() };
            let object: DynamicObject = serde_json::from_value(self.object(&job, None))?;
            let checked = self.api().create(&dry, &object).await;
            checked.with_context(|| format!("a job of group {} would be refused", job.group.name))?;
        }
        Ok(())
    }

    /// Creates all jobs at their moments after `start`, and returns once the last is created and rescaled.
    pub async fn create(&self, start: Instant, wall: Timestamp) -> Result<()> {
        let room = Arc::new(Semaphore::new(AT_ONCE));
        let mut running = JoinSet::new();
        for arrival in arrivals(&self.scenario) {
            tokio::time::sleep_until((start + arrival.after).into()).await;
            let (this, room) = (self.clone(), Arc::clone(&room));
            running.spawn(async move {
                match this.system {
                    System::Queue => this.attend(arrival, &room).await,
                    _ => this.create_one(arrival, start, wall, &room).await,
                }
            });
            while let Some(created) = running.try_join_next() {
                created??;
            }
        }
        while let Some(created) = running.join_next().await {
            created??;
        }
        Ok(())
    }

    fn job(&self, arrival: Arrival) -> Job<'_> {
        let node = match self.nodes.len() {
            0 => None,
            count => Some(self.nodes[arrival.index % count].as_str()),
        };
        let group = &self.scenario.groups[arrival.group];
        Job { scenario: &self.scenario, group, index: arrival.index, run: &self.run, node }
    }

    fn api(&self) -> Api<DynamicObject> {
        match self.system {
            System::Framework | System::Floor | System::Queue => self.namespace.frameworks(),
            System::Job => {
                let resource = kube::core::ApiResource::erase::<k8s_openapi::api::batch::v1::Job>(&());
                Api::namespaced_with(self.namespace.client.clone(), &self.namespace.name, &resource)
            }
        }
    }

    /// A job as the system wants it; `deadline` is its `activeDeadlineSeconds`, if not the group's own.
    fn object(&self, job: &Job<'_>, deadline: Option<i64>) -> Value {
        match self.system {
            System::Job => job.batch_job(),
            System::Framework | System::Floor | System::Queue => job.framework(deadline),
        }
    }

    async fn create_one(
        &self,
        arrival: Arrival,
        start: Instant,
        wall: Timestamp,
        room: &Semaphore,
    ) -> Result<()> {
        let (job, api) = (self.job(arrival), self.api());
        let name = job.name();
        let at = |seconds: u32| wall.checked_add(SignedDuration::from_secs(seconds.into()));
        let permit = room.acquire().await.context("the generator ended")?;
        let deadline = job.group.deadline_at_seconds.map(at).transpose()?;
        // As a user would who wants it to end at that time.
        let seconds = deadline.map(|deadline| seconds_until(deadline).max(1));
        let created = create(&api, &name, &self.object(&job, seconds)).await?;
        let stored = Instant::now();
        let expiry = job.group.expire_at_seconds.map(at).transpose()?;
        {
            let mut tracker = lock(&self.tracked);
            tracker.stored(&name, stored);
            let seconds = seconds.or(job.group.active_deadline_seconds.map(i64::from));
            if let (Some(seconds), Some(born)) = (seconds, created.metadata.creation_timestamp.as_ref()) {
                tracker.due(&name, born.0.checked_add(SignedDuration::from_secs(seconds))?);
            }
            if let Some(expiry) = expiry {
                tracker.due(&name, whole(expiry));
            }
        }
        if let Some(expiry) = expiry {
            // Both would write the status at once otherwise, and one would be refused.
            self.until_accepted(&name).await?;
            let ttl = job.group.ttl_seconds_after_finished.map_or(LONG_TTL, i64::from);
            complete(&api, &name, whole(expiry).checked_sub(SignedDuration::from_secs(ttl))?).await?;
        }
        drop(permit);
        if let Some(floor) = &self.floor {
            let meta = created.metadata;
            let (uid, version) =
                meta.uid.zip(meta.resource_version).context("a stored Framework has a UID")?;
            return floor.attend(&job, &uid, version).await;
        }
        for rescale in &job.group.rescale {
            let after = arrival.after + Duration::from_secs_f64(rescale.after_seconds);
            tokio::time::sleep_until((start + after).into()).await;
            let _permit = room.acquire().await.context("the generator ended")?;
            let patch = json!([
                { "op": "replace", "path": "/spec/taskRoles/0/taskNumber", "value": rescale.task_number },
            ]);
            let patch: Patch<()> = Patch::Json(serde_json::from_value(patch)?);
            match api.patch(&name, &PatchParams::default(), &patch).await {
                Ok(_) => {}
                // It is over already, and deleted.
                Err(kube::Error::Api(error)) if error.code == 404 => {}
                Err(error) => return Err(error).with_context(|| format!("rescaling {name}")),
            }
        }
        Ok(())
    }
}

impl Generator {
    async fn until_accepted(&self, name: &str) -> Result<()> {
        let deadline = Instant::now() + ACCEPTED;
        while !lock(&self.tracked).has_reached(name, Phase::Accepted) {
            ensure!(Instant::now() < deadline, "no controller gave {name} a status within {ACCEPTED:?}");
            tokio::time::sleep(EVERY).await;
        }
        Ok(())
    }
}

async fn create(api: &Api<DynamicObject>, name: &str, object: &Value) -> Result<DynamicObject> {
    let object: DynamicObject = serde_json::from_value(object.clone())?;
    api.create(&PostParams::default(), &object).await.with_context(|| format!("creating {name}"))
}

/// Writes that a Framework without a run succeeded at that time.
async fn complete(api: &Api<DynamicObject>, name: &str, at: Timestamp) -> Result<()> {
    const UID: &str = "00000000-0000-8000-8000-000000000000";
    let status = json!({
        "startTime": at, "completionTime": at, "runTime": null, "state": "Completed", "transitionTime": at,
        "retryPolicyStatus": { "totalRetriedCount": 0, "accountableRetriedCount": 0, "retryDelaySec": null },
        "attemptStatus": {
            "id": 0, "startTime": at, "completionTime": at, "runTime": null,
            "instanceUID": format!("0_{UID}"),
            "configMapName": framework_api::name::config_map_name(name),
            "configMapUID": UID,
            "completionStatus": {
                "code": 0, "phrase": "Succeeded", "type": { "name": "Succeeded", "attributes": [] },
                "diagnostics": "",
            },
            "taskRoleStatuses": [],
        },
    });
    let patch = Patch::Merge(json!({ "status": status }));
    api.patch_status(name, &PatchParams::default(), &patch)
        .await
        .with_context(|| format!("completing {name}"))?;
    Ok(())
}

/// Cut down to whole seconds, which is what the API keeps.
fn whole(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}

fn seconds_until(at: Timestamp) -> i64 {
    let left = at.duration_since(Timestamp::now());
    left.as_secs() + i64::from(left.subsec_nanos() > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_arrive_at_even_distances_whatever_becomes_of_them() {
        let text = "description: d\ngroups:\n\
            - {name: a, jobs: 3, perSecond: 2, startSeconds: 1, taskRoles: [{name: w, taskNumber: 1}]}\n\
            - {name: b, jobs: 2, taskRoles: [{name: w, taskNumber: 1}]}";
        let at: Vec<(u128, usize, usize)> = arrivals(&Scenario::parse(text).unwrap())
            .iter()
            .map(|arrival| (arrival.after.as_millis(), arrival.group, arrival.index))
            .collect();
        assert_eq!(at, [(0, 1, 0), (0, 1, 1), (1000, 0, 0), (1500, 0, 1), (2000, 0, 2)]);
    }

    #[test]
    fn seconds_are_rounded_so_that_nothing_is_due_early() {
        let at = Timestamp::now() + SignedDuration::from_millis(2500);
        assert_eq!(seconds_until(at), 3);
        let stamp: Timestamp = "2026-11-21T10:00:01.9Z".parse().unwrap();
        assert_eq!(whole(stamp).to_string(), "2026-11-21T10:00:01Z");
    }
}
