//! The counters and the audit log before and after a run. A counter that cannot be read after the run is a
//! problem in the report, and the rest is reported.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use jiff::Timestamp;
use tokio::time::{Instant, sleep};

use crate::exposition::Scrape;
use crate::metrics::{Metrics, Scrapes, counted_requests, scrape};
use crate::requests::{Counted, RunLog};
use crate::system::System;

/// The pause between two readings after the run.
const EVERY: Duration = Duration::from_secs(1);
/// How long the last requests may take to appear in counters and logs.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(30);

/// The counters before a run.
pub struct Before {
    /// Those of the API server, if it shows them.
    pub api_server: Option<Scrape>,
    /// Those of the controller's replicas, if they are to be read.
    pub controller: Option<Scrapes>,
    log: Option<RunLog>,
    /// The start of the run by the wall clock.
    pub wall: Timestamp,
    /// The start of the run.
    pub start: std::time::Instant,
}

impl Before {
    /// Reads them. An error if those of the controller or the log cannot be read.
    pub async fn read(
        client: &kube::Client,
        metrics: Option<&Metrics>,
        log: Option<&Path>,
    ) -> Result<Before> {
        Ok(Before {
            api_server: scrape(client).await.ok(),
            controller: scrape_replicas(metrics).await?,
            log: log.map(RunLog::begin).transpose()?,
            wall: Timestamp::now(),
            start: std::time::Instant::now(),
        })
    }
}

/// The counters after a run, as far as they are known.
#[derive(Default)]
pub struct After {
    /// Those of the API server.
    pub api_server: Option<Scrape>,
    /// Those of the controller's replicas.
    pub controller: Option<Scrapes>,
    /// The requests that the controller counted during the run.
    pub controller_count: Option<usize>,
    /// The requests of the log.
    pub counted: Option<Counted>,
    /// Why some are not known.
    pub problems: Vec<String>,
}

impl After {
    /// Reads them once the controller's are stable and the log has all requests that they count. Tries again
    /// for a while if they do not agree, or cannot be read.
    pub async fn read(
        client: &kube::Client,
        metrics: Option<&Metrics>,
        before: &Before,
        system: System,
    ) -> After {
        let mut after = After::settled(metrics, before, system).await;
        // Metrics that were not there before are not missed.
        if before.api_server.is_some() {
            let read = scrape(client).await.map(Some).context("reading the API server's metrics");
            after.api_server = after.known(read);
        }
        after
    }

    async fn settled(metrics: Option<&Metrics>, before: &Before, system: System) -> After {
        let deadline = Instant::now() + SETTLE_TIMEOUT;
        let count_before = before.controller.as_ref().map(|all| &all.sum);
        let mut last = None;
        loop {
            let mut after = After::default();
            after.controller = after.known(scrape_replicas(metrics).await);
            let count_after = after.controller.as_ref().map(|all| &all.sum);
            after.controller_count = counted_requests(count_before, count_after, system);
            let rests = after.controller_count == last || after.controller_count.is_none();
            last = after.controller_count;
            let is_late = Instant::now() > deadline;
            if is_late || rests && after.problems.is_empty() {
                let counted = before.log.as_ref().map(|log| log.counted(before.wall, system));
                after.counted = after.known(counted.transpose());
                let agrees = match (&after.counted, after.controller_count) {
                    (Some(counted), Some(count)) => counted.difference(count) == 0,
                    _ => after.problems.is_empty(),
                };
                if agrees || is_late {
                    return after;
                }
            }
            sleep(EVERY).await;
        }
    }

    /// The value that was read; none, and a problem, if it could not be read.
    fn known<T>(&mut self, read: Result<Option<T>>) -> Option<T> {
        read.unwrap_or_else(|error| {
            self.problems.push(format!("{error:#}"));
            None
        })
    }
}

async fn scrape_replicas(metrics: Option<&Metrics>) -> Result<Option<Scrapes>> {
    match metrics {
        Some(metrics) => Ok(Some(metrics.scrape().await?)),
        None => Ok(None),
    }
}
