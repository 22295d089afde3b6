//! The map of slots is deleted under replicas that run Frameworks. It is made again, and nothing is lost.

use std::time::Duration;

use framework_api::State;
use framework_sim::History;
use framework_sim::check::owners;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, ListParams};

use crate::cluster::lease::Alone;
use crate::cluster::recording::Recording;
use crate::cluster::replicas::{LEASE, MAP, Replicas};
use crate::cluster::{block_on, checkers, client, frameworks, state, until};
use crate::disturbance::witness;
use crate::jobs::{Findings, Jobs};

const NAMESPACE: &str = "chaos-deleted-map";
/// Frameworks that are there when the map is deleted, and as many that are created while it is absent.
const FRAMEWORKS: usize = 16;
/// The map is made again after 2.4 durations of a Lease.
const ABSENCE: Duration = Duration::from_millis(2400 * LEASE);

#[test]
fn a_map_that_is_deleted_under_running_frameworks_is_made_again() {
    let _alone = Alone::wait();
    let mut replicas = Replicas::none();
    ["a", "b", "c"].into_iter().for_each(|name| replicas.start(name, ""));
    replicas.await_shares();
    let map = Recording::start_of_map(witness());
    let mut random = fastrand::Rng::with_seed(1);
    let mut jobs = Jobs::start(NAMESPACE);
    jobs.fill(&mut random, FRAMEWORKS);
    until("a Framework runs", || {
        let all = block_on(frameworks(NAMESPACE).list(&ListParams::default())).expect("a list").items;
        all.iter().any(|one| state(one) == Some(State::AttemptRunning)).then_some(())
    });
    let maps: Api<ConfigMap> = Api::namespaced(client(), "default");
    block_on(maps.delete(MAP, &DeleteParams::default())).expect("it is there");
    jobs.add(&mut random, FRAMEWORKS);
    assert!(block_on(maps.get_opt(MAP)).expect("a read").is_none(), "they came while there was no map");
    replicas.await_shares();
    let mut findings = Findings::default();
    jobs.await_ends(&mut findings);
    let (map, requests) = map.end_with_changes(checkers::slim);
    findings.twice.extend(checkers::seizures(&map, &requests).err());
    // No replica can have seen the deletion before its request arrived, and its response may be late.
    let deletion = requests.iter().find(|request| request.verb == "delete" && request.name == MAP);
    let asked = deletion.expect("the log has the deletion").received;
    let absence = absence(&checkers::recorded(&map, &requests), asked);
    println!("the map was absent for {absence:?} at most");
    assert!(absence >= ABSENCE, "the map was absent for {absence:?} only");
    jobs.end(&map, &mut findings);
    let Findings { lost, twice, stuck } = findings;
    let found = [lost, twice, stuck].concat();
    assert!(found.is_empty(), "{found:#?}");
}

/// How long the map was absent at most, by when its deletion was asked for. It was deleted once and made
/// once, and then no slot was settled.
fn absence(history: &History, asked: Timestamp) -> Duration {
    let versions: Vec<_> = history.of("configmaps").filter(|change| change.name == MAP).collect();
    let gone: Vec<_> = versions.iter().filter(|change| change.removes()).collect();
    let [gone] = &gone[..] else { panic!("it was deleted {} times", gone.len()) };
    let made: Vec<_> = versions.iter().filter(|change| change.creates() && change.rv > gone.rv).collect();
    let [made] = &made[..] else { panic!("it was made {} times", made.len()) };
    let tenures = owners::tenures(history).expect("epochs rise");
    let is_unsettled = |of_slot: &&Vec<owners::Tenure>| {
        of_slot.iter().any(|tenure| tenure.since == made.rv && tenure.unsettled)
    };
    assert_eq!(tenures.values().filter(is_unsettled).count(), 256, "each slot waits for earlier requests");
    Duration::try_from(made.time.duration_since(asked)).expect("it was made after the deletion")
}
