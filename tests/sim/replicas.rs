//! Several replicas of the production controller in one thread, which share the Frameworks by slots.

use std::collections::BTreeMap;
use std::time::Duration;

use framework_sim::{Options, SimCluster, check};

use crate::simulation::controller::{Controller, Place, Setup};
use crate::simulation::life::calm;
use crate::simulation::manifest::framework;
use crate::simulation::{SECOND, pass, simulate, slots};

fn policy() -> framework_shard::Policy {
    let (lease, renewal) = (SECOND * 5, SECOND);
    let timeout = Duration::from_millis(1_500);
    framework_shard::Policy::new(lease, renewal, timeout, SECOND * 28).expect("they fit")
}

/// Starts the `incarnation`-th controller, on a host of its own.
fn replica(cluster: &SimCluster, incarnation: usize) -> Controller {
    let (host, pod) = (format!("host-{incarnation}"), format!("pod-{incarnation}"));
    let setup = Setup { place: Some(Place { policy: policy(), host, pod, rate: 1000 }), ..Setup::default() };
    Controller::start(cluster, incarnation, 7, &setup)
}

/// Waits until these controllers have about equal shares.
async fn shared(cluster: &SimCluster, of: &[&Controller]) {
    let mut waited = Duration::ZERO;
    loop {
        let shares = slots::shares(&cluster.history());
        let even = 256 / of.len();
        let is_even = |shares: &BTreeMap<String, usize>| {
            shares.len() == of.len()
                && of.iter().all(|one| shares.get(&one.name).is_some_and(|n| n.abs_diff(even) <= even / 10))
        };
        if shares.as_ref().is_ok_and(is_even) {
            eprintln!("after {waited:?}: {shares:?}");
            return;
        }
        assert!(waited < SECOND * 60, "the shares after {waited:?}: {shares:?}");
        pass(SECOND / 4).await;
        waited += SECOND / 4;
    }
}

async fn all_completed(cluster: &SimCluster) {
    let over = |user: &framework_sim::User| {
        user.list("frameworks").iter().all(|one| one["status"]["state"] == "Completed")
    };
    assert!(cluster.until(SECOND * 300, over).await, "not all Frameworks end");
}

#[test]
fn three_replicas_in_one_thread_run_every_framework_each_by_its_owner() {
    simulate(1, Options { keep_trace: false, ..calm() }, |cluster| async move {
        let user = cluster.user();
        for index in 0..30 {
            framework(&format!("f{index}")).role("w", 3).create(&user);
        }
        let one = replica(&cluster, 1);
        shared(&cluster, &[&one]).await;
        let (two, three) = (replica(&cluster, 2), replica(&cluster, 3));
        shared(&cluster, &[&one, &two, &three]).await;
        for index in 30..60 {
            framework(&format!("f{index}")).role("w", 3).create(&user);
        }
        all_completed(&cluster).await;
        pass(SECOND * 10).await;
        let history = cluster.history();
        check::at_quiescence(&history).unwrap();
        let counts = slots::judge(&history).unwrap();
        eprintln!("{counts:?}");
        let acting: std::collections::BTreeSet<&str> = history
            .exchanges
            .iter()
            .filter(|one| &*one.plural == "pods" && one.verb == framework_sim::Verb::Create)
            .map(|one| &*one.who)
            .collect();
        assert_eq!(acting.len(), 3, "each has a share of the work: {acting:?}");
        for leaving in [two, three, one] {
            leaving.stop().await.expect("a stop is no error");
        }
    });
}
