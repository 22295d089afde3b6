//! `loadtest watch-cost`: the cost for the API server to send the changes of Pods to the replicas of a
//! controller, as JSON and as protobuf, by its own counters.
//!
//! The API server encodes an event once for each encoding in which a watch asks for it. Kubelets ask for
//! protobuf, so one such watch of all Pods is open in each round.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result};
use framework_api::name::SLOT_LABEL;
use futures::io::{self, AsyncBufRead, AsyncBufReadExt, AsyncRead, AsyncReadExt};
use http::Request;
use http::header::ACCEPT;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use tokio::task::JoinSet;

use crate::cost::{ROLE, Reading, Spent, Target, scenario};
use crate::floor::pod;
use crate::job::Job;
use crate::namespace::Namespace;
use crate::number::size;
use crate::process::Watched;
use crate::received::Received;
use crate::request_cost::phase;
use crate::selector_cost::{Selection, shares};
use crate::terminal::print;

const RUN: &str = "watch-cost";

/// The arguments of `loadtest watch-cost`.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    target: Target,
    /// The Pods. The status of each is changed once in each round.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u16).range(4..))]
    pods: u16,
    /// The replicas that share them, beside one that has all.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u8).range(2..=16))]
    replicas: u8,
}

/// The encoding of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Encoding {
    Json,
    Protobuf,
}

impl Encoding {
    /// Its media type.
    fn accept(self) -> &'static str {
        match self {
            Encoding::Json => "application/json",
            Encoding::Protobuf => "application/vnd.kubernetes.protobuf",
        }
    }

    /// Counts the events of a watch until it ends.
    async fn count(self, events: impl AsyncBufRead, received: &Received) -> io::Result<()> {
        let events = std::pin::pin!(events);
        match self {
            Encoding::Json => count_lines(events, received).await,
            Encoding::Protobuf => count_frames(events, received).await,
        }
    }
}

async fn count_lines(mut events: impl AsyncBufRead + Unpin, received: &Received) -> io::Result<()> {
    let mut line = Vec::new();
    while events.read_until(b'\n', &mut line).await? > 0 {
        received.count(line.len());
        line.clear();
    }
    Ok(())
}

/// Each event follows its length, as four bytes of which the highest comes first (Kubernetes API concepts,
/// "Protobuf encoding").
async fn count_frames(mut events: impl AsyncRead + Unpin, received: &Received) -> io::Result<()> {
    let mut length = [0; 4];
    loop {
        events.read_exact(&mut length).await?;
        let bytes = u32::from_be_bytes(length);
        let read = io::copy((&mut events).take(bytes.into()), &mut io::sink()).await?;
        if read < bytes.into() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        received.count(length.len() + bytes as usize);
    }
}

/// The replicas of a round, and the encoding of their watches.
type Round = (u8, Encoding);

/// The cost of a change of a Pod, on average.
#[derive(Debug)]
struct Cost {
    round: Round,
    spent: Spent,
    /// The bytes of the event that one of the replicas received.
    received: f64,
}

impl Cost {
    /// The mean of two rounds of one kind.
    fn mean(&self, other: &Cost) -> Cost {
        Cost {
            round: self.round,
            spent: self.spent.mean(&other.spent),
            received: (self.received + other.received) / 2.0,
        }
    }
}

/// Measures, and prints a table.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let costs = arguments.target.measure(RUN, async |namespace, server| {
        let costs = measure(namespace, server, arguments).await?;
        let pods = namespace.all::<Pod>();
        pods.delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
        Ok::<_, anyhow::Error>(costs)
    })?;
    let columns = "replicas | encoding | allocated for a change of a Pod | objects | ms | received";
    print(format_args!("| {columns} |\n|---|---|---|---|---|---|\n"))?;
    for Cost { round: (replicas, encoding), spent, received } in costs {
        let encoding = if replicas == 0 { "–".to_owned() } else { format!("{encoding:?}") };
        print(format_args!("| {replicas} | {encoding} | {spent} | {} |\n", size(received)))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Measures each kind of round twice: the second half reverses the order, so that growth over time counts for
/// each alike. Nothing else may use the API server meanwhile.
async fn measure(namespace: &Namespace, server: &Watched, arguments: &Arguments) -> Result<Vec<Cost>> {
    use Encoding::{Json, Protobuf};
    let pods = create(namespace, arguments.pods.into()).await?;
    let fixture = Fixture { namespace, server, pods };
    let all = arguments.replicas;
    let rounds = [(0, Json), (1, Json), (1, Protobuf), (all, Json), (all, Protobuf)];
    // Every Pod has a status then.
    fixture.round((0, Json), "first").await?;
    let (mut first, mut second) = (Vec::new(), Vec::new());
    for round in rounds {
        first.push(fixture.round(round, "there").await?);
    }
    for round in rounds.into_iter().rev() {
        second.push(fixture.round(round, "back").await?);
    }
    Ok(first.iter().zip(second.iter().rev()).map(|(one, other)| one.mean(other)).collect())
}

/// Creates Pods that nothing schedules, and returns their names.
async fn create(namespace: &Namespace, pods: usize) -> Result<Vec<String>> {
    let scenario = scenario("cost", 1)?;
    let group = scenario.groups.first().context("there is a group")?;
    let mut names = Vec::new();
    for index in 0..pods {
        let job = Job { scenario: &scenario, group, index, run: RUN, node: None };
        let mut pod = pod(&job, ROLE, 0, "");
        pod["metadata"]["ownerReferences"].take();
        pod["metadata"]["labels"][SLOT_LABEL] = (index % 256).to_string().into();
        pod["spec"]["schedulerName"] = "none".into();
        let pod: Pod = serde_json::from_value(pod)?;
        let created = namespace.all::<Pod>().create(&PostParams::default(), &pod).await;
        names.extend(created.context("creating a Pod")?.metadata.name);
    }
    Ok(names)
}

/// Pods, and the API server that is measured.
struct Fixture<'a> {
    namespace: &'a Namespace,
    server: &'a Watched,
    pods: Vec<String>,
}

impl Fixture<'_> {
    /// Changes each Pod once, while these replicas watch them.
    async fn round(&self, round: Round, message: &str) -> Result<Cost> {
        let ((replicas, encoding), api) = (round, self.namespace.all::<Pod>());
        let listed = api.list(&ListParams::default().limit(1)).await.context("listing Pods")?;
        let version = listed.metadata.resource_version.context("a list has a version")?;
        let (of_kubelets, received) = (Arc::<Received>::default(), Arc::<Received>::default());
        let mut watches = JoinSet::new();
        self.watch(&mut watches, Encoding::Protobuf, "", &version, &of_kubelets).await?;
        for slots in shares(replicas) {
            let share = Selection::Labels.query(&slots);
            self.watch(&mut watches, encoding, &share, &version, &received).await?;
        }
        let before = Reading::take(self.namespace, self.server).await?;
        let mut status = phase("Running");
        status["status"]["message"] = format!("{replicas} {encoding:?} {message}").into();
        for name in &self.pods {
            let patch = Patch::Strategic(&status);
            api.patch_status(name, &PatchParams::default(), &patch).await.context("changing a Pod")?;
        }
        let changes = self.pods.len();
        of_kubelets.wait_for(changes).await?;
        received.wait_for(if replicas == 0 { 0 } else { changes }).await?;
        let after = Reading::take(self.namespace, self.server).await?;
        let spent = after.spent(&before, changes)?;
        Ok(Cost { round, spent, received: received.bytes() as f64 / changes as f64 })
    }

    /// Opens a watch, which ends when the set is dropped.
    async fn watch(
        &self,
        watches: &mut JoinSet<()>,
        encoding: Encoding,
        share: &str,
        version: &str,
        received: &Arc<Received>,
    ) -> Result<()> {
        let query = format!("{share}watch=1&timeoutSeconds=3600&resourceVersion={version}");
        let request = Request::get(format!("/api/v1/namespaces/{}/pods?{query}", self.namespace.name));
        let request = request.header(ACCEPT, encoding.accept()).body(Vec::new())?;
        let events = self.namespace.client.request_stream(request).await.context("watching Pods")?;
        let received = Arc::clone(received);
        watches.spawn(async move {
            // A watch that fails lacks events, which are waited for.
            drop(encoding.count(events, &received).await);
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn events_are_counted_by_lines_and_by_lengths() {
        let received = Received::default();
        Encoding::Json.count(&b"{\"a\":1}\n{}\n"[..], &received).await.unwrap();
        assert_eq!((received.events(), received.bytes()), (2, 11));
        // Of 3, of no, and of 256 bytes.
        let frames = [&b"\0\0\0\x03k8s"[..], &[0; 4], b"\0\0\x01\0", &[0; 256]].concat();
        let received = Received::default();
        let ended = Encoding::Protobuf.count(&frames[..], &received).await;
        assert_eq!(ended.map_err(|error| error.kind()), Err(io::ErrorKind::UnexpectedEof));
        assert_eq!((received.events(), received.bytes()), (3, 7 + 4 + 260));
    }
}
