//! `loadtest status-cost`: the memory that the API server allocates for a status write, and its processor
//! time, by the number of Tasks and by the form of the statuses. Allocations repeat within a few per cent,
//! because the writes are many, and reading the counter is not counted. A write has the parts that the
//! controller sends: metadata that name one version of the object, and the status.
//!
//! The cost is that of the JSON. The API server decodes a raw status, checks it against the schema and
//! encodes it several times for each write and each watch. A compressed status is one string. The measurement
//! gives the size from which compression pays, and the recommended threshold.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use framework_access::Directions;
use kube::api::{DeleteParams, ObjectMeta, PostParams};
use kube::core::DynamicObject;
use serde_json::{Value, json};

use crate::exposition::Scrape;
use crate::floor::{compress, status_of};
use crate::follow::{SharedTracker, follow};
use crate::job::Job;
use crate::metrics::{growth, scrape};
use crate::namespace::Namespace;
use crate::number::{size, whole};
use crate::process::Watched;
use crate::sampler::{ALLOCATED_BYTES, ALLOCATED_OBJECTS};
use crate::scenario::Scenario;
use crate::system::System;
use crate::terminal::print;

/// A raw status of more Tasks is too large for etcd.
const LARGEST_RAW: usize = 1000;
/// Writes before the measurement.
const WARM: usize = 10;
const RUN: &str = "status-cost";

/// The API server that is measured.
#[derive(clap::Args)]
pub struct Target {
    /// The cluster. It must be otherwise idle, without a controller of Frameworks.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The process ID of the API server on this machine.
    #[arg(long, value_name = "PID")]
    api_server: u32,
}

impl Target {
    /// The namespace of a measurement, and whether it was created for it.
    pub(crate) async fn begin(&self, name: &str) -> Result<(Namespace, bool)> {
        let directions = Directions {
            kubeconfig_file: self.kubeconfig.clone(),
            kubeconfig: std::env::var_os("KUBECONFIG"),
            ..Directions::default()
        };
        let config = framework_access::find(&directions).await?;
        let client = framework_access::client::connect(config, &format!("loadtest-{name}"))?;
        let namespace = Namespace { client, name: name.into() };
        namespace.served().await.context("listing Frameworks: is the CustomResourceDefinition installed?")?;
        let made = namespace.make().await?;
        Ok((namespace, made))
    }

    /// The process of the API server.
    pub(crate) fn server(&self) -> Watched {
        Watched { name: "the API server".into(), pid: self.api_server }
    }
}

/// The arguments of `loadtest status-cost`.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    target: Target,
    /// Writes of each size and form; a quarter of that for 1,000 Tasks and more.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(4..))]
    writes: u32,
    /// The numbers of Tasks.
    #[arg(long, value_delimiter = ',', default_value = "1,20,200,1000,4000")]
    tasks: Vec<usize>,
    /// The name of the table's first column and its value: the variant that is measured.
    #[arg(long, value_name = "NAME")]
    variant: Option<String>,
}

/// The cost of one write of one size and form, on average.
#[derive(Debug)]
pub struct Cost {
    /// The number of Tasks.
    pub tasks: usize,
    /// `raw` or `zstd`.
    pub form: &'static str,
    /// The length of the body of the request.
    pub bytes: usize,
    /// The bytes that the API server allocated.
    pub allocated: f64,
    /// The objects that it allocated.
    pub objects: f64,
    /// Its processor time.
    pub milliseconds: f64,
}

/// Measures, and prints a table.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let runtime = tokio::runtime::Runtime::new().context("starting the runtime")?;
    let costs = runtime.block_on(measure(arguments))?;
    let shipped = "shipped".to_owned();
    let variant = arguments.variant.as_ref().unwrap_or(&shipped);
    let columns = "schema | Tasks | form | bytes of the write | allocated by the API server | objects | ms";
    print(format_args!("| {columns} |\n|---|---|---|---|---|---|---|\n"))?;
    for cost in &costs {
        print(format_args!(
            "| {variant} | {} | {} | {} | {} | {} | {:.2} |\n",
            whole(cost.tasks),
            cost.form,
            size(cost.bytes as f64),
            size(cost.allocated),
            whole(cost.objects as usize),
            cost.milliseconds
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn measure(arguments: &Arguments) -> Result<Vec<Cost>> {
    let (namespace, made) = arguments.target.begin(RUN).await?;
    let server = arguments.target.server();
    let mut costs = Vec::new();
    for tasks in arguments.tasks.iter().copied() {
        for compressed in [false, true] {
            if tasks > LARGEST_RAW && !compressed {
                continue;
            }
            let writes = if tasks >= 1000 { arguments.writes / 4 } else { arguments.writes };
            costs.push(cost(&namespace, &server, tasks, compressed, writes as usize).await?);
        }
    }
    namespace.clear(Some(RUN)).await?;
    if made {
        namespace.remove().await?;
    }
    Ok(costs)
}

/// Measures so many writes of the status of one new Framework, which is deleted after that. Nothing else may
/// use the API server meanwhile.
pub async fn cost(
    namespace: &Namespace,
    server: &Watched,
    tasks: usize,
    compressed: bool,
    writes: usize,
) -> Result<Cost> {
    let text = format!(
        "description: d\ngroups: [{{name: cost{tasks}, jobs: 1, \
         taskRoles: [{{name: w, taskNumber: {tasks}}}]}}]"
    );
    let scenario = Scenario::parse(&text)?;
    let group = scenario.groups.first().context("there is a group")?;
    let job = Job { scenario: &scenario, group, index: usize::from(compressed), run: RUN, node: None };
    let api = namespace.frameworks();
    // A controller watches Frameworks, so the API server sends each write to a watcher.
    let _watch = follow(namespace, System::Framework, RUN, &SharedTracker::default()).await?;
    let object: DynamicObject = serde_json::from_value(job.framework(None))?;
    let mut object = api.create(&PostParams::default(), &object).await.context("creating a Framework")?;
    let name = job.name();
    let mut bytes = 0;
    let mut before = Reading::take(namespace, server).await?;
    for number in 0..WARM + writes {
        if number == WARM {
            before = Reading::take(namespace, server).await?;
        }
        object = written(object, status(&job, number, compressed)?);
        bytes = serde_json::to_vec(&object)?.len();
        object =
            api.replace_status(&name, &PostParams::default(), &object).await.context("writing a status")?;
    }
    let after = Reading::take(namespace, server).await?;
    api.delete(&name, &DeleteParams::background()).await.context("deleting a Framework")?;
    let form = if compressed { "zstd" } else { "raw" };
    let used = after.used_since(&before).as_secs_f64();
    ensure!(used > 0.0, "process {} used no processor time: is it the API server?", server.pid);
    let each = |grown: f64| grown / writes as f64;
    let grown = |counter| Ok::<f64, anyhow::Error>(each(after.growth(&before, counter)?));
    let (allocated, objects) = (grown(ALLOCATED_BYTES)?, grown(ALLOCATED_OBJECTS)?);
    Ok(Cost { tasks, form, bytes, allocated, objects, milliseconds: each(used * 1000.0) })
}

/// The object as the controller sends it to write a status.
pub(crate) fn written(object: DynamicObject, status: Value) -> DynamicObject {
    let ObjectMeta { name, namespace, uid, resource_version, .. } = object.metadata;
    let metadata = ObjectMeta { name, namespace, uid, resource_version, ..ObjectMeta::default() };
    DynamicObject { types: object.types, metadata, data: json!({ "status": status }) }
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

    /// The processor time since an earlier reading.
    pub(crate) fn used_since(&self, before: &Reading) -> Duration {
        self.used[0].saturating_sub(before.used[1])
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

/// The status of a running job, different for each write.
pub(crate) fn status(job: &Job<'_>, number: usize, compressed: bool) -> Result<Value> {
    let mut status = status_of(job);
    let last = job.group.tasks() - 1;
    let attempt = &mut status["attemptStatus"];
    attempt["taskRoleStatuses"][0]["taskStatuses"][last]["attemptStatus"]["podIP"] =
        format!("10.65.{}.{}", number / 250, number % 250).into();
    if compressed {
        compress(&mut status, 0)?;
    }
    Ok(status)
}
