//! `loadtest status-cost`: the memory that the API server allocates for a status write, and its processor
//! time, by the number of Tasks and by the form of the statuses. A write has the parts that the controller
//! sends: metadata that name one version of the object, and the status.
//!
//! The cost is that of the JSON. The API server decodes a raw status, checks it against the schema and
//! encodes it several times for each write and each watch. A compressed status is one string. The measurement
//! gives the size from which compression pays, and the recommended threshold.

use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use kube::api::{DeleteParams, ObjectMeta, PostParams};
use kube::core::DynamicObject;
use serde_json::{Value, json};

use crate::cost::{Reading, Spent, Target, scenario};
use crate::floor::{compress, status_of};
use crate::follow::{SharedTracker, follow};
use crate::job::Job;
use crate::namespace::Namespace;
use crate::number::{size, whole};
use crate::process::Watched;
use crate::system::System;
use crate::terminal::print;

/// A raw status of more Tasks is too large for etcd.
const LARGEST_RAW: usize = 1000;
/// Writes before the measurement.
const WARM: usize = 10;
const RUN: &str = "status-cost";

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
    let costs = arguments.target.measure(RUN, async |namespace, server| {
        let mut costs = Vec::new();
        for tasks in arguments.tasks.iter().copied() {
            for compressed in [false, true] {
                if tasks > LARGEST_RAW && !compressed {
                    continue;
                }
                let writes = if tasks >= 1000 { arguments.writes / 4 } else { arguments.writes };
                costs.push(cost(namespace, server, tasks, compressed, writes as usize).await?);
            }
        }
        Ok::<_, anyhow::Error>(costs)
    })?;
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

/// Measures so many writes of the status of one new Framework, which is deleted after that. Nothing else may
/// use the API server meanwhile.
pub async fn cost(
    namespace: &Namespace,
    server: &Watched,
    tasks: usize,
    compressed: bool,
    writes: usize,
) -> Result<Cost> {
    let scenario = scenario(&format!("cost{tasks}"), tasks)?;
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
    let Spent { allocated, objects, milliseconds } = after.spent(&before, writes)?;
    ensure!(milliseconds > 0.0, "process {} used no processor time: is it the API server?", server.pid);
    Ok(Cost { tasks, form, bytes, allocated, objects, milliseconds })
}

/// The object as the controller sends it to write a status.
pub(crate) fn written(object: DynamicObject, status: Value) -> DynamicObject {
    let ObjectMeta { name, namespace, uid, resource_version, .. } = object.metadata;
    let metadata = ObjectMeta { name, namespace, uid, resource_version, ..ObjectMeta::default() };
    DynamicObject { types: object.types, metadata, data: json!({ "status": status }) }
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
