//! Replicas that share the Frameworks while they, the API server and its store are disturbed, each in turn.
//!
//! `FRAMEWORK_CHAOS_MINUTES`, `FRAMEWORK_CHAOS_FRAMEWORKS` and `FRAMEWORK_CHAOS_SEED` choose another run than
//! that of the gate; `cargo xtask chaos` sets them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use framework_api::State;
use framework_testcluster::Component;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;

use crate::cluster::lease::{Alone, namespace};
use crate::cluster::replicas::{LEASE, Replicas};
use crate::cluster::{
    self, PATIENCE, await_frameworks_by, block_on, checkers, client, code, frameworks, halfway, installed,
    manifest, state,
};
use crate::disturbance::relay::Relay;
use crate::disturbance::{Crashed, record, restart};

/// The replicas that there are between injections, and those that come for a while.
const ALWAYS: [&str; 3] = ["a", "b", "c"];
const AT_TIMES: [&str; 2] = ["d", "e"];
/// How long a replica is stopped or cut off: its slots are taken over meanwhile.
const AWAY: Duration = Duration::from_secs(3 * LEASE);

/// The disturbance of one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Injection {
    /// A replica is killed, and another Pod takes its place.
    Kill,
    /// A replica is killed, and its container is started again in the same Pod.
    Restart,
    /// A replica is asked to end, and another Pod takes its place.
    Stop,
    /// A replica is stopped by SIGSTOP for three durations of a Lease, and goes on.
    Freeze,
    /// A replica is cut off from the API server for three durations of a Lease.
    CutOff,
    /// The API server is killed and started again, and its clients with it.
    ApiServer,
    /// etcd is killed and started again.
    Etcd,
    /// Each replica is asked to end and replaced, one after the other.
    Roll,
    /// All but one replica end; then there are five, and three again.
    Scale,
}

use Injection::*;

const ALL: [Injection; 9] = [Kill, Restart, Stop, Freeze, CutOff, ApiServer, Etcd, Roll, Scale];

/// How large a run is.
struct Size {
    minutes: u64,
    frameworks: usize,
    seed: u64,
}

impl Size {
    fn of_the_environment() -> Size {
        let number = |name: &str, otherwise: u64| {
            let named = std::env::var(format!("FRAMEWORK_CHAOS_{name}")).ok();
            named.map_or(otherwise, |text| {
                text.parse().unwrap_or_else(|_| panic!("{name} is {text:?}, no number"))
            })
        };
        let frameworks = usize::try_from(number("FRAMEWORKS", 20)).expect("it fits");
        Size { minutes: number("MINUTES", 0), frameworks, seed: number("SEED", 1) }
    }
}

/// How the Tasks of a Framework end, and so the Framework.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Succeeds,
    SucceedsTheSecondTime,
    Fails,
}

/// Findings of a run; each is a Framework or a breach in words.
#[derive(Default)]
struct Findings {
    lost: Vec<String>,
    twice: Vec<String>,
    stuck: Vec<String>,
}

struct Chaos {
    frameworks: usize,
    random: fastrand::Rng,
    replicas: Replicas,
    relays: BTreeMap<&'static str, Relay>,
    /// How long each injection took until others had the slots, or all had equal shares.
    took: BTreeMap<Injection, Vec<Duration>>,
    findings: Findings,
}

impl Chaos {
    fn start(size: &Size) -> Chaos {
        let replicas = Replicas::none();
        let relay = |name| (name, Relay::start(installed(), "controller"));
        let relays = ALWAYS.into_iter().chain(AT_TIMES).map(relay).collect();
        let random = fastrand::Rng::with_seed(size.seed);
        let (took, findings) = (BTreeMap::new(), Findings::default());
        let mut chaos = Chaos { frameworks: size.frameworks, random, replicas, relays, took, findings };
        ALWAYS.into_iter().for_each(|name| chaos.begin(name));
        chaos.replicas.await_shares();
        chaos
    }

    fn begin(&mut self, name: &'static str) {
        self.replicas.start(name, &config(&self.relays[name]));
    }

    /// A namespace in which each of these injections happens once, in a random order.
    fn round(&mut self, number: usize, mut injections: Vec<Injection>) {
        let ns = namespace(&format!("chaos-{number}"));
        let recording = record(&ns);
        let mut fates = BTreeMap::new();
        self.random.shuffle(&mut injections);
        for injection in injections {
            self.fill(&ns, &mut fates);
            let took = self.inject(injection);
            println!("{injection:?}: taken over after {:.1} s", took.as_secs_f64());
            self.took.entry(injection).or_default().push(took);
        }
        self.await_ends(&ns, &fates);
        let (changes, requests) = recording.end_with_changes(checkers::slim);
        let history = checkers::recorded(&changes, &requests);
        self.findings.twice.extend(checkers::broken_promises(&history));
        self.findings.twice.extend(checkers::broken_guarantees(&history));
        let all = ["delete", "frameworks", "--all", "--cascade=foreground", "--wait=false", "--namespace"];
        cluster::kubectl(&[&all[..], &[&ns]].concat());
    }

    /// Creates Frameworks until enough of them run.
    fn fill(&mut self, namespace: &str, fates: &mut BTreeMap<String, Fate>) {
        let seen = block_on(frameworks(namespace).list(&ListParams::default())).expect("a list").items;
        let over = seen.iter().filter(|seen| state(seen) == Some(State::Completed));
        for _ in seen.len() - over.count()..self.frameworks {
            let name = format!("job{:04}", fates.len());
            let fate = self.random.choice([Fate::Succeeds, Fate::SucceedsTheSecondTime, Fate::Fails]);
            let fate = fate.expect("there are three");
            let runs = format!("{}ms", self.random.u32(500..8000));
            let [runs, first] = [("run-duration", runs.as_str()), ("only-task-attempt", "0")];
            let (fates_of_pods, fancy, retries) = match fate {
                Fate::Succeeds => (vec![runs], false, 0),
                Fate::SucceedsTheSecondTime => (vec![runs, ("exit-code", "200"), first], true, 0),
                Fate::Fails => (vec![runs, ("exit-code", "1")], false, 1),
            };
            let manifest = manifest(&name).role("worker", 3, &fates_of_pods).task_retry(fancy, retries);
            manifest.create(namespace);
            fates.insert(name, fate);
        }
    }

    /// Disturbs; returns the time until the others had the slots, or all had equal shares.
    fn inject(&mut self, injection: Injection) -> Duration {
        let name = self.random.choice(ALWAYS).expect("there are three");
        let others: Vec<&'static str> = ALWAYS.into_iter().filter(|other| *other != name).collect();
        match injection {
            Kill => {
                self.replicas.kill(name);
                self.replicas.forget(name);
                let took = self.replicas.await_shares();
                self.begin(name);
                self.replicas.await_shares();
                took
            }
            Restart => {
                self.replicas.kill(name);
                self.replicas.restart(name, &config(&self.relays[name]));
                self.replicas.await_shares()
            }
            Stop => {
                let begun = Instant::now();
                assert!(self.replicas.stop(name).success(), "{}", cluster::log_of(name));
                let took = begun.elapsed();
                self.begin(name);
                self.replicas.await_shares();
                took
            }
            Freeze => {
                self.replicas.freeze(name);
                let took = self.away(&others);
                self.replicas.thaw(name);
                self.replicas.await_shares();
                took
            }
            CutOff => {
                self.relays[name].cut();
                let took = self.away(&others);
                self.relays[name].mend();
                self.replicas.await_shares();
                took
            }
            ApiServer => {
                let begun = Instant::now();
                drop(Crashed::now());
                self.replicas.await_shares();
                begun.elapsed()
            }
            Etcd => {
                let begun = Instant::now();
                restart(Component::Etcd).expect("it starts");
                await_frameworks_by(&client());
                // kwok never repeats a PATCH that was answered with 500, as a kubelet would: its Pod would
                // stay pending. A new kwok lists all Pods.
                restart(Component::Kwok).expect("it starts");
                self.replicas.await_shares();
                begun.elapsed()
            }
            Roll => self.roll(),
            Scale => self.scale(name, &others),
        }
    }

    fn roll(&mut self) -> Duration {
        let begun = Instant::now();
        for name in ALWAYS {
            assert!(self.replicas.stop(name).success(), "{}", cluster::log_of(name));
            self.begin(name);
            self.replicas.await_shares();
        }
        begun.elapsed()
    }

    /// Leaves one replica alone, then has five, and three again.
    fn scale(&mut self, alone: &'static str, others: &[&'static str]) -> Duration {
        let begun = Instant::now();
        for other in others {
            self.replicas.stop(other);
        }
        self.replicas.await_shares();
        for more in ALWAYS.into_iter().filter(|name| *name != alone).chain(AT_TIMES) {
            self.begin(more);
        }
        self.replicas.await_shares();
        for name in AT_TIMES {
            self.replicas.stop(name);
        }
        self.replicas.await_shares();
        begun.elapsed()
    }

    /// Waits until the others have the slots of one that is away, and until it was away for long enough.
    fn away(&self, others: &[&str]) -> Duration {
        let deadline = Instant::now() + AWAY;
        let took = self.replicas.await_shares_of(others);
        while Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(50));
        }
        took
    }

    /// Waits until all Frameworks have ended, and notes those that do not, are gone or ended otherwise.
    fn await_ends(&mut self, namespace: &str, fates: &BTreeMap<String, Fate>) {
        let deadline = Instant::now() + PATIENCE;
        for (name, fate) in fates {
            let ended = loop {
                let seen = block_on(frameworks(namespace).get_opt(name)).expect("an answer");
                match seen {
                    None => break None,
                    Some(seen) if state(&seen) == Some(State::Completed) => break Some(code(&seen).0),
                    Some(_) if Instant::now() > deadline => {
                        let pods = phases(namespace, name);
                        self.findings.stuck.push(format!("{namespace}/{name} ({fate:?}), its Pods: {pods}"));
                        break None;
                    }
                    Some(_) => {
                        // A Pod whose deletion died with the API server has no kubelet that ends it.
                        halfway::finish(namespace);
                        std::thread::sleep(Duration::from_millis(200));
                    }
                }
            };
            let is_stuck = self.findings.stuck.last().is_some_and(|last| last.contains(name));
            if !is_stuck && ended.is_none_or(|code| (code == 0) == matches!(fate, Fate::Fails)) {
                self.findings.lost.push(format!("{namespace}/{name} ({fate:?}) ended with {ended:?}"));
            }
        }
    }

    /// Prints the times and the counts, and fails if anything was found.
    fn report(self) {
        let mut injections = 0;
        for (injection, mut took) in self.took {
            took.sort();
            injections += took.len();
            let at = |percent: usize| took[(took.len() * percent).div_ceil(100) - 1].as_secs_f64();
            let (p50, p99, max) = (at(50), at(99), at(100));
            println!("{injection:?} x {}: p50 {p50:.1} s, p99 {p99:.1} s, max {max:.1} s", took.len());
        }
        let Findings { lost, twice, stuck } = &self.findings;
        let all: Vec<&String> = lost.iter().chain(twice).chain(stuck).collect();
        all.iter().for_each(|finding| println!("{finding}"));
        println!(
            "{injections} injections: {} lost, {} twice, {} stuck",
            lost.len(),
            twice.len(),
            stuck.len()
        );
        assert!(all.is_empty(), "{all:#?}");
    }
}

/// The Pods of a Framework with their phases.
fn phases(namespace: &str, framework: &str) -> String {
    let of_it = ListParams::default().labels(&format!("FC_FRAMEWORK_NAME={framework}"));
    let pods = block_on(cluster::pods(namespace).list(&of_it)).expect("a list").items;
    let phase = |pod: Pod| {
        let status = pod.status.unwrap_or_default();
        let (name, phase) = (pod.metadata.name.unwrap_or_default(), status.phase.unwrap_or_default());
        format!("{name} is {phase}")
    };
    pods.into_iter().map(phase).collect::<Vec<_>>().join(", ")
}

/// The lines by which a replica sees the API server through a relay.
fn config(relay: &Relay) -> String {
    format!("kubeApiServerAddress: {}", relay.url())
}

#[test]
fn replicas_lose_nothing_and_run_nothing_twice_under_any_fault() {
    let _alone = Alone::wait();
    let size = Size::of_the_environment();
    let Size { minutes, frameworks, seed } = size;
    println!("repeat it with: cargo xtask chaos --minutes {minutes} --frameworks {frameworks} --seed {seed}");
    let mut chaos = Chaos::start(&size);
    let deadline = Instant::now() + Duration::from_secs(60 * minutes);
    let mut rounds = 0;
    while rounds == 0 || Instant::now() < deadline {
        chaos.round(rounds, ALL.to_vec());
        rounds += 1;
    }
    chaos.report();
}
