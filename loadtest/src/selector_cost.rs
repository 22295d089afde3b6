//! `loadtest selector-cost`: the cost for the API server to select the Frameworks of each replica, by its own
//! counters: without a selector, by the label of a slot, and by `shardSelector`.
//!
//! A `shardSelector` (KEP-5866, alpha in Kubernetes 1.36 behind the gate `ShardedListAndWatch`) selects by
//! the hash of the UID. A slot is the top byte of the same hash, so a set of slots is a union of its ranges,
//! and a Framework needs no label.

use std::fmt;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use framework_api::name::{SLOT_LABEL, slot};
use futures::{AsyncBufReadExt, TryStreamExt, future};
use http::Request;
use kube::ResourceExt;
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::{DynamicObject, ObjectList};
use serde_json::json;
use tokio::task::JoinSet;

use crate::cost::{Reading, Spent, Target, scenario};
use crate::job::Job;
use crate::namespace::Namespace;
use crate::number::size;
use crate::process::Watched;
use crate::received::Received;
use crate::sampler::ALLOCATED_BYTES;
use crate::scenario::Scenario;
use crate::status_cost::{status, written};
use crate::terminal::print;

const RUN: &str = "selector-cost";

/// The arguments of `loadtest selector-cost`.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    target: Target,
    /// The Frameworks, of one Task each. The status of each is written once for each selection.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(4..))]
    frameworks: u32,
    /// The replicas that watch them.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u8).range(2..=16))]
    replicas: u8,
}

/// How a replica names the Frameworks of its slots to the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selection {
    /// It receives all, and leaves out the others itself.
    Whole,
    /// By the label of the slot.
    Labels,
    /// By ranges of the hash of the UID.
    Shards,
}

impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Selection::Whole => "no selector",
            Selection::Labels => "labels",
            Selection::Shards => "`shardSelector`",
        })
    }
}

impl Selection {
    /// The parameters of a list or a watch of these slots, each followed by `&`.
    pub fn query(self, slots: &[u8]) -> String {
        let (name, value) = match self {
            Selection::Whole => return String::new(),
            Selection::Labels => {
                let slots: Vec<_> = slots.iter().map(u8::to_string).collect();
                ("labelSelector", format!("{SLOT_LABEL} in ({})", slots.join(",")))
            }
            Selection::Shards => ("shardSelector", ranges(slots)),
        };
        let escaped = form_urlencoded::Serializer::new(String::new()).append_pair(name, &value).finish();
        format!("{escaped}&")
    }
}

/// The ranges of hashes of these slots, which ascend. Slots beside each other are one range.
fn ranges(slots: &[u8]) -> String {
    let range = |run: &[u8]| {
        let bound = |slot: u64| match slot {
            256 => "0x10000000000000000".to_owned(),
            _ => format!("0x{:016x}", slot << 56),
        };
        let (first, after) = (u64::from(run[0]), u64::from(run[run.len() - 1]) + 1);
        format!("shardRange(object.metadata.uid, '{}', '{}')", bound(first), bound(after))
    };
    let runs = slots.chunk_by(|one, next| u16::from(*one) + 1 == u16::from(*next));
    runs.map(range).collect::<Vec<_>>().join(" || ")
}

/// The slots of each of so many replicas. No two beside each other are of one replica, which is the worst
/// case for ranges: a hash ring gives a replica few that are.
pub fn shares(replicas: u8) -> Vec<Vec<u8>> {
    (0..replicas).map(|replica| (replica..=u8::MAX).step_by(replicas.into()).collect()).collect()
}

/// The cost of a selection.
#[derive(Debug)]
struct Cost {
    /// How objects are selected.
    selection: Selection,
    /// The bytes that the API server allocated while each replica listed its Frameworks.
    listed_allocated: f64,
    /// The bytes of these lists.
    listed: f64,
    /// The cost of one status write and its events.
    spent: Spent,
    /// The events of a write, on average: one, or one for each replica.
    events: f64,
    /// The bytes of these events.
    received: f64,
}

/// Measures, and prints a table.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let (label, costs) = arguments.target.measure(RUN, async |namespace, server| {
        measure(namespace, server, arguments.frameworks as usize, arguments.replicas).await
    })?;
    print(format_args!("The PATCH that labels a Framework: {} allocated.\n\n", size(label)))?;
    print(format_args!(
        "| {} replicas select by | allocated for all lists | bytes | allocated for a status write \
         | objects | ms | events | bytes |\n|---|---|---|---|---|---|---|---|\n",
        arguments.replicas
    ))?;
    for cost in &costs {
        print(format_args!(
            "| {} | {} | {} | {} | {:.1} | {} |\n",
            cost.selection,
            size(cost.listed_allocated),
            size(cost.listed),
            cost.spent,
            cost.events,
            size(cost.received),
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The rounds: the second half reverses the order, so that growth over time counts for each alike.
const ROUNDS: [Selection; 6] = {
    use Selection::{Labels, Shards, Whole};
    [Whole, Labels, Shards, Shards, Labels, Whole]
};

/// Frameworks, and the API server that is measured.
struct Fixture<'a> {
    namespace: &'a Namespace,
    server: &'a Watched,
    scenario: Scenario,
    /// The slots of each replica.
    shares: Vec<Vec<u8>>,
    objects: Vec<DynamicObject>,
}

/// Measures the bytes that the API server allocates for the PATCH of a label, and the cost of each selection.
/// Nothing else may use the API server meanwhile.
async fn measure(
    namespace: &Namespace,
    server: &Watched,
    frameworks: usize,
    replicas: u8,
) -> Result<(f64, Vec<Cost>)> {
    let (scenario, shares) = (scenario("cost", 1)?, shares(replicas));
    let mut fixture = Fixture { namespace, server, scenario, shares, objects: Vec::new() };
    let label = fixture.create_with_labels(frameworks).await?;
    // Every Framework has a status then.
    fixture.round(ROUNDS.len(), Selection::Whole).await?;
    let mut rounds = Vec::new();
    for (number, selection) in ROUNDS.into_iter().enumerate() {
        rounds.push(fixture.round(number, selection).await?);
    }
    let (first, second) = rounds.split_at(ROUNDS.len() / 2);
    Ok((label, first.iter().zip(second.iter().rev()).map(|(one, other)| one.mean(other)).collect()))
}

impl Fixture<'_> {
    fn job(&self, index: usize) -> Result<Job<'_>> {
        let group = self.scenario.groups.first().context("there is a group")?;
        Ok(Job { scenario: &self.scenario, group, index, run: RUN, node: None })
    }

    /// Creates Frameworks and labels them. Returns the bytes that were allocated for a label.
    async fn create_with_labels(&mut self, frameworks: usize) -> Result<f64> {
        let api = self.namespace.frameworks();
        for index in 0..frameworks {
            let object: DynamicObject = serde_json::from_value(self.job(index)?.framework(None))?;
            let object = api.create(&PostParams::default(), &object).await;
            self.objects.push(object.context("creating a Framework")?);
        }
        let before = Reading::take(self.namespace, self.server).await?;
        for object in &mut self.objects {
            let label = slot(&object.uid().context("a stored object has a UID")?).to_string();
            let patch = Patch::Merge(json!({"metadata": {"labels": {SLOT_LABEL: label}}}));
            *object = api.patch(&object.name_any(), &PatchParams::default(), &patch).await?;
        }
        let after = Reading::take(self.namespace, self.server).await?;
        Ok(after.growth(&before, ALLOCATED_BYTES)? / frameworks as f64)
    }

    /// Lists and watches all shares, and writes each status once.
    async fn round(&mut self, number: usize, selection: Selection) -> Result<Cost> {
        let (namespace, server) = (self.namespace, self.server);
        let before = Reading::take(namespace, server).await?;
        let mut lists = Vec::new();
        for slots in &self.shares {
            lists.push(list(namespace, selection, slots).await?);
        }
        let listed_allocated = Reading::take(namespace, server).await?.growth(&before, ALLOCATED_BYTES)?;

        let received = Arc::<Received>::default();
        let _watches = watch(namespace, selection, self.shares.iter().zip(&lists), &received).await?;
        let before = Reading::take(namespace, server).await?;
        let (api, parameters, frameworks) =
            (namespace.frameworks(), PostParams::default(), self.objects.len());
        for index in 0..frameworks {
            let status = status(&self.job(index)?, number * frameworks + index, false)?;
            let next = written(self.objects[index].clone(), status);
            let written = api.replace_status(&next.name_any(), &parameters, &next).await;
            self.objects[index] = written.context("writing a status")?;
        }
        let copies = if selection == Selection::Whole { self.shares.len() } else { 1 };
        received.wait_for(frameworks * copies).await?;
        let after = Reading::take(namespace, server).await?;
        let each = |total: f64| total / frameworks as f64;
        Ok(Cost {
            selection,
            listed_allocated,
            listed: lists.iter().map(|list| list.bytes as f64).sum(),
            spent: after.spent(&before, frameworks)?,
            events: each(received.events() as f64),
            received: each(received.bytes() as f64),
        })
    }
}

impl Cost {
    /// The mean of two rounds of one selection.
    fn mean(&self, other: &Cost) -> Cost {
        let mean = |of: fn(&Cost) -> f64| (of(self) + of(other)) / 2.0;
        Cost {
            selection: self.selection,
            listed_allocated: mean(|cost| cost.listed_allocated),
            listed: mean(|cost| cost.listed),
            spent: self.spent.mean(&other.spent),
            events: mean(|cost| cost.events),
            received: mean(|cost| cost.received),
        }
    }
}

/// A list that was received.
#[derive(Debug)]
struct List {
    bytes: usize,
    version: String,
}

fn path(namespace: &Namespace, query: &str) -> String {
    format!("/apis/{}/namespaces/{}/frameworks?{query}", framework_api::name::API_VERSION, namespace.name)
}

/// Lists the Frameworks of some slots.
async fn list(namespace: &Namespace, selection: Selection, slots: &[u8]) -> Result<List> {
    let query = format!("{}resourceVersion=0", selection.query(slots));
    let request = Request::get(path(namespace, &query)).body(Vec::new())?;
    let text = namespace.client.request_text(request).await.context("listing a share")?;
    let list: ObjectList<DynamicObject> = serde_json::from_str(&text)?;
    // An API server without the gate ignores the selector. Its lists of custom resources do not show it:
    // only other lists have `metadata.shardInfo`.
    let is_of_share = |object: &DynamicObject| object.uid().is_some_and(|uid| slots.contains(&slot(&uid)));
    ensure!(
        selection == Selection::Whole || list.items.iter().all(is_of_share),
        "the API server did not select by {selection}: does it have the gate ShardedListAndWatch?"
    );
    let version = list.metadata.resource_version.context("a list has a version")?;
    Ok(List { bytes: text.len(), version })
}

/// Watches each share from its list on. The watches end when the set is dropped.
async fn watch(
    namespace: &Namespace,
    selection: Selection,
    shares: impl Iterator<Item = (&Vec<u8>, &List)>,
    received: &Arc<Received>,
) -> Result<JoinSet<()>> {
    let mut watches = JoinSet::new();
    for (slots, list) in shares {
        let share = selection.query(slots);
        let query = format!("{share}watch=1&timeoutSeconds=3600&resourceVersion={}", list.version);
        let request = Request::get(path(namespace, &query)).body(Vec::new())?;
        let events = namespace.client.request_stream(request).await.context("watching a share")?;
        let received = Arc::clone(received);
        watches.spawn(async move {
            let counted = events.lines().try_for_each(|line| {
                received.count(line.len() + 1);
                future::ready(Ok(()))
            });
            // A watch that fails lacks events, which are waited for.
            drop(counted.await);
        });
    }
    Ok(watches)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_ranges_of_the_hash_up_to_its_end() {
        let expected = "shardRange(object.metadata.uid, '0x0000000000000000', '0x0200000000000000') || \
                        shardRange(object.metadata.uid, '0xff00000000000000', '0x10000000000000000')";
        assert_eq!(ranges(&[0, 1, 255]), expected);
    }

    #[test]
    fn each_slot_is_in_the_share_of_one_replica() {
        let mut all = shares(5).concat();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..=u8::MAX));
    }

    #[test]
    fn a_query_is_escaped() {
        assert_eq!(Selection::Whole.query(&[1]), "");
        let labels = "labelSelector=frameworkcontroller.microsoft.com%2Fslot+in+%281%2C2%29&";
        assert_eq!(Selection::Labels.query(&[1, 2]), labels);
    }
}
