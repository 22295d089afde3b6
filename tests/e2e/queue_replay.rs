//! A generated workload of queues on the real API server, and then its history replayed version by version.
//! At no moment did the released units and the use of others exceed the quota. No unit was released twice,
//! and no Framework had any object before its release.

use std::sync::Arc;

use fastrand::Rng;
use framework_api::queue::QueueUnit;
use framework_sim::check::queue::{self, Blind};
use framework_sim::{Change, History, Object};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::cluster::lease::{Alone, namespace};
use crate::cluster::recording::Recording;
use crate::cluster::{self, apply, block_on, client, frameworks, installed, kubectl, until};

const NS: &str = "replay";
/// Pods that the quota allows.
const ROOM: u32 = 6;
const FRAMEWORKS: usize = 12;
const TRAINS: usize = 4;

fn units() -> Api<QueueUnit> {
    Api::namespaced(client(), NS)
}

/// Queues, a quota that is in force, and a Pod of another user.
fn furnish() {
    for (name, policy) in [("q", "Priority"), ("r", "FIFO")] {
        let queue = json!({ "apiVersion": "queue.k8s.io/v1alpha1", "kind": "Queue",
            "metadata": { "name": name }, "spec": { "queuePolicy": policy } });
        apply(NS, &queue.to_string());
    }
    let quota = json!({ "apiVersion": "v1", "kind": "ResourceQuota", "metadata": { "name": "room" },
        "spec": { "hard": { "pods": ROOM.to_string() } } });
    apply(NS, &quota.to_string());
    kubectl(
        &[
            &["wait", "resourcequota/room", "--namespace", NS][..],
            &["--for=jsonpath={.status.used.pods}=0", "--timeout=60s"],
        ]
        .concat(),
    );
    let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "foreign" },
        "spec": { "containers": [{ "name": "main", "image": "busybox" }] } });
    apply(NS, &pod.to_string());
    kubectl(
        &[
            &["wait", "resourcequota/room", "--namespace", NS][..],
            &["--for=jsonpath={.status.used.pods}=1", "--timeout=60s"],
        ]
        .concat(),
    );
}

fn create(rng: &mut Rng, name: &str) {
    let end = [("exit-code", "0"), ("run-duration", "1s")];
    let framework = cluster::manifest(name).role("a", rng.u32(1..=4), &end);
    let queue = if rng.u8(..3) == 0 { "r" } else { "q" };
    framework.queue(queue).create(NS);
}

fn make_train(rng: &mut Rng, name: &str) {
    let unit = json!({ "apiVersion": "queue.k8s.io/v1alpha1", "kind": "QueueUnit",
        "metadata": { "name": name },
        "spec": {
            "consumerRef": { "apiVersion": "example.com/v1", "kind": "Train", "name": name },
            "queue": "q", "priority": rng.i32(-5..5), "resource": { "pods": rng.u32(1..=2) },
        } });
    apply(NS, &unit.to_string());
}

/// Users change priorities, and the jobs of released units of their own end, until nothing waits any more.
/// Gives how many priorities were changed, and how many were refused because the unit was released.
fn live(rng: &mut Rng) -> (usize, usize) {
    let (mut changed, mut refused) = (0, 0);
    until("everything had its turn", || {
        let all = block_on(units().list(&ListParams::default())).expect("a list").items;
        let mut waiting = 0;
        for unit in &all {
            let name = unit.metadata.name.as_deref().expect("a name");
            let released = unit
                .status
                .as_ref()
                .is_some_and(|status| status.phase == Some(framework_api::queue::Phase::Dequeued));
            waiting += usize::from(!released || name.starts_with("train"));
            if released && name.starts_with("train") {
                let _ = block_on(units().delete(name, &DeleteParams::default()));
            } else if !released || rng.u8(..20) == 0 {
                let patch = Patch::Merge(json!({ "spec": { "priority": rng.i32(-100..100) } }));
                match block_on(units().patch(name, &PatchParams::default(), &patch)) {
                    Ok(_) => changed += 1,
                    Err(kube::Error::Api(status)) if status.code == 422 => refused += 1,
                    // Its Framework was deleted meanwhile.
                    Err(kube::Error::Api(status)) if status.code == 404 => {}
                    Err(error) => panic!("{error}"),
                }
            }
        }
        let all = block_on(frameworks(NS).list(&ListParams::default())).expect("a list").items;
        let over = all.iter().all(|one| cluster::state(one) == Some(framework_api::State::Completed));
        (waiting == 0 && over).then_some(())
    });
    (changed, refused)
}

#[test]
fn at_no_moment_is_more_released_than_there_is_room_for() {
    let alone = Alone::wait();
    namespace(NS);
    let mut rng = Rng::with_seed(7);
    let recording = Recording::start_with_queues(client(), NS);
    furnish();
    let controller = alone.start("replay", "queueing: true");
    for index in 0..FRAMEWORKS {
        create(&mut rng, &format!("job{index}"));
        if index < TRAINS {
            make_train(&mut rng, &format!("train{index}"));
        }
    }
    until("one has ended", || {
        let all = block_on(frameworks(NS).list(&ListParams::default())).expect("a list").items;
        all.iter().any(|one| cluster::state(one) == Some(framework_api::State::Completed)).then_some(())
    });
    cluster::execute(NS, "job3", "Stop");
    kubectl(&["delete", "framework", "job4", "--namespace", NS, "--wait=false"]);
    // It is killed in the middle, and another one goes on at once.
    installed().kill_hosted(controller.pid).expect("it runs");
    let _next = alone.start("replayagain", "queueing: true");
    let (changed, refused) = live(&mut rng);
    let history = recording.end().recorded;
    let counts = queue::count(&history);
    println!(
        "{} changes, {} releases, {changed} priorities changed, {refused} refused",
        history.changes.len(),
        counts.releases
    );
    assert!(counts.releases >= FRAMEWORKS - 2 + TRAINS, "{counts:?}");
    assert_eq!(queue::check(&history, Blind::default()), Ok(()));
    assert_eq!(queue::at_quiescence(&history), Ok(()));
    // With less room it would be found: the quota was used to the full.
    let less = history.changes.iter().map(|change| {
        let Change { rv, plural, time, cause, .. } = &**change;
        let smaller = |object: &Option<Arc<Object>>| {
            let object = object.as_ref()?;
            let mut object = Value::clone(object);
            if change.is("resourcequotas") && object["status"]["hard"].is_object() {
                object["status"]["hard"]["pods"] = json!((ROOM - 1).to_string());
            }
            Some(Arc::new(Object::new(object)))
        };
        let (old, new) = (smaller(&change.old), smaller(&change.new));
        Arc::new(Change::seen(*rv, plural, *time, cause.clone(), old, new))
    });
    let less = History { changes: less.collect(), exchanges: Vec::new() };
    assert!(queue::check(&less, Blind::default()).is_err(), "the quota was never full");
}
