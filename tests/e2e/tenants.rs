//! One tenant beside another that has thousands of Frameworks, or that changes some all the time: the
//! Frameworks of the first one are hardly delayed.
//!
//! The budget is small, so that Frameworks wait for it and not for the processor. The gate asserts how many
//! requests for the other tenant go before the first one for a new Framework: a count that depends little on
//! the machine. `cargo xtask soak tenants` plays more of them with an optimised controller, and prints how
//! long the Frameworks of the first tenant took. `FRAMEWORK_TENANTS_FRAMEWORKS` and `FRAMEWORK_TENANTS_LIVES`
//! set the numbers.

use std::collections::BTreeMap;
use std::future::Future;
use std::ops::Range;
use std::time::{Duration, Instant};

use framework_api::{Framework, State};
use futures::{StreamExt, stream};
use jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use tokio::time::MissedTickBehavior;

use framework_testcluster::audit::{Mark, Record};

use crate::cluster::lease::{Alone, namespace};
use crate::cluster::{self, block_on, frameworks, installed, manifest};

/// Requests in a second.
const BUDGET: usize = 50;
/// At most so many requests for another tenant go before the first one for a new Framework. The budget allows
/// that many while a watch on a busy machine lags by four seconds. By order of arrival it would be all that
/// wait.
const BEFORE: usize = 4 * BUDGET;
/// The namespace of the first tenant.
const OURS: &str = "tenants-ours";
/// Frameworks that change all the time, and how often each does.
const RESTLESS: usize = 40;
const PERIOD: Duration = Duration::from_millis(333);
/// Requests of the users at a time.
const AT_ONCE: usize = 16;
/// The first tenant creates no more than one Framework in this time. Each costs nine requests, so that the
/// tenant stays below its share of the budget: above it, it would take turns with the other one.
const PAUSE: Duration = Duration::from_millis(500);
/// Frameworks of the first tenant that run before the first measurement.
const WARM: usize = 2;
const PATIENCE: Duration = Duration::from_secs(900);
/// The rise of the p99 that is called good.
const GOAL: f64 = 2.0;

fn number(name: &str, otherwise: usize) -> usize {
    let asked = std::env::var(format!("FRAMEWORK_TENANTS_{name}")).ok();
    asked.map_or(otherwise, |text| text.parse().expect("a number"))
}

/// Runs Frameworks of one Task, one after the other; returns how long each took from its creation to
/// Completed, in order. Several at a time would wait for each other: the budget gives this tenant half.
async fn lives(prefix: &str, count: usize) -> Vec<Duration> {
    let api = frameworks(OURS);
    let mut turns = tokio::time::interval(PAUSE);
    turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let turns = stream::unfold(turns, async |mut turns| {
        turns.tick().await;
        Some(((), turns))
    });
    let one = async |(index, ()): (usize, ())| {
        let name = format!("{prefix}{index}");
        let job = manifest(&name).role("w", 1, &[("run-duration", "100ms"), ("exit-code", "0")]);
        let began = Instant::now();
        api.create(&Default::default(), &job.object()).await.expect("it is accepted");
        let is_over = |seen: Option<&Framework>| {
            seen.is_some_and(|seen| cluster::state(seen) == Some(State::Completed))
        };
        cluster::await_object(api.clone(), &name, is_over).await;
        began.elapsed()
    };
    let all = turns.take(count).enumerate().then(one).collect::<Vec<_>>();
    let mut took = tokio::time::timeout(PATIENCE, all).await.expect("they end");
    took.sort_unstable();
    took
}

/// Creates Frameworks of one Task that runs for ever, once it is started.
async fn create(namespace: &str, indices: Range<usize>, execution: &str) {
    let api = frameworks(namespace);
    let one = async |index: usize| {
        let job = manifest(&format!("many{index}")).role("w", 1, &[]).field("executionType", execution);
        api.create(&Default::default(), &job.object()).await.expect("it is accepted");
    };
    stream::iter(indices).map(one).buffer_unordered(AT_ONCE).collect::<()>().await;
}

/// How many of them have not begun.
async fn waiting(namespace: &str) -> usize {
    let all = frameworks(namespace).list(&Default::default()).await.expect("a list").items;
    all.iter().filter(|one| cluster::state(one) != Some(State::AttemptRunning)).count()
}

/// Changes the first Frameworks of a namespace for ever, one after the other: one Task more, one Task fewer.
async fn change(namespace: &str) {
    let api = frameworks(namespace);
    let ticks = tokio::time::interval(PERIOD / RESTLESS as u32);
    let ticks = stream::unfold(ticks, async |mut ticks| {
        ticks.tick().await;
        Some(((), ticks))
    });
    let one = async |(number, ()): (usize, ())| {
        let (index, round) = (number % RESTLESS, number / RESTLESS);
        let patch = json!({"op": "replace", "path": "/spec/taskRoles/0/taskNumber", "value": 1 + round % 2});
        let patch = Patch::Json::<()>(serde_json::from_value(json!([patch])).expect("a patch"));
        api.patch(&format!("many{index}"), &PatchParams::default(), &patch).await.expect("it is changed");
    };
    ticks.enumerate().map(one).buffer_unordered(AT_ONCE).collect::<()>().await;
}

/// The same lives while something else goes on.
async fn beside(
    lives: impl Future<Output = Vec<Duration>>,
    other: impl Future<Output = ()>,
) -> Vec<Duration> {
    tokio::select! {
        biased;
        took = lives => took,
        () = other => panic!("the other tenant never ends"),
    }
}

/// For each Framework of a namespace, the requests of the controller for another one between the creation of
/// the Framework and the controller's first request for it.
fn before(ours: &str, others: &str, since: Mark) -> BTreeMap<String, usize> {
    let mut created: BTreeMap<String, Timestamp> = BTreeMap::new();
    let mut first: BTreeMap<String, Timestamp> = BTreeMap::new();
    let mut rivals: Vec<Timestamp> = Vec::new();
    let take = |record: Record| {
        let is_ours = record.namespace == ours;
        if !record.user_agent.starts_with("frameworkcontroller/") {
            if is_ours && record.verb == "create" && record.resource == "frameworks" {
                let named = record.request_object.as_ref().and_then(|body| body["metadata"]["name"].as_str());
                created.insert(named.expect("it has a name").to_owned(), record.completed);
            }
        } else if record.namespace == others {
            rivals.push(record.received);
        } else if is_ours && record.verb == "create" && record.resource == "configmaps" {
            let named = record.request_object.as_ref().and_then(|body| body["metadata"]["name"].as_str());
            let name = named.and_then(|name| name.strip_suffix("-attempt")).expect("that of a Framework");
            first.entry(name.to_owned()).or_insert(record.received);
        }
    };
    installed().audit().each_since(since, take).expect("the log is there");
    let count = |(name, at): (String, Timestamp)| {
        let until = first.get(&name).unwrap_or_else(|| panic!("nothing was sent for {name}"));
        let between = rivals.iter().filter(|rival| (at..*until).contains(rival));
        (name, between.count())
    };
    created.into_iter().map(count).collect()
}

fn percent(took: &[Duration], percent: usize) -> f64 {
    let rank = (took.len() * percent).div_ceil(100).saturating_sub(1);
    took.get(rank).copied().unwrap_or_default().as_secs_f64()
}

/// How long the Frameworks of the first tenant took beside another one, and the most requests for that one
/// which went before the first one of a Framework.
struct Seen {
    took: Vec<Duration>,
    before: usize,
}

impl Seen {
    fn new(took: Vec<Duration>, others: &str, since: Mark) -> Seen {
        let before = before(OURS, others, since);
        assert_eq!(before.len(), took.len(), "{before:?}");
        Seen { took, before: before.into_values().max().unwrap_or_default() }
    }

    /// The figures, and the ratio to how long they took otherwise.
    fn figures(&self, than: &str, took: &[Duration]) -> (String, f64) {
        let [middle, high] = [50, 99].map(|rank| percent(&self.took, rank));
        let (ratio, before) = (high / percent(took, 99), self.before);
        let text = format!(
            "p50 {middle:.2} s, p99 {high:.2} s, {ratio:.2} times {than}; at most {before} other requests \
             before the first one"
        );
        (text, ratio)
    }

    /// Prints them, with whether the controller keeps to its goal.
    fn print(&self, what: &str, than: &str, took: &[Duration]) {
        let (text, ratio) = self.figures(than, took);
        let verdict = if ratio <= GOAL { "within" } else { "beyond" };
        println!("{what}: {text}: {verdict} the goal of {GOAL}");
    }
}

#[test]
fn a_tenant_of_many_frameworks_hardly_delays_one_of_few() {
    let alone = Alone::wait();
    let (many, count) = (number("FRAMEWORKS", 400), number("LIVES", 8));
    let [_, held, other] = [OURS, "tenants-held", "tenants-other"].map(namespace);
    let config = format!("kubeClientQps: {BUDGET}\nkubeClientBurst: {BUDGET}");
    let controller = alone.start("tenants", &config);
    let mark = || installed().audit().mark().expect("the log is there");
    // The first ones fill connections and caches.
    block_on(lives("warm", WARM));
    let undisturbed = block_on(lives("alone", count));
    let [middle, high] = [50, 99].map(|rank| percent(&undisturbed, rank));
    println!("alone: {count} Frameworks, p50 {middle:.2} s, p99 {high:.2} s");

    // The control: as many changes for the API server, and none that the controller has to act on.
    block_on(create(&held, 0..RESTLESS, "Create"));
    let since = mark();
    let control = Seen::new(block_on(beside(lives("held", count), change(&held))), &held, since);
    let (text, _) = control.figures("that alone", &undisturbed);
    println!("beside 40 that change and are held: {text}: what the API server takes for it");

    block_on(create(&other, 0..RESTLESS, "Start"));
    let since = mark();
    let changed = Seen::new(block_on(beside(lives("changed", count), change(&other))), &other, since);
    changed.print("beside 40 that change and run", "that of those held", &control.took);

    // All of them wait when the next controller starts, however long a busy machine took to create them.
    drop(controller);
    block_on(create(&other, RESTLESS..RESTLESS + many, "Start"));
    let controller = alone.start("tenants-again", &config);
    // The first ones wait for its LISTs too.
    block_on(lives("again", WARM));
    let since = mark();
    let begun = Seen::new(block_on(lives("many", count)), &other, since);
    let waiting = block_on(waiting(&other));
    begun.print(&format!("beside {many} that begin"), "that alone", &undisturbed);

    assert!(waiting > 0, "all others had begun before the last one ended: nothing waited");
    for seen in [changed, begun] {
        assert!(seen.before <= BEFORE, "{} requests went before the first one of a Framework", seen.before);
    }
    drop(controller);
}
