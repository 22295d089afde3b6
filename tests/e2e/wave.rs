//! Deadlines that pass and Frameworks that expire, all in one second, on a real API server: never early, each
//! exactly once, and how late.
//!
//! The gate does a slice and holds the limits that no slow machine may change. `cargo xtask soak wave` does
//! large waves with an optimised controller, prints how late everything was, and holds the service levels.
//!
//! `FRAMEWORK_WAVE_SCENARIO` chooses one of `ttl-wave`, `deadline-wave` and `both`.
//! `FRAMEWORK_WAVE_FRAMEWORKS` sets how many Frameworks, and `FRAMEWORK_WAVE_OVER_SECONDS` over how many
//! seconds they are due. `FRAMEWORK_WAVE_QPS` sets the controller's request rate, `FRAMEWORK_CONTROLLER` its
//! program.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use framework_api::{Framework, Time};
use framework_testcluster::audit::{Mark, Record};
use futures::{StreamExt, TryStreamExt, stream};
use jiff::{SignedDuration, Timestamp};
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::cluster::lease::Alone;
use crate::cluster::{self, Manifest, block_on, config_maps, frameworks, installed, manifest, pods};
use crate::finished::finished;
use crate::wave_figures::{
    self, Due, Lateness, asked_time, code, deletes, exceeded, first_writes, of_frameworks, rate, writes,
};

const EXCEEDED: i64 = -240;
/// Requests of the user at a time.
const AT_ONCE: usize = 16;
/// The time that a wave leaves for its preparation, beside its own duration.
const LEAD: Duration = Duration::from_secs(4);
/// The time that the garbage collector and the controller may take altogether.
const PATIENCE: Duration = Duration::from_secs(900);
const LONG_TTL: i64 = 3600;

/// The value given on the command line; nothing in the gate.
fn asked(name: &str) -> Option<String> {
    std::env::var(format!("FRAMEWORK_WAVE_{name}")).ok()
}

/// The number given on the command line; nothing in the gate.
pub fn number(name: &str) -> Option<usize> {
    asked(name)
        .map(|text| text.parse().unwrap_or_else(|_| panic!("FRAMEWORK_WAVE_{name} is a number: {text}")))
}

#[test]
fn frameworks_due_in_one_second_end_once_and_never_early() {
    let (alone, controller) = (Alone::wait(), OnceCell::new());
    let controlled = || _ = controller.get_or_init(|| alone.start("wave", &config()));
    let levels = asked("SCENARIO");
    match levels.as_deref() {
        None => {
            ttl_wave(controlled, 40, 1, false);
            deadline_wave(controlled, 20, false);
        }
        Some("ttl-wave") => {
            let (count, over) = (number("FRAMEWORKS").unwrap_or(5_000), number("OVER_SECONDS").unwrap_or(1));
            ttl_wave(controlled, count, over, true)
        }
        Some("deadline-wave") => deadline_wave(controlled, number("FRAMEWORKS").unwrap_or(150), true),
        Some("both") => both(controlled, number("FRAMEWORKS").unwrap_or(500)),
        Some(other) => panic!("{other} is no scenario"),
    }
}

/// The controller's request rate.
pub fn config() -> String {
    let qps = number("QPS").unwrap_or(5_000);
    format!("kubeClientQps: {qps}\nkubeClientBurst: {qps}")
}

fn prepared(namespace: &str) -> Mark {
    let cluster = installed();
    block_on(cluster.namespace(namespace)).expect("the namespace gets ready");
    cluster.audit().mark().expect("the log is there")
}

/// The controller's requests, once the log has the requests that `has` waits for: a line may follow its
/// response.
fn records(mark: Mark, has: impl Fn(&[Record]) -> bool) -> Vec<Record> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let records = wave_figures::ours(&installed().audit(), mark);
        if has(&records) {
            return records;
        }
        assert!(Instant::now() < deadline, "the audit log lacks requests\n{}", cluster::log_of("wave"));
        std::thread::sleep(Duration::from_secs(1));
    }
}

fn now() -> Timestamp {
    Timestamp::now()
}

fn signed(time: Duration) -> SignedDuration {
    SignedDuration::try_from(time).expect("a short time")
}

/// The next whole second after so much time.
fn second_after(time: Duration) -> Time {
    Time::floor(now() + signed(time)).plus_seconds(1)
}

/// Creates Frameworks, many at a time.
fn create(namespace: &str, manifests: Vec<Manifest>) -> Vec<Framework> {
    let api = frameworks(namespace);
    let create = |manifest: Manifest| {
        let api = api.clone();
        async move { api.create(&PostParams::default(), &manifest.object()).await }
    };
    block_on(stream::iter(manifests).map(create).buffered(AT_ONCE).try_collect()).expect("all are accepted")
}

/// How many objects of a kind there are, at the price of one.
fn count<K>(api: &Api<K>) -> usize
where
    K: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let page = block_on(api.list(&ListParams::default().limit(1))).expect("a list");
    let more = page.metadata.remaining_item_count.unwrap_or(0);
    page.items.len() + usize::try_from(more).expect("a count")
}

/// Waits until a number is as asked, and looks now and then only: the measured programs need the machine.
fn until(what: &str, is: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is() {
        assert!(Instant::now() < deadline, "never: {what}\n{}", cluster::log_of("wave"));
        std::thread::sleep(Duration::from_millis(250));
    }
}

/// Completed Frameworks that are all due within some seconds.
fn ttl_wave(controlled: impl Fn(), count_wanted: usize, over: usize, levels: bool) {
    const NAMESPACE: &str = "ttl-wave";
    let mark = prepared(NAMESPACE);
    let begun = Instant::now();
    let manifests = (0..count_wanted)
        .map(|index| manifest(&format!("job{index}")).set("ttlSecondsAfterFinished", LONG_TTL));
    let all = create(NAMESPACE, manifests.collect());
    // Writing their statuses takes about as long as that.
    let first = second_after(begun.elapsed().mul_f64(1.5) + LEAD);
    let due: BTreeMap<String, Time> = all
        .iter()
        .zip(0_i64..)
        .map(|(framework, index)| (name(framework), first.plus_seconds(index % over as i64)))
        .collect();
    finish(NAMESPACE, &all, &due);
    controlled();
    if levels {
        until("all Frameworks have expired and are gone", || count(&frameworks(NAMESPACE)) == 0);
    }
    // The garbage collector may take half a minute to learn of a CRD: the gate does not wait for it.
    until("all Frameworks have expired and leave", || {
        let all = block_on(frameworks(NAMESPACE).list(&ListParams::default())).expect("a list");
        all.items.iter().all(|framework| framework.metadata.deletion_timestamp.is_some())
    });

    let records =
        records(mark, |records| deletes(&of_frameworks(records, NAMESPACE)).0.len() >= count_wanted);
    let ours = of_frameworks(&records, NAMESPACE);
    let (deleted, refused) = deletes(&ours);
    let due: Due = due.into_iter().map(|(name, due)| (name, due.timestamp())).collect();
    let late = Lateness::of(&deleted, &due);
    let early = Lateness::of(&refused, &due).early();
    let rate = rate(&deleted);
    println!(
        "{}\n{}",
        wave_figures::HEAD,
        late.row(&format!("DELETE after expiry, {count_wanted} due within {over} s"))
    );
    println!("{rate:.0} deletions/s, {} refused, {} GETs of /version", refused.len(), asked_time(&records),);
    assert_eq!(late.early() + early, 0, "deleted early");
    let names: BTreeSet<&str> = deleted.iter().map(|record| record.name.as_str()).collect();
    assert_eq!((names.len(), deleted.len()), (count_wanted, count_wanted), "one DELETE for each");
    assert_eq!(writes(&ours).count(), 0, "statuses were written though nothing happened");
    assert!(asked_time(&records) <= questions(over), "{} GETs of /version", asked_time(&records));
    if levels {
        hold_ttl_levels(&late, rate, count_wanted, over);
    }
}

/// How often the time may be asked for: twice when the controller starts, and seven times for each second in
/// which objects are due. As a `Date` leaves a second in doubt, the controller asks up to six times in the
/// second before, 200 ms apart. It asks once more for the travel.
pub fn questions(seconds: usize) -> usize {
    2 + 7 * seconds
}

fn hold_ttl_levels(late: &Lateness, rate: f64, count: usize, over: usize) {
    if count / over <= 100 {
        assert!(late.percent(99) <= SignedDuration::from_secs(1), "p99 of the deletions is over 1 s");
        return;
    }
    if count <= 5_000 {
        assert!(late.percent(99) <= SignedDuration::from_secs(30), "p99 of the deletions is over 30 s");
    }
    assert!(rate >= 100.0, "less than 100 deletions/s");
    let allowed = count as f64 / rate + over as f64;
    assert!(late.max().as_secs_f64() <= allowed, "the last deletion is later than {allowed:.1} s");
}

/// Writes that Frameworks completed so long ago that they are due when they should be.
fn finish(namespace: &str, all: &[Framework], due: &BTreeMap<String, Time>) {
    let api = frameworks(namespace);
    let write = |framework: &Framework| {
        let (api, name) = (api.clone(), name(framework));
        let status = finished(framework, due[&name].plus_seconds(-LONG_TTL));
        async move {
            let patch = Patch::Merge(json!({ "status": status }));
            api.patch_status(&name, &PatchParams::default(), &patch).await.map(drop)
        }
    };
    block_on(stream::iter(all).map(write).buffer_unordered(AT_ONCE).try_collect::<()>())
        .expect("all are accepted");
}

fn name(framework: &Framework) -> String {
    framework.metadata.name.clone().expect("it has a name")
}

/// The moments at which the deadlines of Frameworks pass.
fn deadlines(all: &[Framework]) -> Due {
    let due =
        |framework: &Framework| framework_core::lifetime::deadline(framework).expect("it has a deadline");
    all.iter().map(|framework| (name(framework), due(framework).timestamp())).collect()
}

/// Running Frameworks whose deadlines all pass within the same second.
fn deadline_wave(controlled: impl Fn(), count_wanted: usize, levels: bool) {
    const NAMESPACE: &str = "deadline-wave";
    controlled();
    let mark = prepared(NAMESPACE);
    let lead = LEAD + Duration::from_millis(100) * u32::try_from(count_wanted).expect("few");
    let due = second_after(lead);
    let limited = |index: usize| {
        // As a user would that wants it to end at `due`.
        let left = due.timestamp().duration_since(now()).as_millis().div_euclid(1000) + 1;
        let job = manifest(&format!("job{index}")).role("worker", 1, &[]);
        job.set("activeDeadlineSeconds", i64::try_from(left).expect("a short time"))
    };
    let api = frameworks(NAMESPACE);
    let create = |index: usize| {
        let (api, limited) = (api.clone(), &limited);
        async move { api.create(&PostParams::default(), &limited(index).object()).await }
    };
    let all: Vec<Framework> =
        block_on(stream::iter(0..count_wanted).map(create).buffered(AT_ONCE).try_collect())
            .expect("accepted");
    until("all run", || {
        let running = block_on(api.list(&ListParams::default())).expect("a list");
        let states = running.items.iter().filter_map(cluster::state);
        let begun = states.filter(|state| *state != framework_api::State::AttemptCreationPending);
        begun.count() == count_wanted && (count(&pods(NAMESPACE)) == count_wanted || now() >= due.timestamp())
    });
    until("all have ended", || {
        let all = block_on(api.list(&ListParams::default())).expect("a list");
        all.items.iter().all(|framework| cluster::state(framework) == Some(framework_api::State::Completed))
    });

    let is_over = |status: &Value| status["state"] == "Completed";
    let records = records(mark, |records| first_writes(records, is_over).len() >= count_wanted);
    let ours = of_frameworks(&records, NAMESPACE);
    let due = deadlines(&all);
    let ended = first_writes(&ours, |status| code(status) == Some(EXCEEDED));
    let over = first_writes(&ours, is_over);
    let late = Lateness::of(&ended, &due);
    println!(
        "{}\n{}",
        wave_figures::HEAD,
        late.row(&format!("-240 stored after the deadline of {count_wanted} Frameworks"))
    );
    println!("{}", Lateness::of(&over, &due).row("Completed, with all Pods gone"));
    println!("{} GETs of /version", asked_time(&records));
    assert_eq!(late.early(), 0, "ended early");
    assert_eq!((ended.len(), over.len()), (count_wanted, count_wanted), "each is ended by its deadline");
    assert_eq!(count(&pods(NAMESPACE)), 0, "Pods are left over");
    if levels {
        assert!(late.max() <= SignedDuration::from_secs(2), "a deadline was acted on after 2 s");
    }
}

/// Frameworks with a deadline and a time to live whose Pods end, fail and are retried meanwhile.
fn both(controlled: impl Fn(), count_wanted: usize) {
    const NAMESPACE: &str = "both";
    controlled();
    let mark = prepared(NAMESPACE);
    let all = create(NAMESPACE, (0..count_wanted).map(stressed).collect());
    until("all Frameworks have ended and are gone", || count(&frameworks(NAMESPACE)) == 0);
    until("all Pods and ConfigMaps are gone", || {
        count(&pods(NAMESPACE)) == 0
            && block_on(config_maps(NAMESPACE).list(&ListParams::default().labels("FC_FRAMEWORK_NAME")))
                .expect("a list")
                .items
                .is_empty()
    });

    let records =
        records(mark, |records| deletes(&of_frameworks(records, NAMESPACE)).0.len() >= count_wanted);
    let ours = of_frameworks(&records, NAMESPACE);
    let (mut outcomes, mut expiries) = (BTreeMap::<String, BTreeSet<i64>>::new(), Due::new());
    for (record, status) in writes(&ours).filter(|(_, status)| status["state"] == "Completed") {
        outcomes.entry(record.name.clone()).or_default().extend(code(status));
        let completed: Time = time(&status["completionTime"]);
        let index: usize = record.name.trim_start_matches("job").parse().expect("a number");
        expiries.insert(record.name.clone(), completed.plus_seconds(ttl(index)).timestamp());
    }
    let (deleted, _) = deletes(&ours);
    let late = Lateness::of(&deleted, &expiries);
    let (ended, waited) = exceeded(&ours, EXCEEDED);
    let (due, count_exceeded) = (deadlines(&all), ended.len() + waited.len());
    let (ended, waited) = (Lateness::of(&ended, &due), Lateness::of(&waited, &due));
    let mut codes = BTreeMap::<i64, usize>::new();
    outcomes.values().flatten().for_each(|code| *codes.entry(*code).or_default() += 1);
    println!("{}\n{}", wave_figures::HEAD, ended.row("-240 stored after the deadline"));
    println!("{}", waited.row("-240 instead of a retry, once the Pods were gone"));
    println!("{}", late.row("DELETE after expiry"));
    println!("outcomes by code: {codes:?}; {} GETs of /version", asked_time(&records));
    assert_eq!(outcomes.len(), count_wanted, "each ends");
    let changed: Vec<_> = outcomes.iter().filter(|(_, codes)| codes.len() != 1).collect();
    assert!(changed.is_empty(), "outcomes that changed: {changed:?}");
    assert_eq!(deleted.len(), count_wanted, "each is deleted once");
    assert_eq!(codes.get(&EXCEEDED).copied().unwrap_or(0), count_exceeded, "-240 stays");
    assert_eq!((late.early(), ended.early(), waited.early()), (0, 0, 0), "early");
    assert!(ended.percent(99) <= SignedDuration::from_secs(5), "p99 of the deadlines is over 5 s");
    assert!(late.percent(99) <= SignedDuration::from_secs(30), "p99 of the deletions is over 30 s");
}

fn ttl(index: usize) -> i64 {
    i64::try_from(index % 7).expect("small")
}

/// One that succeeds, fails, is retried over and over, waits for a retry, or runs on.
fn stressed(index: usize) -> Manifest {
    let job = manifest(&format!("job{index}"));
    let job = match index % 5 {
        0 => job.role("worker", 1, &[]),
        1 => job.role("worker", 1, &[("exit-code", "0"), ("run-duration", "2s")]),
        2 => job.role("worker", 1, &[("exit-code", "1"), ("run-duration", "1s")]),
        3 => job.role("worker", 1, &[("exit-code", "201"), ("run-duration", "1s")]).retry(true, 3),
        _ => job.role("worker", 1, &[("exit-code", "1"), ("run-duration", "3s")]).task_retry(false, -2),
    };
    let deadline = 20 + i64::try_from(index % 11).expect("small");
    job.set("activeDeadlineSeconds", deadline).set("ttlSecondsAfterFinished", ttl(index))
}

fn time(value: &Value) -> Time {
    serde_json::from_value(value.clone()).expect("a time")
}
