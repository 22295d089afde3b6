//! Several replicas of the production controller in one thread, which share the Frameworks by slots.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use framework_message::Slot;
use framework_sim::{Cut, Fault, Options, Rule, SimCluster, Verb, check};
use serde_json::json;

use crate::simulation::controller::{Controller, MemberSetup, Setup, member_of};
use crate::simulation::life::calm;
use crate::simulation::manifest::framework;
use crate::simulation::slots::{self, Counts};
use crate::simulation::walk::Manner;
use crate::simulation::walk::replicas::{Shared, walk, walk_queued};
use crate::simulation::{SECOND, pass, seeds, simulate};

/// Seeds of the gate.
const SEEDS: Range<u64> = 0..30;
const QUEUED: Range<u64> = 0..20;

/// The times of the replicas.
pub fn policy() -> framework_shard::Policy {
    let (lease, renewal) = (SECOND * 5, SECOND);
    let timeout = Duration::from_millis(1_500);
    framework_shard::Policy::new(lease, renewal, timeout, SECOND * 28).expect("they fit")
}

/// Starts the `incarnation`-th controller, on a host of its own.
fn replica(cluster: &SimCluster, incarnation: usize) -> Controller {
    replica_with(cluster, incarnation, Setup::default())
}

/// The same, set up like this.
pub fn replica_with(cluster: &SimCluster, incarnation: usize, setup: Setup) -> Controller {
    let (host, pod) = (format!("host-{incarnation}"), format!("pod-{incarnation}"));
    let member = Some(MemberSetup { policy: policy(), host, pod, rate: 1000 });
    Controller::start(cluster, incarnation, 7, &Setup { member, ..setup })
}

/// Waits until these controllers have about equal shares.
pub async fn shared(cluster: &SimCluster, of: &[&Controller]) {
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

/// A PUT creates a Lease that is not there, unless it names a UID. The replica would go on in a life that
/// others have proved gone, and get no slots.
#[test]
fn a_replica_whose_lease_was_deleted_while_it_was_cut_off_joins_again() {
    simulate(1, Options { keep_trace: false, ..calm() }, |cluster| async move {
        let (one, two) = (replica(&cluster, 1), replica(&cluster, 2));
        shared(&cluster, &[&one, &two]).await;
        let member = member_of(&two.name);
        for plural in ["leases", "configmaps"] {
            cluster.freeze_watches(&member, plural, SECOND * 400);
        }
        for client in [&member, &two.name] {
            cluster.faults(|faults| faults.cut(client, Cut::Silent));
        }
        let gone =
            |user: &framework_sim::User| user.get("leases", "frameworkcontroller-member-host-2").is_none();
        assert!(cluster.until(SECOND * 390, gone).await, "the Lease of a replica that is gone stays");
        // Its renewal arrives before it reads anything.
        let reads = Rule::new(Fault::Delay(SECOND * 5)).verb(Verb::List).plural("leases").who(&member);
        cluster.faults(|faults| faults.script(reads.times(4)));
        for client in [&member, &two.name] {
            cluster.faults(|faults| faults.mend(client));
        }
        shared(&cluster, &[&one, &two]).await;
        check::at_quiescence(&cluster.history()).unwrap();
    });
}

/// A row names no life, so nobody knows the owner of that slot: the map counts as absent.
#[test]
fn a_map_that_was_edited_badly_is_replaced_when_nobody_acts_by_it() {
    simulate(1, Options { keep_trace: false, ..calm() }, |cluster| async move {
        let user = cluster.user();
        let (one, two) = (replica(&cluster, 1), replica(&cluster, 2));
        shared(&cluster, &[&one, &two]).await;
        let bad = json!({ "data": { "7": r#"{"owner":"nobody","epoch":1}"# } });
        user.patch("configmaps", slots::MAP, bad).expect("it is there");
        let row = |user: &framework_sim::User| {
            user.get("configmaps", slots::MAP).expect("it is there")["data"]["7"].to_string()
        };
        let is_replaced = move |user: &framework_sim::User| row(user).contains("member");
        // Owners act for 1.6 durations at most, and the next map comes after 2.4.
        assert!(!cluster.until(SECOND * 9, is_replaced).await, "it is replaced too early");
        framework("f").role("w", 2).create(&user);
        assert!(!cluster.until(SECOND * 2, is_replaced).await, "it is replaced too early");
        assert!(user.get("frameworks", "f").expect("it is there")["status"].is_null(), "somebody acts");
        assert!(cluster.until(SECOND * 5, is_replaced).await, "it is not replaced");
        let map = user.get("configmaps", slots::MAP).expect("it is there");
        for slot in Slot::all() {
            let row = map["data"][slot.to_string()].as_str().expect("text");
            assert!(row.contains("unsettled"), "{slot}: {row}");
        }
        all_completed(&cluster).await;
        check::at_quiescence(&cluster.history()).unwrap();
    });
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
        let counts = slots::judge(&history, &[]).unwrap();
        eprintln!("{counts:?}");
        let acting: std::collections::BTreeSet<&str> = history
            .exchanges
            .iter()
            .filter(|one| &*one.plural == "pods" && one.verb == Verb::Create)
            .map(|one| &*one.who)
            .collect();
        assert_eq!(acting.len(), 3, "each has a share of the work: {acting:?}");
        for leaving in [two, three, one] {
            leaving.stop().await.expect("a stop is no error");
        }
    });
}

#[test]
fn replicas_that_come_go_and_are_cut_off_run_nothing_twice() {
    each("replicas_that_come", seeds::from_environment(SEEDS), |seed, manner| walk(seed, manner, None));
}

#[test]
fn replicas_that_share_queues_release_no_more_than_there_is() {
    each("replicas_that_share_queues", seeds::from_environment(QUEUED), |seed, manner| {
        walk_queued(seed, manner, None)
    });
}

/// Runs each seed, and sees that something happened.
fn each(test: &str, seeds: Range<u64>, walk: impl Fn(u64, Manner<'_>) -> Shared + Sync) {
    let shared = seeds::each(test, seeds, walk);
    let sum = |count: fn(&Counts) -> usize| shared.iter().map(|shared| count(&shared.counts)).sum::<usize>();
    let (acts, held, moves) =
        (sum(|counts| counts.acts), sum(|counts| counts.held), sum(|counts| counts.moves));
    let (seizures, judged) = (sum(|counts| counts.seizures), sum(|counts| counts.judged));
    eprintln!("{acts} acts, {held} held back, {moves} moves of slots, {seizures} seizures");
    assert!(acts > 0 && (moves > 0 && held > 0 && judged > 0 || shared.len() < 5), "nothing happened");
}

/// A watch that is opened and never answered shows nothing. The only one that shows new Frameworks, which
/// have no label yet, and the one of the Leases, are given up and begun again.
#[test]
fn a_watch_that_is_never_answered_is_begun_again() {
    for (suffix, plural) in [("", "frameworks"), ("-member", "leases")] {
        simulate(1, Options { keep_trace: false, ..calm() }, |cluster| async move {
            let user = cluster.user();
            for who in 1..=3 {
                let silent = Rule::new(Fault::Hang(None)).verb(Verb::Watch).plural(plural).times(2);
                let silent = silent.who(&format!("controller-{who}{suffix}"));
                cluster.faults(|faults| faults.script(silent));
            }
            let (one, two) = (replica(&cluster, 1), replica(&cluster, 2));
            shared(&cluster, &[&one, &two]).await;
            for index in 0..8 {
                framework(&format!("f{index}")).role("w", 1).create(&user);
            }
            all_completed(&cluster).await;
            let three = replica(&cluster, 3);
            shared(&cluster, &[&one, &two, &three]).await;
        });
    }
}

/// In this walk a status write without a reply is applied ten seconds later, after the Framework was read
/// and its slot was drained.
#[test]
fn a_late_status_write_lands_in_no_slot_that_was_handed_over() {
    let broken = walk(121, Manner::default(), None).walked.broken;
    assert!(broken.is_none(), "{broken:?}");
}
