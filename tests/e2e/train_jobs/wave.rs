//! Many TrainJobs whose deadlines pass within one second, and whose times to live end soon after that: how
//! late each is ended and deleted, by the audit log.

use std::collections::BTreeSet;

use framework_api::Time;
use framework_testcluster::audit::{Mark, Record};
use futures::{StreamExt, TryStreamExt, stream};
use jiff::Timestamp;
use kube::api::{ListParams, PostParams};
use serde_json::{Value, json};

use super::{TRAIN_JOB, objects};
use crate::cluster::{block_on, installed, until};
use crate::wave_figures::{self, Due, Lateness, deletes, rate};

/// Requests of the user at a time.
const AT_ONCE: usize = 16;
/// The seconds until the deadlines, beside those that the creation takes.
const LEAD: i64 = 8;
/// So many TrainJobs are created in a second, or more.
const CREATED: usize = 100;

/// Creates TrainJobs with both limits.
pub fn create_all(namespace: &str, many: usize) {
    let api = objects(namespace, TRAIN_JOB);
    until("the kind is served", || block_on(api.list(&ListParams::default())).ok());
    let due = Timestamp::now().as_second() + LEAD + i64::try_from(many / CREATED).expect("a short time");
    let create = |number: usize| {
        let api = &api;
        async move {
            let left = (due - Timestamp::now().as_second()).max(1);
            let job = json!({
                "apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": TRAIN_JOB,
                "metadata": {"name": format!("job-{number}")},
                "spec": {"activeDeadlineSeconds": left, "ttlSecondsAfterFinished": 2},
            });
            let job = serde_json::from_value(job).expect("an object");
            api.create(&PostParams::default(), &job).await.map(drop)
        }
    };
    block_on(stream::iter(0..many).map(create).buffer_unordered(AT_ONCE).try_collect::<()>())
        .expect("all are accepted");
}

/// Waits until so many are done. Each tenth of them may take as long as others wait for all.
pub fn until_done(what: &str, many: usize, done: impl Fn() -> usize) {
    for tenth in 1..=10 {
        until(what, || (done() * 10 >= many * tenth).then_some(()));
    }
}

/// The number of TrainJobs that are there.
pub fn left(namespace: &str) -> usize {
    let api = objects(namespace, TRAIN_JOB);
    block_on(api.list_metadata(&ListParams::default())).expect("a list").items.len()
}

/// Prints how late TrainJobs were ended and deleted. Checks that each was once, and never early. Returns the
/// number of seconds in which any of them was due.
pub fn check(mark: Mark, namespace: &str, many: usize) -> usize {
    let records = until("the log has all deletions", || {
        let ours = wave_figures::ours(&installed().audit(), mark);
        let ours = wave_figures::of(&ours, namespace, "trainjobs");
        (deletes(&ours).0.len() >= many).then_some(ours)
    });
    let (deleted, not_deleted) = deletes(&records);
    let patches = records.iter().filter(|record| record.verb == "patch").cloned();
    let (failed, not_failed): (Vec<_>, Vec<_>) = patches.partition(|record| record.code < 300);
    let (deadlines, expiries): (Due, Due) = failed.iter().map(ends).unzip();
    let (ended, gone) = (Lateness::of(&failed, &deadlines), Lateness::of(&deleted, &expiries));
    println!(
        "{}\n{}\n{}\n{:.0} deletions/s; {} patches and {} deletions were refused",
        wave_figures::HEAD,
        ended.row(&format!("Failed after the deadline of {many} TrainJobs")),
        gone.row("DELETE after expiry"),
        rate(&deleted),
        not_failed.len(),
        not_deleted.len(),
    );
    assert_eq!((ended.early(), gone.early()), (0, 0), "early");
    assert_eq!((failed.len(), deleted.len()), (many, many), "one condition and one DELETE for each");
    assert_eq!((deadlines.len(), expiries.len()), (many, many), "each is ended and deleted");
    let seconds: BTreeSet<i64> =
        deadlines.values().chain(expiries.values()).map(|due| due.as_second()).collect();
    seconds.len()
}

/// The name of a TrainJob with its deadline, and with the end of its time to live, by the answer to the patch
/// that ended it.
fn ends(record: &Record) -> ((String, Timestamp), (String, Timestamp)) {
    let job = record.response_object.as_ref().expect("the log has the answers");
    let seconds = |field: &str| job["spec"][field].as_i64().expect("it is set");
    let after = |start: &Value, seconds: i64| {
        let start: Time = serde_json::from_value(start.clone()).expect("a time");
        (record.name.clone(), start.plus_seconds(seconds).timestamp())
    };
    let failed = &job["status"]["conditions"][0]["lastTransitionTime"];
    (
        after(&job["metadata"]["creationTimestamp"], seconds("activeDeadlineSeconds")),
        after(failed, seconds("ttlSecondsAfterFinished")),
    )
}
