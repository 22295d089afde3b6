//! The parts of a storm of rescales: Frameworks whose Tasks fail, are retried and hang on, users that rescale
//! them at random, and figures of the controller's requests meanwhile.

pub mod user;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use fastrand::Rng;
use framework_api::State;
use framework_testcluster::audit::Record;
use kube::api::ListParams;
use serde_json::{Value, json};

use crate::cluster::{TEST, block_on, frameworks, halfway, pods, state};

/// The name of a Framework.
pub fn name(number: usize) -> String {
    format!("f{number}")
}

/// Waits until there are so many Pods.
pub fn await_pods(namespace: &str, least: usize) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while block_on(pods(namespace).list(&ListParams::default())).expect("a list").items.len() < least {
        assert!(Instant::now() < deadline, "there are not {least} Pods");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Waits until so many Frameworks are Completed.
pub fn await_ends(namespace: &str, number: usize) {
    let deadline = Instant::now() + Duration::from_secs(300);
    loop {
        let all = block_on(frameworks(namespace).list(&ListParams::default())).expect("a list").items;
        let open: Vec<_> = all.iter().filter(|one| state(one) != Some(State::Completed)).collect();
        if open.is_empty() && all.len() == number {
            return;
        }
        assert!(Instant::now() < deadline, "{} of {number} do not end: {:#?}", open.len(), open.first());
        halfway::finish(namespace);
        std::thread::sleep(Duration::from_millis(500));
    }
}

/// The fates of the Pods of a TaskRole, and how their Tasks are retried: (annotations, fancy, count).
type Fate = (&'static [(&'static str, &'static str)], bool, i32);

const FATES: [Fate; 7] = [
    // Run until they are deleted, and are gone soon or late.
    (&[], false, 0),
    (&[("stop-delay", "1500ms")], false, 0),
    // Succeed, the second kind only when they are retried.
    (&[("run-duration", "{{FC_TASK_INDEX}}.5s"), ("exit-code", "0")], false, 0),
    (&[("run-duration", "300ms"), ("exit-code", "200"), ("only-task-attempt", "0")], true, 0),
    // Fail, at last.
    (&[("run-duration", "400ms"), ("exit-code", "1")], false, 2),
    (&[("run-duration", "2s"), ("exit-code", "137"), ("only-task-index", "1")], true, 1),
    // Are retried without limit.
    (&[("run-duration", "5s"), ("exit-code", "0")], false, -2),
];

/// A TaskRole as a user may write it.
pub fn random_role(rng: &mut Rng, name: &str) -> Value {
    let (annotations, fancy, count) = FATES[rng.usize(..FATES.len())];
    let mut role = role(name, rng.u32(0..=4), annotations);
    role["task"]["retryPolicy"] = json!({ "fancyRetryPolicy": fancy, "maxRetryCount": count });
    if rng.u8(..4) == 0 {
        role["task"]["podGracefulDeletionTimeoutSec"] = json!(rng.u32(0..60));
    }
    role["frameworkAttemptCompletionPolicy"] = random_policy(rng);
    role
}

/// A policy that mostly completes nothing: a Framework that has ended is no longer rescaled.
pub fn random_policy(rng: &mut Rng) -> Value {
    let mut minimum = || if rng.u8(..8) == 0 { rng.i32(1..=4) } else { -1 };
    json!({ "minFailedTaskCount": minimum(), "minSucceededTaskCount": minimum() })
}

/// A TaskRole whose Pods have these annotations.
fn role(name: &str, tasks: u32, annotations: &[(&str, &str)]) -> Value {
    let annotations: serde_json::Map<String, Value> =
        annotations.iter().map(|(key, value)| (format!("{TEST}/{key}"), json!(value))).collect();
    let pod = json!({
        "metadata": { "annotations": annotations },
        "spec": { "restartPolicy": "Never", "containers": [{ "name": "main", "image": "busybox" }] },
    });
    json!({ "name": name, "taskNumber": tasks, "task": { "pod": pod } })
}

/// A Framework with a Task that holds it open, and others.
pub fn random_framework(rng: &mut Rng, number: usize) -> Value {
    let mut keeper = role("keeper", 1, &[]);
    keeper["frameworkAttemptCompletionPolicy"] =
        json!({ "minFailedTaskCount": -1, "minSucceededTaskCount": -1 });
    let others = rng.usize(1..=3);
    let roles: Vec<Value> =
        (0..others).map(|index| random_role(rng, &format!("r{index}"))).chain([keeper]).collect();
    json!({
        "apiVersion": "frameworkcontroller.microsoft.com/v1", "kind": "Framework",
        "metadata": { "name": name(number) },
        "spec": {
            "retryPolicy": { "fancyRetryPolicy": false, "maxRetryCount": rng.i32(0..3) },
            "taskRoles": roles,
        },
    })
}

/// The TaskRoles with which a Framework soon succeeds.
pub fn last_roles() -> Value {
    json!([role("last", 1, &[("run-duration", "200ms"), ("exit-code", "0")])])
}

/// The controller's requests, and how often they were refused.
pub fn figures(requests: &[Record]) -> String {
    let (mut asked, mut refused) = (BTreeMap::new(), BTreeMap::new());
    for request in requests.iter().filter(|one| one.user_agent.starts_with("frameworkcontroller/")) {
        let what = format!("{} {} {}", request.verb, request.resource, request.subresource);
        let what = what.trim_end().to_owned();
        if request.code >= 400 {
            *refused.entry((what.clone(), request.code)).or_insert(0_usize) += 1;
        }
        *asked.entry(what).or_insert(0_usize) += 1;
    }
    let mut report = format!("the controller asked {} times:", asked.values().sum::<usize>());
    for (what, count) in asked {
        write!(report, " {count} {what},").expect("a string takes it");
    }
    write!(report, "\nand was refused {} times:", refused.values().sum::<usize>())
        .expect("a string takes it");
    for ((what, code), count) in refused {
        write!(report, " {count} {what} with {code},").expect("a string takes it");
    }
    report + "\n"
}
