//! Creates the jobs of a scenario at their scheduled moments, independent of earlier jobs: an open loop.
//!
//! A generator that waited for a slow system would create fewer jobs when the system is slowest, and hide how
//! long users wait. Each job has its scheduled moment, and its latencies count from that moment.

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

/// Concurrent requests. Each has its own connection; more connections would be work for the API server that
/// no job causes.
pub const AT_ONCE: usize = 64;
/// How long a controller may take to accept a Framework that the load test completes.
const ACCEPTED: Duration = Duration::from_secs(60);
const EVERY: Duration = Duration::from_millis(20);
/// The TTL of Frameworks that the load test completes, if the group has none: nothing expires early.
const LONG_TTL: i64 = 3600;

/// Creates the jobs of a run.
#[derive(Clone)]
pub struct Generator {
    /// The namespace of the jobs.
    pub namespace: Namespace,
    /// The system that runs the jobs.
    pub system: System,
    /// The scenario.
    pub scenario: Arc<Scenario>,
    /// The ID of the run.
    pub run: String,
    /// Nodes that Pods are bound to, in turn; without nodes the scheduler chooses.
    pub nodes: Arc<Vec<String>>,
    /// The tracker of the jobs.
    pub tracked: SharedTracker,
    /// The floor client, if no controller runs the jobs.
    pub floor: Option<FloorClient>,
    /// Permits for concurrent deletions of units.
    pub deletions: Arc<Semaphore>,
}

/// The creation of one job.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Arrival {
    after: Duration,
    group: usize,
    index: usize,
}

/// All creations in the order of their scheduled moments.
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
    /// Registers all jobs with the tracker before the first is created, so that the run does not look
    /// finished.
    pub fn announce(&self, start: Instant) {
        let mut tracker = lock(&self.tracked);
        for arrival in arrivals(&self.scenario) {
            let job = self.job(arrival);
            tracker.expect(job.name(), &job.group.name, start + arrival.after);
        }
    }

    /// Sends the first job of each group as a dry run, which the API server checks and does not store. Errors
    /// of the scenario appear before the run. The one-time work of the API server for a new resource, such as
    /// compiling its schema and rules, is not measured.
    pub async fn rehearse(&self) -> Result<()> {
        for group in 0..self.scenario.groups.len() {
            let job = self.job(Arrival { after: Duration::ZERO, group, index: 0 });
            let (api, object) = match self.system {
                System::Queue => self.unit(&job)?,
                _ => (self.api(), self.object(&job, None)),
            };
            let dry = PostParams { dry_run: true, ..PostParams::default() };
            let object: DynamicObject = serde_json::from_value(object)?;
            let checked = api.create(&dry, &object).await;
            checked.with_context(|| format!("the API server refuses a job of group {}", job.group.name))?;
        }
        Ok(())
    }

    /// Creates all jobs at their moments after `start`. Returns when the last is created and rescaled.
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

    /// A job in the form for the system; `deadline` replaces the `activeDeadlineSeconds` of the group.
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
        // The deadline counts from the creation, so that it passes at that time.
        let seconds = deadline.map(|deadline| seconds_until(deadline).max(1));
        let created = create(&api, &name, &self.object(&job, seconds)).await?;
        let stored = Instant::now();
        let expiry = job.group.expire_at_seconds.map(at).transpose()?;
        {
            let mut tracker = lock(&self.tracked);
            tracker.stored(&name, stored);
            let seconds = seconds.or(job.group.active_deadline_seconds.map(i64::from));
            if let (Some(seconds), Some(born)) = (seconds, created.metadata.creation_timestamp.as_ref()) {
                tracker.has_deadline(&name, born.0.checked_add(SignedDuration::from_secs(seconds))?);
            }
            if let Some(expiry) = expiry {
                tracker.expires(&name, whole(expiry));
            }
        }
        if let Some(expiry) = expiry {
            // Otherwise the controller and the load test write the status at the same time, and one is
            // refused.
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
                // The job is already over and deleted.
                Err(kube::Error::Api(error)) if error.code == 404 => {}
                Err(error) => return Err(error).with_context(|| format!("rescaling {name}")),
            }
        }
        Ok(())
    }

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

/// Writes a status that says the Framework succeeded at that time.
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

/// Truncates to whole seconds, the precision of the API.
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
    fn jobs_arrive_at_even_intervals() {
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
