//! The cost of requests for the API server, by its own counters: the parts that all its measurements share.
//! Allocations repeat within a few per cent, because the requests are many, and reading the counter is not
//! counted.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use framework_access::Directions;

use crate::exposition::Scrape;
use crate::metrics::{growth, scrape};
use crate::namespace::Namespace;
use crate::number::{size, whole};
use crate::process::Watched;
use crate::sampler::{ALLOCATED_BYTES, ALLOCATED_OBJECTS};
use crate::scenario::Scenario;

/// The TaskRole of each job.
pub(crate) const ROLE: &str = "w";

/// The API server that is measured.
#[derive(clap::Args)]
pub(crate) struct Target {
    /// The cluster. It must be otherwise idle, without a controller of Frameworks.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The process ID of the API server on this machine.
    #[arg(long, value_name = "PID")]
    api_server: u32,
}

impl Target {
    /// Measures in a namespace of this name, and removes the jobs from it; it goes, too, if it was not there.
    pub(crate) fn measure<T>(
        &self,
        name: &str,
        measure: impl AsyncFnOnce(&Namespace, &Watched) -> Result<T>,
    ) -> Result<T> {
        let runtime = tokio::runtime::Runtime::new().context("starting the runtime")?;
        runtime.block_on(async {
            let directions = Directions {
                kubeconfig_file: self.kubeconfig.clone(),
                kubeconfig: std::env::var_os("KUBECONFIG"),
                ..Directions::default()
            };
            let config = framework_access::find(&directions).await?;
            let client = framework_access::client::connect(config, &format!("loadtest-{name}"))?;
            let namespace = Namespace { client, name: name.into() };
            let served = namespace.served().await;
            served.context("listing Frameworks: is the CustomResourceDefinition installed?")?;
            let made = namespace.make().await?;
            let server = Watched { name: "the API server".into(), pid: self.api_server };
            let measured = measure(&namespace, &server).await?;
            namespace.clear(Some(name)).await?;
            if made {
                namespace.remove().await?;
            }
            Ok::<_, anyhow::Error>(measured)
        })
    }
}

/// A scenario of one group, whose jobs have so many Tasks.
pub(crate) fn scenario(group: &str, tasks: usize) -> Result<Scenario> {
    let roles = format!("[{{name: {ROLE}, taskNumber: {tasks}}}]");
    Scenario::parse(&format!("description: d\ngroups: [{{name: {group}, jobs: 1, taskRoles: {roles}}}]"))
}

/// The cost of a request, on average.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spent {
    /// The bytes that the API server allocated.
    pub(crate) allocated: f64,
    /// The objects that it allocated.
    pub(crate) objects: f64,
    /// Its processor time.
    pub(crate) milliseconds: f64,
}

impl Spent {
    /// The mean of two rounds of one kind.
    pub(crate) fn mean(&self, other: &Spent) -> Spent {
        let mean = |of: fn(&Spent) -> f64| (of(self) + of(other)) / 2.0;
        Spent {
            allocated: mean(|spent| spent.allocated),
            objects: mean(|spent| spent.objects),
            milliseconds: mean(|spent| spent.milliseconds),
        }
    }
}

/// Three cells of a table.
impl fmt::Display for Spent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Spent { allocated, objects, milliseconds } = *self;
        write!(f, "{} | {} | {milliseconds:.2}", size(allocated), whole(objects as usize))
    }
}

/// The API server's counters, and the cost of reading them.
pub(crate) struct Reading {
    /// Processor time before the reading, and after it.
    used: [Duration; 2],
    counted: Scrape,
    again: Scrape,
}

impl Reading {
    pub(crate) async fn take(namespace: &Namespace, server: &Watched) -> Result<Reading> {
        let began = server.usage()?.cpu;
        let counted = scrape(&namespace.client).await?;
        let again = scrape(&namespace.client).await?;
        Ok(Reading { used: [began, server.usage()?.cpu], counted, again })
    }

    /// The cost of each of so many requests since an earlier reading.
    pub(crate) fn spent(&self, before: &Reading, requests: usize) -> Result<Spent> {
        let each = |total: f64| total / requests as f64;
        let used = self.used[0].saturating_sub(before.used[1]);
        Ok(Spent {
            allocated: each(self.growth(before, ALLOCATED_BYTES)?),
            objects: each(self.growth(before, ALLOCATED_OBJECTS)?),
            milliseconds: each(used.as_secs_f64() * 1000.0),
        })
    }

    /// The growth of a counter since an earlier reading. Its own reading is left out: as much of a reading
    /// is counted as this one's second scrape grew after the first.
    pub(crate) fn growth(&self, before: &Reading, counter: &str) -> Result<f64> {
        let between = growth(Some(&before.again), Some(&self.counted), counter);
        let reading = growth(Some(&self.counted), Some(&self.again), counter);
        let growth = between.zip(reading).map(|(between, reading)| between - reading);
        growth.with_context(|| format!("/metrics lacks {counter}, or the API server was started again"))
    }
}
