//! The first ConfigMap, which the spec alone permits (rule A11): withdrawn, lost, unanswered, late.

use std::time::Duration;

use framework_api::State;

use super::cluster::{Cluster, generous, policy};
use crate::engine::EngineSettings;
use crate::object::Reply;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn the_first_status_records_the_config_map() {
    let mut cluster = Cluster::new(policy());
    cluster.create_framework("job", 1);
    cluster.deliver();
    cluster.live(SECOND);
    assert_eq!(cluster.log[..2], ["create map job", "put job AttemptPreparing"]);
}

#[test]
fn the_first_status_of_many_tasks_does_not_wait_for_the_next_evaluation() {
    let mut cluster = Cluster::new(policy());
    cluster.create_framework("job", 1000);
    cluster.deliver();
    cluster.turn();
    cluster.pass(Duration::from_millis(5));
    cluster.serve("create map");
    cluster.turn();
    cluster.deliver();
    cluster.turn();
    assert_eq!(cluster.waiting(), ["put job AttemptPreparing"]);
}

#[test]
fn a_stop_or_a_deletion_keeps_the_first_config_map_from_leaving() {
    for deletes in [false, true] {
        let mut cluster = Cluster::with(policy(), EngineSettings { max_in_flight: 1, ..generous() });
        cluster.create_held("other", 1);
        cluster.deliver();
        cluster.turn();
        cluster.create_framework("job", 1);
        cluster.deliver();
        cluster.turn();
        assert_eq!(
            cluster.waiting(),
            ["put other AttemptCreationPending"],
            "the create waits for the budget"
        );
        if deletes {
            cluster.edit("job", |framework| {
                framework.metadata.deletion_timestamp =
                    Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(Default::default()));
            });
        } else {
            cluster.stop("job");
        }
        cluster.deliver();
        cluster.live(SECOND * 5);
        assert_eq!(cluster.count("create map job"), 0, "{:?}", cluster.log);
    }
}

#[test]
fn a_stop_waits_for_the_reply_to_the_first_config_map() {
    let mut cluster = Cluster::new(policy());
    cluster.create_framework("job", 1);
    cluster.deliver();
    cluster.turn();
    cluster.stop("job");
    cluster.deliver();
    cluster.pass(SECOND);
    assert_eq!(cluster.waiting(), ["create map job"], "no status may withdraw its permission");
    cluster.serve("create map");
    cluster.deliver();
    cluster.live(SECOND * 5);
    assert_eq!(cluster.state("job"), State::Completed);
    assert_eq!(cluster.count("delete map job"), 1, "{:?}", cluster.log);
}

#[test]
fn a_first_config_map_without_a_reply_is_taken_over_when_it_shows() {
    let mut cluster = Cluster::new(policy());
    cluster.create_framework("job", 1);
    cluster.deliver();
    cluster.turn();
    cluster.serve_silently("create map");
    cluster.deliver();
    cluster.live(SECOND * 60);
    assert_eq!(cluster.state("job"), State::AttemptPreparing, "{:?}", cluster.log);
    let posts = (cluster.count("create map job"), cluster.count("delete map job"));
    assert_eq!(posts, (1, 0), "{:?}", cluster.log);
}

#[test]
fn a_first_config_map_that_did_not_leave_is_sent_again() {
    let mut cluster = Cluster::new(policy());
    cluster.create_framework("job", 1);
    cluster.deliver();
    cluster.turn();
    cluster.answer("create map", Reply::NotSent("connection refused".into()));
    cluster.live(SECOND * 20);
    assert_eq!(cluster.state("job"), State::AttemptPreparing, "{:?}", cluster.log);
}
