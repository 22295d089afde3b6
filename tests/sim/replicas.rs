//! Several replicas of the production controller in one thread, which share the Frameworks by slots.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use framework_message::Slot;
use framework_sim::{Cut, Fault, Options, Rule, SimCluster, Verb, check};
use serde_json::json;

use crate::simulation::controller::{Controller, MemberSetup, Setup, member_of};
use crate::simulation::life::calm;
use crate::simulation::manifest::framework;
use crate::simulation::walk::Manner;
use crate::simulation::walk::replicas::{Shared, walk, walk_queued};
use crate::simulation::{SECOND, pass, seeds, simulate, slots};

/// Seeds of the gate.
const SEEDS: Range<u64> = 0..30;
const QUEUED: Range<u64> = 0..20;
/// Seeds are walked on as many threads, each walk in a runtime of its own.
const THREADS: usize = 2;
/// So many failures are printed; there may be more.
const TOLD: usize = 5;

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
    each(seeds::from_environment(SEEDS), |seed, manner| walk(seed, manner, None));
}

#[test]
fn replicas_that_share_queues_release_no_more_than_there_is() {
    each(seeds::from_environment(QUEUED), |seed, manner| walk_queued(seed, manner, None));
}

/// Runs each seed, and prints the story of the first that went wrong.
fn each(seeds: Range<u64>, walk: impl Fn(u64, Manner<'_>) -> Shared + Sync) {
    let (began, next) = (Instant::now(), AtomicU64::new(seeds.start));
    let [acts, held, moves, seizures, judged] = [const { AtomicUsize::new(0) }; 5];
    let broken: Mutex<Vec<(u64, String)>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if !seeds.contains(&seed) || broken.lock().unwrap().len() >= TOLD {
                        return;
                    }
                    let shared = walk(seed, Manner::default());
                    acts.fetch_add(shared.counts.acts, Ordering::Relaxed);
                    held.fetch_add(shared.counts.held, Ordering::Relaxed);
                    moves.fetch_add(shared.counts.moves, Ordering::Relaxed);
                    seizures.fetch_add(shared.counts.seizures, Ordering::Relaxed);
                    judged.fetch_add(shared.counts.judged, Ordering::Relaxed);
                    if let Some(what) = shared.walked.broken {
                        broken.lock().unwrap().push((seed, what.what));
                    }
                }
            });
        }
    });
    let seconds = began.elapsed().as_secs_f64();
    let counts = [acts, held, moves, seizures, judged];
    let [acts, held, moves, seizures, judged] = counts.map(AtomicUsize::into_inner);
    let count = seeds.end - seeds.start;
    eprintln!(
        "{count} seeds, {acts} acts, {held} held back, {moves} moves of slots, {seizures} seizures, \
         {seconds:.1} s"
    );
    let mut broken = broken.into_inner().unwrap();
    broken.sort_unstable();
    if let Some((seed, _)) = broken.first() {
        let again = walk(*seed, Manner { talks: true, ..Manner::default() }).walked.broken;
        let tail = again.map_or_else(|| vec!["it does not replay".to_owned()], |again| again.tail);
        let failures: Vec<String> =
            broken.iter().map(|(seed, what)| format!("seed {seed}: {what}")).collect();
        panic!("{}\n\n{}", tail.join("\n"), failures.join("\n"));
    }
    assert!(acts > 0 && (moves > 0 && held > 0 && judged > 0 || count < 5), "nothing happened");
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
