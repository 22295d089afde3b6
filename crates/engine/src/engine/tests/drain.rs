//! A graceful stop: no new act, and no lost outcome.

use std::time::Duration;

use framework_message::Slots;

use super::cluster::{Cluster, policy};
use crate::event::Event;
use crate::object::Reply;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn an_idle_engine_is_drained_at_once() {
    let mut cluster = Cluster::new(policy());
    cluster.running("job", 2);
    cluster.step(Event::Drain(Slots::ALL));
    cluster.turn();
    assert!(cluster.heard.drained);
    assert_eq!(cluster.log, [""; 0]);
}

#[test]
fn created_pods_are_recorded_and_nothing_else_is_begun() {
    let mut cluster = Cluster::new(framework_core::Policy { expectations_limit: 2, ..policy() });
    cluster.creating("job", 5);
    cluster.log.clear();
    cluster.step(Event::Drain(Slots::ALL));
    cluster.pass(SECOND);
    assert!(!cluster.heard.drained, "two POSTs are on their way");
    cluster.serve_all();
    cluster.deliver();
    cluster.turn();
    assert_eq!(cluster.waiting(), ["put job AttemptPreparing"]);
    assert!(!cluster.heard.drained);
    cluster.serve("put");
    cluster.turn();
    assert!(cluster.heard.drained);
    assert_eq!(cluster.log.len(), 1, "{:?}", cluster.log);
    let status = cluster.status("job");
    let recorded =
        status.task_roles()[0].task_statuses.iter().filter(|task| task.attempt_status.pod_uid.is_some());
    assert_eq!(recorded.count(), 2);
}

#[test]
fn a_request_that_hangs_keeps_its_slot_unsettled() {
    let mut cluster = Cluster::new(policy());
    cluster.creating("job", 1);
    cluster.step(Event::Drain(Slots::ALL));
    cluster.pass(SECOND * 60);
    assert!(!cluster.heard.drained, "its owner gives it up, and says that it is unsettled");
}

#[test]
fn a_create_without_a_reply_does_not_hold_a_stop_up() {
    let mut cluster = Cluster::new(policy());
    cluster.creating("job", 1);
    cluster.step(Event::Drain(Slots::ALL));
    cluster.turn();
    cluster.answer("create", Reply::Unknown("reset".into()));
    cluster.turn();
    assert!(cluster.heard.drained, "the next replica deletes its leftovers");
}

#[test]
fn a_framework_deleted_before_its_first_status_holds_no_drain_up() {
    let mut cluster = Cluster::new(policy());
    cluster.create_framework("job", 1);
    cluster.deliver();
    cluster.turn();
    // A finalizer of another client holds it.
    cluster.edit("job", |framework| {
        framework.metadata.deletion_timestamp =
            Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(Default::default()));
    });
    cluster.deliver();
    cluster.serve("create map job");
    cluster.deliver();
    cluster.pass(SECOND);
    cluster.step(Event::Drain(Slots::ALL));
    cluster.turn();
    assert!(cluster.heard.drained, "nothing is to be written");
    assert_eq!(cluster.log, ["create map job"]);
}
