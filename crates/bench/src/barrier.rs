//! `cargo xtask barrier`: the cost of many barriers for the API server, all of them in one process.
//!
//! One Framework of many Tasks lacks one IP until each barrier has asked some times. Requests are counted by
//! the audit log, bytes by the API server's own metric, CPU by the kernel, less the CPU at rest. For
//! comparison the first number is also run with the requests of the original: the whole object each time.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::builder::RangedU64ValueParser;
use framework_access::{Directions, client};
use framework_barrier::barrier::{Query, Reply};
use framework_barrier::request::Reader;
use framework_barrier::settings::{DEFAULT_MOUNT, Settings};
use framework_barrier::{addresses, document};
use framework_programs::workspace::root;
use framework_testcluster::{Cluster, Component, Options};
use serde_json::{Value, json};
use tokio::time::sleep;

/// The number of barriers, and the size of the Framework.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// How many barriers, one run for each number.
    #[arg(long, value_delimiter = ',', default_values_t = [100, 300, 1000], value_parser = at_least_one())]
    barriers: Vec<usize>,
    /// How many Tasks the Framework has.
    #[arg(long, default_value_t = 1000, value_parser = at_least_one())]
    tasks: usize,
    /// How often each barrier asks before the last IP is there.
    #[arg(long, default_value_t = 4, value_parser = at_least_one())]
    looks: usize,
}

const NAME: &str = "train";
/// The shortest interval that users may choose.
const INTERVAL: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(600);
const PAUSE: Duration = Duration::from_millis(200);
const TIME: &str = "2026-01-01T00:00:00Z";

/// The requests of a barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Ours,
    TheOriginals,
}

/// The cost of a run for the API server.
#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    tables: f64,
    objects: f64,
    bytes: f64,
    cpu: f64,
}

/// Runs all and prints a table.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let cluster =
        Arc::new(Cluster::start(Options { audit_bodies: false, kubectl: false, ..Options::default() })?);
    cluster.install(&root().join("deploy/crds"))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut out = io::stdout();
        let columns = "way | barriers | tables each | whole reads each | kB each | API server CPU, ms each";
        writeln!(out, "| {columns} |\n|---|---|---|---|---|---|")?;
        let first = arguments.barriers.first().map(|count| (Way::TheOriginals, *count));
        for (way, count) in arguments.barriers.iter().map(|count| (Way::Ours, *count)).chain(first) {
            let cost = measure(&cluster, arguments, way, count).await?;
            let each = |sum: f64| sum / count as f64;
            writeln!(
                out,
                "| {way:?} | {count} | {:.1} | {:.1} | {:.1} | {:.1} |",
                each(cost.tables),
                each(cost.objects),
                each(cost.bytes) / 1000.0,
                each(cost.cpu) * 1000.0,
            )?;
        }
        Ok(())
    })
}

async fn measure(cluster: &Arc<Cluster>, arguments: &Arguments, way: Way, count: usize) -> Result<Cost> {
    let namespace = format!("{way:?}-{count}").to_lowercase();
    let client = cluster.client();
    cluster.namespace(&namespace).await?;
    let path = format!("/apis/frameworkcontroller.microsoft.com/v1/namespaces/{namespace}/frameworks");
    send(&client, "POST", &path, &framework(arguments.tasks)).await?;
    write_status(&client, &path, arguments.tasks, arguments.tasks - 1).await?;
    // The usage at rest is subtracted.
    let (idle, begun) = (cpu(cluster)?, Instant::now());
    sleep(INTERVAL).await;
    let idle = (cpu(cluster)? - idle) / begun.elapsed().as_secs_f64();

    let mark = cluster.audit().mark()?;
    let (before, bytes, begun) = (cpu(cluster)?, sent(&client).await?, Instant::now());
    let settings = settings(cluster, &namespace);
    let mut all = Vec::with_capacity(count);
    for _ in 0..count {
        all.push(tokio::spawn(one(settings.clone(), way)));
    }
    let deadline = Instant::now() + PATIENCE;
    loop {
        let (tables, objects) = counts(cluster, mark, &namespace)?;
        if tables + objects >= count * arguments.looks {
            break;
        }
        ensure!(Instant::now() < deadline, "{tables} tables and {objects} whole reads are too few");
        sleep(PAUSE).await;
    }
    write_status(&client, &path, arguments.tasks, arguments.tasks).await?;
    for one in all {
        one.await.context("a barrier panicked")??;
    }
    let cpu = cpu(cluster)? - before - idle * begun.elapsed().as_secs_f64();
    let bytes = sent(&client).await? - bytes;
    let (tables, objects) = counts(cluster, mark, &namespace)?;
    Ok(Cost { tables: tables as f64, objects: objects as f64, bytes, cpu })
}

fn settings(cluster: &Cluster, namespace: &str) -> Settings {
    let kubeconfig_file = Some(cluster.kubeconfig_path().to_owned());
    Settings {
        namespace: namespace.to_owned(),
        name: NAME.to_owned(),
        interval: INTERVAL,
        timeout: PATIENCE,
        mount: DEFAULT_MOUNT.into(),
        directions: Directions { kubeconfig_file, ..Directions::default() },
    }
}

/// One barrier, with a connection of its own.
async fn one(settings: Settings, way: Way) -> Result<()> {
    let config = framework_access::find(&settings.directions).await?;
    let client = client::connect(config, "frameworkbarrier/measured")?;
    if way == Way::Ours {
        return Ok(framework_barrier::run(&settings, client, fastrand::Rng::new(), &[]).await?);
    }
    let reader = Reader::new(client, &settings.namespace, &settings.name);
    loop {
        if let Reply::Body(body) = reader.send(Query::Object, None).await
            && addresses::read(&document::decompress(body)?)?.found.is_ok()
        {
            return Ok(());
        }
        sleep(settings.interval).await;
    }
}

/// The number of GETs for a table, and for the whole object.
fn counts(
    cluster: &Cluster,
    mark: framework_testcluster::audit::Mark,
    namespace: &str,
) -> Result<(usize, usize)> {
    let records = cluster.audit().since(mark)?;
    let ours = records
        .iter()
        .filter(|record| record.namespace == namespace && record.user_agent == "frameworkbarrier/measured");
    let (tables, objects): (Vec<_>, Vec<_>) =
        ours.partition(|record| record.request_uri.contains("includeObject=None"));
    Ok((tables.len(), objects.len()))
}

/// The CPU time of the API server in seconds.
fn cpu(cluster: &Cluster) -> Result<f64> {
    /// The unit of Linux, on every machine of today.
    const TICKS_PER_SECOND: f64 = 100.0;
    let pid = cluster.pid(Component::Apiserver)?;
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).context("reading /proc")?;
    // After the name in parentheses, user and system time are fields 12 and 13.
    let fields = stat.rsplit_once(')').context("a line of /proc")?.1.split_whitespace().skip(11).take(2);
    let ticks: f64 = fields.filter_map(|field| field.parse::<f64>().ok()).sum();
    Ok(ticks / TICKS_PER_SECOND)
}

/// The bytes of replies to GETs of single Frameworks, by the API server's metric.
async fn sent(client: &kube::Client) -> Result<f64> {
    let request = http_get("/metrics")?;
    let text = client.request_text(request).await.context("reading the API server's metrics")?;
    let of = |line: &&str| {
        line.starts_with("apiserver_response_sizes_sum{")
            && line.contains("resource=\"frameworks\"")
            && line.contains("verb=\"GET\"")
    };
    let values = text.lines().filter(of).filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    Ok(values.sum())
}

fn http_get(path: &str) -> Result<http::Request<Vec<u8>>> {
    Ok(http::Request::get(path).body(Vec::new())?)
}

async fn send(client: &kube::Client, method: &str, path: &str, body: &Value) -> Result<Value> {
    let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let request = http::Request::builder().method(method).uri(path).header("content-type", kind);
    client.request(request.body(body.to_string().into_bytes())?).await.context("talking to the API server")
}

fn framework(tasks: usize) -> Value {
    let pod = json!({"spec": {"containers": [{"name": "main", "image": "busybox"}]}});
    json!({
        "apiVersion": "frameworkcontroller.microsoft.com/v1",
        "kind": "Framework",
        "metadata": {"name": NAME},
        "spec": {"taskRoles": [{"name": "worker", "taskNumber": tasks, "task": {"pod": pod}}]},
    })
}

/// Writes a status in which the first `addressed` Tasks have an IP.
async fn write_status(client: &kube::Client, path: &str, tasks: usize, addressed: usize) -> Result<()> {
    let retried = json!({"totalRetriedCount": 0, "accountableRetriedCount": 0, "retryDelaySec": null});
    let task = |index: usize| {
        let ip = (index < addressed).then(|| format!("10.1.{}.{}", index / 250, index % 250));
        json!({
            "index": index, "instanceUID": "3f9a2c51-6a0e-8d14-9b67-000000000000", "startTime": TIME,
            "runTime": null, "completionTime": null, "state": "AttemptPreparing", "transitionTime": TIME,
            "deletionPending": false, "retryPolicyStatus": retried,
            "attemptStatus": {
                "id": 0, "startTime": TIME, "runTime": null, "completionTime": null,
                "instanceUID": "0_3f9a2c51-6a0e-4d14-9b67-000000000000",
                "podName": format!("{NAME}-worker-{index}"), "podUID": "3f9a2c51-6a0e-4d14-9b67-000000000000",
                "podNodeName": "node-1", "podIP": ip, "podHostIP": "10.0.0.1", "completionStatus": null,
            },
        })
    };
    let statuses: Vec<Value> = (0..tasks).map(task).collect();
    let role = json!({"name": "worker", "instanceUID": "r", "taskStatuses": statuses});
    let status = json!({
        "startTime": TIME, "state": "AttemptPreparing", "transitionTime": TIME, "retryPolicyStatus": retried,
        "tasks": format!("0/{tasks}"),
        "taskCounts": {
            "total": tasks, "pending": tasks, "running": 0, "succeeded": 0, "failed": 0,
            "addressed": addressed,
        },
        "attemptStatus": {
            "id": 0, "startTime": TIME, "configMapName": "train-attempt", "taskRoleStatuses": [role],
        },
    });
    let path = format!("{path}/{NAME}/status");
    send(client, "PATCH", &path, &json!({ "status": status })).await.map(drop)
}

/// Without a barrier there is no cost of one, without a Task no IP that it waits for, and without a look no
/// request.
fn at_least_one() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..)
}
