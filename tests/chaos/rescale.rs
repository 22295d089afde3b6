//! A storm of random rescales over Frameworks whose Tasks fail and are retried, with the controller killed in
//! the middle. Every promise and every guarantee is kept, by watch history and audit log.
//!
//! `FRAMEWORK_STORM_FRAMEWORKS`, `FRAMEWORK_STORM_RESCALES` and `FRAMEWORK_STORM_SEED` choose another storm
//! than that of the gate; `cargo xtask soak storm` sets them.

use std::collections::BTreeMap;
use std::time::Instant;

use framework_testcluster::audit::Record;

use crate::cluster::history::{Change, Object, What};
use crate::cluster::lease::{Alone, namespace};
use crate::cluster::recording::Recording;
use crate::cluster::{self, block_on, checkers, installed, start_controller};
use crate::storm;
use crate::storm::user::{Done, User};

const NAMESPACE: &str = "storm";
/// So many users rescale at the same time, each its own Frameworks.
const USERS: usize = 8;

/// How large a storm is.
struct Size {
    frameworks: usize,
    rescales: usize,
    seed: u64,
}

impl Size {
    fn of_the_environment() -> Size {
        let number = |name: &str, otherwise: u64| {
            let named = std::env::var(format!("FRAMEWORK_STORM_{name}")).ok();
            named.map_or(otherwise, |text| {
                text.parse().unwrap_or_else(|_| panic!("{name} is {text:?}, no number"))
            })
        };
        let count = |name, otherwise| usize::try_from(number(name, otherwise)).expect("it fits");
        Size {
            frameworks: count("FRAMEWORKS", 10),
            rescales: count("RESCALES", 100),
            seed: number("SEED", 1),
        }
    }

    /// The part of one of the users.
    fn share(all: usize, user: usize) -> usize {
        all / USERS + usize::from(user < all % USERS)
    }
}

/// All users at once. Then each ends its Frameworks, half of them by a stop, half by a last set of TaskRoles.
/// The controller is killed meanwhile; returns the pid of the next one.
fn blow(size: &Size, controller: u32) -> (Done, u32) {
    let users = (0..USERS).map(|number| {
        let frameworks = (0..size.frameworks).filter(|framework| framework % USERS == number);
        User::new(NAMESPACE, size.seed, number, frameworks, Size::share(size.rescales, number))
    });
    let users: Vec<_> = users.filter(User::is_needed).collect();
    let (mut done, killer) = block_on(async {
        let all = futures::future::join_all(users.into_iter().map(User::rescale));
        let killer = tokio::task::spawn_blocking(move || replace(controller));
        (all.await, killer.await)
    });
    let next = killer.expect("the controller is killed and started again");
    (done.drain(..).fold(Done::default(), Done::with), next)
}

/// Kills the controller while the storm blows, and starts another.
fn replace(pid: u32) -> u32 {
    storm::await_pods(NAMESPACE, 3);
    installed().kill_hosted(pid).expect("it was running");
    start_controller("storm", "")
}

/// Groups by Framework: names have no dash, and the names of a Framework's objects begin with its own.
fn by_framework<T>(all: Vec<T>, name: impl Fn(&T) -> String) -> BTreeMap<String, Vec<T>> {
    let mut parts: BTreeMap<String, Vec<T>> = BTreeMap::new();
    for one in all {
        let name = name(&one);
        parts.entry(name.split('-').next().unwrap_or_default().to_owned()).or_default().push(one);
    }
    parts
}

fn name_of(change: &Change) -> String {
    change.object.metadata().name.clone().expect("an object has a name")
}

fn subject_of(request: &Record) -> String {
    let created = request.response_object.as_ref().and_then(|body| body["metadata"]["name"].as_str());
    if request.name.is_empty() { created.unwrap_or_default().to_owned() } else { request.name.clone() }
}

/// The broken promises, with the name of the Framework.
fn judge(changes: Vec<Change>, requests: Vec<Record>) -> Vec<String> {
    let mut requests = by_framework(requests, subject_of);
    let mut found = Vec::new();
    for (name, changes) in by_framework(changes, name_of) {
        let requests = requests.remove(&name).unwrap_or_default();
        let history = checkers::recorded(&changes, &requests);
        let mut broken = checkers::broken_promises(&history);
        broken.extend(checkers::broken_rescales(&history));
        found.extend(broken.into_iter().map(|breach| format!("{name}: {breach}")));
    }
    found
}

fn created(changes: &[Change]) -> usize {
    let pods = changes.iter().filter(|change| matches!(change.object, Object::Pod(_)));
    pods.filter(|change| change.what == What::Created).count()
}

#[test]
fn a_storm_of_rescales_breaks_no_promise() {
    let size = Size::of_the_environment();
    let Size { frameworks, rescales, seed } = size;
    println!("{frameworks} Frameworks, {rescales} rescales, seed {seed}");
    let alone = Alone::wait();
    namespace(NAMESPACE);
    let recording = Recording::start(NAMESPACE);
    let mut controller = alone.start("storm", "");
    let began = Instant::now();
    let (done, next) = blow(&size, controller.pid);
    controller.pid = next;
    let blown = began.elapsed();
    storm::await_ends(NAMESPACE, frameworks);
    let ended = began.elapsed();
    for number in 0..frameworks {
        cluster::assert_nothing_is_left(NAMESPACE, &storm::name(number));
    }
    let (changes, requests) = recording.end_with_changes(checkers::slim);
    println!("{done}; blown after {blown:.1?}, all ended after {ended:.1?}");
    println!("{} changes seen, {} Pods", changes.len(), created(&changes));
    print!("{}", storm::figures(&requests));
    assert!(done.rescales >= rescales, "not all was done");
    let found = judge(changes, requests);
    println!("{} violations, judged after {:.1?}", found.len(), began.elapsed());
    assert!(found.is_empty(), "seed {seed}: {} breaches:\n{}", found.len(), found.join("\n"));
}
