//! Replicas that share the Frameworks while they, the API server and its store are disturbed, each in turn.
//!
//! `FRAMEWORK_CHAOS_MINUTES`, `FRAMEWORK_CHAOS_FRAMEWORKS`, `FRAMEWORK_CHAOS_SEED` and `FRAMEWORK_CHAOS_ONLY`
//! choose another run than that of the gate; `cargo xtask chaos` sets them. `FRAMEWORK_CHAOS_SUMMARY` names a
//! file to which the last line is written, too, because the test harness prints its own result after that
//! line.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use framework_testcluster::Component;

use crate::cluster::lease::Alone;
use crate::cluster::queues::QUEUEING;
use crate::cluster::recording::Recording;
use crate::cluster::replicas::{LEASE, Replicas, leader};
use crate::cluster::{self, await_our_kinds_by, checkers, client, installed};
use crate::disturbance::relay::Relay;
use crate::disturbance::{Crashed, restart, witness};
use crate::jobs::{Findings, Jobs};
use crate::takeover::{First, Taken};

/// The replicas that there are between injections, and those that come for a while.
const ALWAYS: [&str; 3] = ["a", "b", "c"];
const AT_TIMES: [&str; 2] = ["d", "e"];
/// How long a replica is stopped or cut off: its slots are taken over meanwhile.
const AWAY: Duration = Duration::from_secs(3 * LEASE);
/// Jobs that are created while a replica is away: it almost surely owns some of them.
const MORE: usize = 24;
/// The goal for a replica that is asked to end.
const HAND_OVER: Duration = Duration::from_secs(1);
/// The goal for the first write after a replica was lost: 1.2 Leases and two seconds. It is the same for the
/// leader: the others count the time of its two Leases at once.
const FIRST_WRITE: Duration = Duration::from_millis(1200 * LEASE + 2000);

/// The disturbance of one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Injection {
    /// A replica is killed, and another Pod takes its place.
    Kill,
    /// The same with the leader, which owns slots itself: before they are seized, there is another leader.
    KillLeader,
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
    /// All but one replica end; then there are five, one, and three again.
    Scale,
}

use Injection::*;

const ALL: [Injection; 10] = [Kill, KillLeader, Restart, Stop, Freeze, CutOff, ApiServer, Etcd, Roll, Scale];

/// How large a run is.
struct Size {
    minutes: u64,
    frameworks: usize,
    seed: u64,
    /// The injections of a round.
    injections: Vec<Injection>,
}

/// How often one kind of injection happens in a round, if it is the only one.
const ALONE: usize = 10;

impl Size {
    fn of_the_environment() -> Size {
        let number = |name: &str, otherwise: u64| {
            let named = std::env::var(format!("FRAMEWORK_CHAOS_{name}")).ok();
            named.map_or(otherwise, |text| {
                text.parse().unwrap_or_else(|_| panic!("{name} is {text:?}, no number"))
            })
        };
        let frameworks = usize::try_from(number("FRAMEWORKS", 20)).expect("it fits");
        let injections = std::env::var("FRAMEWORK_CHAOS_ONLY").map_or(ALL.to_vec(), |only| {
            let found = ALL.into_iter().find(|injection| format!("{injection:?}") == only);
            vec![found.unwrap_or_else(|| panic!("{only} is none of {ALL:?}")); ALONE]
        });
        Size { minutes: number("MINUTES", 0), frameworks, seed: number("SEED", 1), injections }
    }
}

struct Chaos {
    frameworks: usize,
    random: fastrand::Rng,
    replicas: Replicas,
    relays: BTreeMap<&'static str, Relay>,
    /// How long each injection took until others had the slots, or all had equal shares.
    took: BTreeMap<Injection, Vec<Duration>>,
    /// The replicas that were disturbed in this round.
    taken: Vec<(Injection, Taken)>,
    /// When other replicas first wrote for the Frameworks of the disturbed ones.
    first: BTreeMap<Injection, Vec<First>>,
    findings: Findings,
}

impl Chaos {
    fn start(size: &Size) -> Chaos {
        let replicas = Replicas::none();
        let relay = |name| (name, Relay::start(installed(), "controller"));
        let relays = ALWAYS.into_iter().chain(AT_TIMES).map(relay).collect();
        let random = fastrand::Rng::with_seed(size.seed);
        let mut chaos = Chaos {
            frameworks: size.frameworks,
            random,
            replicas,
            relays,
            took: BTreeMap::new(),
            taken: Vec::new(),
            first: BTreeMap::new(),
            findings: Findings::default(),
        };
        ALWAYS.into_iter().for_each(|name| chaos.begin(name));
        chaos.replicas.await_shares();
        chaos
    }

    fn begin(&mut self, name: &'static str) {
        self.replicas.start(name, &config(&self.relays[name]));
    }

    /// Two namespaces, one with a queue, in which these injections happen in a random order.
    fn round(&mut self, number: usize, mut injections: Vec<Injection>) {
        let map = Recording::start_of_map(witness());
        let seizes = injections.iter().any(|one| matches!(one, Kill | KillLeader | Freeze | CutOff));
        let each = self.frameworks / 2;
        let mut all = [
            Jobs::start(&format!("chaos-{number}")),
            Jobs::start_queued(&format!("chaos-{number}-queued"), each.div_ceil(2)),
        ];
        self.random.shuffle(&mut injections);
        for injection in injections {
            all.iter_mut().for_each(|jobs| jobs.fill(&mut self.random, each));
            let took = self.inject(injection, &mut all[0]);
            println!("{injection:?}: taken over after {:.1} s", took.as_secs_f64());
            self.took.entry(injection).or_default().push(took);
        }
        all.iter().for_each(|jobs| jobs.await_ends(&mut self.findings));
        let (map, requests) = map.end_with_changes(checkers::slim);
        match checkers::seizures(&map, &requests) {
            Ok(counts) => {
                println!("by the Leases: {counts:?}");
                assert!(counts.seized > 0 || !seizes, "no slot of a killed replica was seized");
            }
            Err(broken) => self.findings.twice.push(broken),
        }
        let histories = all.map(|jobs| jobs.end(&map, &mut self.findings));
        for (injection, taken) in self.taken.drain(..) {
            let first = taken.first(&histories);
            if first.write.is_none_or(|after| after > FIRST_WRITE) {
                println!("late: {injection:?} of {taken}: {first:?}");
            }
            self.first.entry(injection).or_default().push(first);
        }
    }

    /// Disturbs; returns the time until the others had the slots, or all had equal shares.
    fn inject(&mut self, injection: Injection, jobs: &mut Jobs) -> Duration {
        let name = self.random.choice(ALWAYS).expect("there are three");
        let begun = Instant::now();
        match injection {
            Kill | Restart | Stop | Freeze | CutOff => return self.lose(name, injection, jobs),
            KillLeader => return self.lose(self.leader(), injection, jobs),
            ApiServer => {
                drop(Crashed::now());
                self.replicas.await_shares();
            }
            Etcd => {
                restart(Component::Etcd).expect("it starts");
                await_our_kinds_by(&client());
                // kwok never repeats a PATCH that was answered with 500, as a kubelet would: its Pod would
                // stay pending. A new kwok lists all Pods.
                restart(Component::Kwok).expect("it starts");
                self.replicas.await_shares();
            }
            Roll => self.roll(),
            Scale => self.scale(name),
        }
        begun.elapsed()
    }

    /// Takes a replica away, and gives its slots something to do at once: more jobs are created. Returns the
    /// time until the others had the slots.
    fn lose(&mut self, name: &'static str, injection: Injection, jobs: &mut Jobs) -> Duration {
        self.taken.push((injection, Taken::from(name)));
        let begun = Instant::now();
        let took = match injection {
            Kill | KillLeader => {
                self.replicas.kill(name);
                jobs.add(&mut self.random, MORE);
                self.replicas.forget(name);
                self.replicas.await_shares();
                let took = begun.elapsed();
                self.begin(name);
                took
            }
            Restart => {
                self.replicas.kill(name);
                self.replicas.restart(name, &config(&self.relays[name]));
                let took = self.replicas.await_shares();
                jobs.add(&mut self.random, MORE);
                took
            }
            Freeze => {
                self.replicas.freeze(name);
                jobs.add(&mut self.random, MORE);
                let took = self.away(begun, name);
                self.replicas.thaw(name);
                took
            }
            CutOff => {
                self.relays[name].cut();
                jobs.add(&mut self.random, MORE);
                let took = self.away(begun, name);
                self.relays[name].mend();
                took
            }
            Stop => {
                let (took, ended) = self.replicas.leave(name);
                assert!(ended.success(), "{}", cluster::log_of(name));
                jobs.add(&mut self.random, MORE);
                if took > HAND_OVER {
                    let log = last_lines(&cluster::log_of(name));
                    println!("late: {name} handed over after {took:?}:\n{log}");
                }
                self.begin(name);
                took
            }
            ApiServer | Etcd | Roll | Scale => unreachable!("{injection:?} takes no single replica away"),
        };
        self.replicas.await_shares();
        took
    }

    /// The leader, by its Lease.
    fn leader(&self) -> &'static str {
        let leader = leader();
        let named = ALWAYS.into_iter().find(|name| *name == leader);
        named.unwrap_or_else(|| panic!("{leader} leads, and is none of {:?}", self.replicas.names()))
    }

    fn roll(&mut self) {
        for name in ALWAYS {
            assert!(self.replicas.stop(name).success(), "{}", cluster::log_of(name));
            self.begin(name);
            self.replicas.await_shares();
        }
    }

    /// Leaves one replica alone, then has five, leaves the same one alone, and has three again.
    fn scale(&mut self, alone: &'static str) {
        let two: Vec<_> = others(alone).collect();
        let four: Vec<_> = others(alone).chain(AT_TIMES).collect();
        self.end_all(&two);
        self.begin_all(&four);
        self.end_all(&four);
        self.begin_all(&two);
    }

    fn begin_all(&mut self, names: &[&'static str]) {
        names.iter().for_each(|name| self.begin(name));
        self.replicas.await_shares();
    }

    fn end_all(&mut self, names: &[&'static str]) {
        for name in names {
            self.replicas.stop(name);
        }
        self.replicas.await_shares();
    }

    /// Waits until the others have the slots of one that is away, and until it was away for long enough.
    fn away(&self, begun: Instant, name: &str) -> Duration {
        let deadline = begun + AWAY;
        self.replicas.await_shares_of(&others(name).collect::<Vec<_>>());
        let took = begun.elapsed();
        while Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(50));
        }
        took
    }

    /// Prints the times and the counts, and fails if anything was found.
    fn report(self) {
        let mut injections = 0;
        for (injection, took) in self.took {
            injections += took.len();
            println!("{injection:?} x {}: taken over after {}", took.len(), spread(took));
            let first = self.first.get(&injection).map_or(&[][..], Vec::as_slice);
            let writes: Vec<Duration> = first.iter().filter_map(|first| first.write).collect();
            let creates: Vec<Duration> = first.iter().filter_map(|first| first.create).collect();
            for (what, found) in [("write", writes), ("create", creates)] {
                if !found.is_empty() {
                    let times = found.len();
                    println!("    first {what} of the next owner x {times}: after {}", spread(found));
                }
            }
        }
        let Findings { lost, twice, stuck } = &self.findings;
        let all: Vec<&String> = lost.iter().chain(twice).chain(stuck).collect();
        all.iter().for_each(|finding| println!("{finding}"));
        let [lost, twice, stuck] = [lost, twice, stuck].map(Vec::len);
        let summary = format!("{injections} injections: {lost} lost, {twice} twice, {stuck} stuck");
        println!("{summary}");
        if let Some(path) = std::env::var_os("FRAMEWORK_CHAOS_SUMMARY") {
            std::fs::write(path, summary + "\n").expect("the summary is written");
        }
        assert!(all.is_empty(), "{all:#?}");
    }
}

/// The replicas that there always are, but for one.
fn others(name: &str) -> impl Iterator<Item = &'static str> {
    ALWAYS.into_iter().filter(move |other| *other != name)
}

/// The last lines of a log that are no snapshots of objects.
fn last_lines(log: &str) -> String {
    let lines: Vec<&str> = log.lines().filter(|line| !line.contains("ObjectSnapshot")).collect();
    lines[lines.len().saturating_sub(40)..].join("\n")
}

/// Three ranks of some times.
fn spread(mut times: Vec<Duration>) -> String {
    times.sort();
    let at = |percent: usize| times.get((times.len() * percent).div_ceil(100).max(1) - 1);
    let [p50, p99, max] = [50, 99, 100].map(|rank| at(rank).copied().unwrap_or_default().as_secs_f64());
    format!("p50 {p50:.1} s, p99 {p99:.1} s, max {max:.1} s")
}

/// The lines by which a replica sees the API server through a relay, and serves queues.
fn config(relay: &Relay) -> String {
    format!("kubeApiServerAddress: {}\n{QUEUEING}", relay.url())
}

#[test]
fn replicas_lose_nothing_and_run_nothing_twice_under_any_fault() {
    let _alone = Alone::wait();
    let size = Size::of_the_environment();
    let Size { minutes, frameworks, seed, ref injections } = size;
    let only = match &injections[..] {
        [one, ..] if *injections != ALL => format!(" --only {one:?}"),
        _ => String::new(),
    };
    let options = format!("--minutes {minutes} --frameworks {frameworks} --seed {seed}{only}");
    println!("repeat it with: cargo xtask chaos {options}");
    let mut chaos = Chaos::start(&size);
    let deadline = Instant::now() + Duration::from_secs(60 * minutes);
    let mut rounds = 0;
    while rounds == 0 || Instant::now() < deadline {
        chaos.round(rounds, injections.clone());
        rounds += 1;
    }
    chaos.report();
}
