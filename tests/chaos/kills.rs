//! The other replicas go on while one is killed: the throughput that is lost is that of its slots.
//!
//! Frameworks of one Task come at a steady rate. In a window after each kill, those that end in slots of the
//! others are counted, and compared with those that were due to. `cargo xtask soak kills` kills more often
//! than the gate; `FRAMEWORK_KILLS_RUNS` sets how often.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use framework_api::{Framework, State};
use framework_message::Slot;
use futures::StreamExt;
use kube::runtime::watcher::{self, Event, watcher};

use crate::cluster::lease::{Alone, namespace};
use crate::cluster::replicas::{LEASE, Replicas, host_of, owners};
use crate::cluster::{block_on, frameworks, manifest, state, until};

const REPLICAS: [&str; 3] = ["a", "b", "c"];
/// A Framework is created once in this time.
const PACE: Duration = Duration::from_millis(200);
/// So long before and after a kill the others are watched: they take over within it.
const WINDOW: Duration = Duration::from_secs(3 * LEASE);
/// The median share of the throughput that may be lost beyond that of the dead replica.
const GOAL: f64 = 0.15;
/// No single kill may cost the others more: half of it means that they wait for each other.
const AT_MOST: f64 = 0.5;

/// The life of a Framework, as a watch shows it.
#[derive(Clone, Copy, Debug)]
struct Life {
    slot: Slot,
    begun: Instant,
    ended: Option<Instant>,
}

/// The lives of all Frameworks of a namespace, by UID.
type Lives = Arc<Mutex<BTreeMap<String, Life>>>;

/// Creates Frameworks at the steady rate, and follows them, until the returned tasks are aborted.
fn begin(namespace: &str, lives: &Lives) -> [tokio::task::AbortHandle; 2] {
    let (api, seen) = (frameworks(namespace), Arc::clone(lives));
    block_on(async {
        let create = tokio::spawn(async move {
            let mut turns = tokio::time::interval(PACE);
            for index in 0.. {
                turns.tick().await;
                let ends = [("run-duration", "500ms"), ("exit-code", "0")];
                let job = manifest(&format!("job{index}")).role("w", 1, &ends);
                api.create(&Default::default(), &job.object()).await.expect("it is accepted");
            }
        });
        let mut events = watcher(frameworks(namespace), watcher::Config::default()).boxed();
        let follow = tokio::spawn(async move {
            // An interrupted watch goes on by itself.
            while let Some(event) = events.next().await {
                if let Ok(Event::Apply(framework) | Event::InitApply(framework)) = event {
                    see(&mut seen.lock().expect("nobody panicked"), &framework);
                }
            }
        });
        [create.abort_handle(), follow.abort_handle()]
    })
}

fn see(lives: &mut BTreeMap<String, Life>, framework: &Framework) {
    let (uid, now) = (framework.metadata.uid.clone().expect("a UID"), Instant::now());
    let new = || Life { slot: Slot::of(&uid), begun: now, ended: None };
    let life = lives.entry(uid.clone()).or_insert_with(new);
    if state(framework) == Some(State::Completed) {
        life.ended.get_or_insert(now);
    }
}

/// The share of the work in other slots that did not end in the window after a kill: of the Frameworks that
/// began as long before as the median one takes, those that had not ended.
fn lost(lives: &BTreeMap<String, Life>, killed: &BTreeSet<u8>, at: Instant) -> f64 {
    let others = || lives.values().filter(|life| !killed.contains(&life.slot.0));
    let before = others().filter_map(|life| life.ended.filter(|end| *end < at).map(|end| end - life.begun));
    let mut before: Vec<Duration> = before.collect();
    before.sort_unstable();
    let usual = before.get(before.len() / 2).copied().expect("some ended before");
    let within = |moment: Instant| (at..at + WINDOW).contains(&moment);
    let due = others().filter(|life| within(life.begun + usual)).count();
    let ended = others().filter(|life| life.ended.is_some_and(within)).count();
    1.0 - ended as f64 / due as f64
}

#[test]
fn the_others_lose_little_throughput_when_a_replica_is_killed() {
    let _alone = Alone::wait();
    let runs = std::env::var("FRAMEWORK_KILLS_RUNS").map_or(1, |text| text.parse().expect("a number"));
    let lives = Lives::default();
    let mut replicas = Replicas::none();
    REPLICAS.into_iter().for_each(|name| replicas.start(name, ""));
    replicas.await_shares();
    let [create, follow] = begin(&namespace("kills"), &lives);
    let mut losses = Vec::new();
    for run in 0..runs {
        let steady = Instant::now() + WINDOW;
        until("the rate is steady", || (Instant::now() > steady).then_some(()));
        let victim = REPLICAS[run % REPLICAS.len()];
        let killed = owners().into_iter().filter(|(_, owner)| host_of(owner) == victim);
        let killed: BTreeSet<u8> = killed.map(|(slot, _)| slot).collect();
        let at = Instant::now();
        replicas.kill(victim);
        replicas.forget(victim);
        let took = replicas.await_shares();
        until("the window is over", || (at.elapsed() > WINDOW).then_some(()));
        let loss = lost(&lives.lock().expect("nobody panicked"), &killed, at);
        println!(
            "{victim} is killed: others have its slots after {took:.1?}, and lose {:.0} %",
            100.0 * loss
        );
        losses.push(loss);
        replicas.start(victim, "");
        replicas.await_shares();
    }
    create.abort();
    until("every Framework ends", || {
        let lives = lives.lock().expect("nobody panicked");
        lives.values().all(|life| life.ended.is_some()).then_some(())
    });
    follow.abort();
    losses.sort_unstable_by(f64::total_cmp);
    let median = losses[losses.len() / 2];
    let verdict = if median <= GOAL { "within" } else { "beyond" };
    println!(
        "{runs} kills: the others lose {:.0} % of their throughput at the median: {verdict} the goal of \
         {:.0} %",
        100.0 * median,
        100.0 * GOAL
    );
    assert!(losses.iter().all(|loss| *loss <= AT_MOST), "{losses:?}");
}
