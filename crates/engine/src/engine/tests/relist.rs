//! LISTs: nothing is decided before the first ones are complete, and later ones replace the cached objects.

use std::time::Duration;

use framework_api::State;

use super::cluster::{Cluster, generous, policy, relist};
use crate::event::Event;
use framework_message::Change;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn nothing_is_decided_before_every_kind_is_listed() {
    let mut cluster = Cluster::unsynced(policy(), generous());
    for event in relist(true) {
        cluster.step(event);
    }
    cluster.create_framework("job", 1);
    cluster.deliver();
    let [frameworks, config_maps, pods] = relist(false);
    for event in [frameworks, config_maps] {
        cluster.step(event);
        cluster.pass(SECOND);
        assert!(cluster.open.is_empty());
        assert_eq!(cluster.engine.next_wake(), None, "it waits for events");
    }
    cluster.step(pods);
    cluster.turn();
    assert_eq!(cluster.open.len(), 1);
}

/// Lists all objects again.
fn list_again(cluster: &mut Cluster) {
    for event in relist(true) {
        cluster.step(event);
    }
    cluster.list_objects();
    for event in relist(false) {
        cluster.step(event);
    }
}

#[test]
fn a_list_that_shows_nothing_new_costs_nothing() {
    let mut cluster = Cluster::new(policy());
    cluster.running("job", 3);
    list_again(&mut cluster);
    cluster.live(SECOND * 10);
    assert_eq!(cluster.log, [""; 0]);
}

#[test]
fn a_list_finds_pods_that_ended_unseen() {
    let mut cluster = Cluster::new(policy());
    cluster.running("job", 2);
    cluster.exit("job-w-0", 0);
    cluster.remove_pod("job-w-1");
    list_again(&mut cluster);
    cluster.live(SECOND * 3);
    assert_eq!(cluster.count("confirm job-w-1"), 1);
    let end = cluster.status("job").attempt_status.completion_status.clone().unwrap();
    assert_eq!(end.code, -101);
}

#[test]
fn a_framework_that_is_not_listed_any_more_is_forgotten() {
    let mut cluster = Cluster::new(policy());
    cluster.running("job", 2);
    cluster.frameworks.clear();
    list_again(&mut cluster);
    cluster.exit("job-w-0", 1);
    cluster.deliver();
    cluster.live(SECOND * 3);
    assert_eq!(cluster.log, [""; 0], "its objects are the garbage collector's");
    assert_eq!(cluster.engine.gauges().pods, 2);
    for name in ["job-w-0", "job-w-1"] {
        cluster.remove_pod(name);
    }
    let map = cluster.config_maps.remove("job").unwrap();
    cluster.watch.push_back(Event::ConfigMap(Change::Deleted(map)));
    cluster.deliver();
    let gauges = cluster.engine.gauges();
    let (time, in_flight_limit) = (gauges.time, gauges.in_flight_limit);
    let nothing = crate::gauges::Gauges { time, in_flight_limit, ..Default::default() };
    assert_eq!(gauges, nothing, "nothing is left");
}

#[test]
fn a_restarted_engine_goes_on_where_the_other_stopped() {
    let mut cluster = Cluster::new(policy());
    cluster.running("job", 3);
    cluster.engine = Cluster::unsynced(policy(), generous()).engine;
    list_again(&mut cluster);
    cluster.live(SECOND);
    assert_eq!(cluster.log, ["time"], "nothing has changed; a new engine asks what time it is");
    for index in 0..3 {
        cluster.exit(&format!("job-w-{index}"), 0);
    }
    cluster.deliver();
    cluster.live(SECOND * 3);
    assert_eq!(cluster.state("job"), State::Completed);
}
