//! QueueUnits without Pods. The load test creates each at its moment, waits until it is released, and deletes
//! it when its job would have ended.

use std::time::Duration;

use anyhow::{Context, Result};
use kube::api::{Api, DeleteParams};
use kube::core::DynamicObject;
use serde_json::Value;
use tokio::sync::Semaphore;

use super::{Arrival, EVERY, Generator, create};
use crate::follow::lock;
use crate::job::Job;
use crate::partial_status::Phase;
use crate::scenario::Unit;

impl Generator {
    /// A unit, and the API of its namespace.
    pub(super) fn unit(&self, job: &Job<'_>) -> Result<(Api<DynamicObject>, Value)> {
        let queues = self.scenario.queue.as_ref().context("the scenario has no queues")?;
        let unit = job.group.unit.as_ref().context("the group has no unit")?;
        let queue = queues.queue_of(job.index);
        Ok((self.namespace.units(queue.namespace), job.unit(unit, queue)))
    }

    /// The whole life of one unit. Deletions have their own permits, so that creations do not delay them.
    pub(super) async fn attend(&self, arrival: Arrival, creations: &Semaphore) -> Result<()> {
        let job = self.job(arrival);
        let name = job.name();
        let (api, object) = self.unit(&job)?;
        let permit = creations.acquire().await.context("the generator ended")?;
        create(&api, &name, &object).await?;
        drop(permit);
        let runs = {
            let mut tracker = lock(&self.tracked);
            tracker.stored(&name, std::time::Instant::now());
            tracker.runs(&name)
        };
        runs.await.context("the generator ended")?;
        let unit = job.group.unit.as_ref().context("the group has no unit")?;
        self.run(unit).await;
        let _permit = self.deletions.acquire().await.context("the generator ended")?;
        match api.delete(&name, &DeleteParams::default()).await {
            Ok(_) => Ok(()),
            Err(error) => Err(error).with_context(|| format!("deleting {name}")),
        }
    }

    async fn run(&self, unit: &Unit) {
        while unit.until_all_wait && !self.all_others_wait() {
            tokio::time::sleep(EVERY * 10).await;
        }
        tokio::time::sleep(Duration::from_secs_f64(unit.run_seconds)).await;
    }

    fn all_others_wait(&self) -> bool {
        lock(&self.tracked).all_reached(Phase::Accepted, |group| !self.scenario.runs_until_all_wait(group))
    }
}
