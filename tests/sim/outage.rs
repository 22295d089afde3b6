//! Replicas without an API server for so long that every Lease has run out.

use framework_sim::{Cut, Options, User, Verb, check};

use crate::replicas::{replica_with, shared};
use crate::simulation::controller::Setup;
use crate::simulation::life::calm;
use crate::simulation::manifest::framework;
use crate::simulation::{SECOND, pass, simulate, slots};

const MAP: &str = "frameworkcontroller-slots";
const FRAMEWORKS: usize = 8;
const PODS: usize = 2 * FRAMEWORKS;

#[test]
fn an_hour_without_the_api_server_loses_nothing_and_runs_nothing_twice() {
    for how in [Cut::Refused, Cut::Silent, Cut::Deaf] {
        simulate(1, Options { keep_trace: false, ..calm() }, |cluster| async move {
            let user = cluster.user();
            let setup = Setup::default();
            let (one, two) = (replica_with(&cluster, 1, setup.clone()), replica_with(&cluster, 2, setup));
            shared(&cluster, &[&one, &two]).await;
            // Some end during the outage, and some after it.
            for index in 0..FRAMEWORKS {
                let time = if index % 2 == 0 { "600000" } else { "4000000" };
                framework(&format!("f{index}")).role("w", 2).fate("run-ms", time).create(&user);
            }
            let run = |user: &User| {
                user.list("frameworks").iter().all(|one| one["status"]["state"] == "AttemptRunning")
            };
            assert!(cluster.until(SECOND * 60, run).await, "not all run");
            let clients = [&one, &two].map(|one| [one.name.clone(), format!("{}-member", one.name)]).concat();
            clients.iter().for_each(|who| cluster.faults(|faults| faults.cut(who, how)));
            pass(SECOND * 3600).await;
            let before = cluster.history().exchanges.len();
            clients.iter().for_each(|who| cluster.faults(|faults| faults.mend(who)));
            let over =
                |user: &User| user.list("frameworks").iter().all(|one| one["status"]["state"] == "Completed");
            assert!(cluster.until(SECOND * 1200, over).await, "{how:?}: not all have ended");
            shared(&cluster, &[&one, &two]).await;
            pass(SECOND * 10).await;
            let history = cluster.history();
            let creates = |change: &&std::sync::Arc<framework_sim::Change>| change.creates();
            assert_eq!(history.of("pods").filter(creates).count(), PODS, "{how:?}: no Task runs twice");
            assert!(history.exchanges[before..].iter().any(|one| one.verb == Verb::UpdateStatus));
            check::at_quiescence(&history).unwrap();
            slots::judge(&history, &[]).unwrap();
        });
    }
}

/// The first replica that hears from the API server again saw no Lease change all the time.
#[test]
fn an_outage_takes_no_slots_from_a_replica() {
    for (seed, how) in [(1, Cut::Refused), (2, Cut::Refused), (3, Cut::Silent), (4, Cut::Deaf)] {
        simulate(seed, Options { keep_trace: false, ..calm() }, |cluster| async move {
            let setup = Setup::default();
            let replicas = [1, 2, 3].map(|number| replica_with(&cluster, number, setup.clone()));
            shared(&cluster, &replicas.each_ref()).await;
            let clients = replicas.each_ref().map(|one| [one.name.clone(), format!("{}-member", one.name)]);
            let clients = clients.concat();
            let maps = || cluster.history().of("configmaps").filter(|one| one.name == MAP).count();
            let before = maps();
            clients.iter().for_each(|who| cluster.faults(|faults| faults.cut(who, how)));
            pass(SECOND * 60).await;
            clients.iter().for_each(|who| cluster.faults(|faults| faults.mend(who)));
            pass(SECOND * 60).await;
            assert_eq!(maps() - before, 0, "{how:?}: the map was written");
        });
    }
}
