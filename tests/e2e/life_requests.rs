//! The table of docs/performance.md that lists every request of a Framework's life: the controller's own, and
//! those of the programs of Kubernetes that a Framework keeps busy.
//!
//! `UPDATE=1 cargo test --test e2e floor` rewrites it. Run that on a machine that does nothing else.

use std::collections::BTreeMap;

use framework_testcluster::audit::Record;
use jiff::{SignedDuration, Timestamp};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/performance.md");
const BEGIN: &str = "<!-- Requests of a life: written by `UPDATE=1 cargo test --test e2e floor`. -->\n";
const END: &str = "<!-- End of the requests of a life. -->";
const HEAD: &str = "| life | program | requests |\n|---|---|---|\n";
const CONTROLLER: &str = "frameworkcontroller";
const COLLECTOR: &str = "garbage collector";
/// The resources whose requests do not depend on the time that they take.
const EXACT: [&str; 4] = ["frameworks", "configmaps", "pods", "queueunits"];
const STATUS_WRITE: &str = "update frameworks/status";
/// Changes of Pods gather for so long after the last one, and at most for so long after the first one, before
/// the controller writes them.
const GATHERED: SignedDuration = SignedDuration::from_millis(100);
const LONGEST: SignedDuration = SignedDuration::from_millis(500);

/// How often each kind of request was sent, such as `update frameworks/status`.
type Counts = BTreeMap<String, usize>;
/// The requests of a life by program.
type Requests = BTreeMap<String, Counts>;

/// The requests of a life, as they were measured.
pub struct Measured {
    life: &'static str,
    requests: Requests,
    /// How often other programs changed Pods: changes that the controller gathers count once.
    bursts: usize,
}

impl Measured {
    /// The requests of a life that was alone in a namespace.
    pub fn of(life: &'static str, records: &[Record], namespace: &str) -> Measured {
        Measured { life, requests: by_actor(records, namespace), bursts: bursts(records, namespace) }
    }
}

/// The program that sent a request, unless a user or a test did.
fn program(record: &Record) -> Option<&'static str> {
    if record.user_agent.starts_with("frameworkcontroller/") {
        return Some(CONTROLLER);
    }
    // Each controller of kube-controller-manager adds its name to the user agent.
    let is_of = |name: &str| record.user_agent.contains(name);
    [
        ("garbage-collector", COLLECTOR),
        ("resourcequota", "quota controller"),
        ("kube-scheduler", "scheduler"),
        ("kwok", "kubelet (kwok)"),
    ]
    .into_iter()
    .find_map(|(name, program)| is_of(name).then_some(program))
}

/// The requests on the objects of a namespace, and those of the controller for the time.
fn by_actor(records: &[Record], namespace: &str) -> Requests {
    let mut requests = Requests::new();
    for record in records {
        let Some(program) = program(record) else { continue };
        let asks_time = program == CONTROLLER && record.request_uri.starts_with("/version");
        let kind = match record.subresource.as_str() {
            _ if asks_time => "get /version".to_owned(),
            "" => format!("{} {}", record.verb, record.resource),
            subresource => format!("{} {}/{subresource}", record.verb, record.resource),
        };
        // The namespace comes with a ConfigMap of its own.
        let counts = asks_time || record.namespace == namespace && record.name != "kube-root-ca.crt";
        if counts && record.verb != "watch" {
            *requests.entry(program.to_owned()).or_default().entry(kind).or_default() += 1;
        }
    }
    requests
}

/// How many status writes the changes of Pods by other programs may cause at most: one for each burst.
fn bursts(records: &[Record], namespace: &str) -> usize {
    let is_change = |record: &&Record| {
        let by_others = program(record).is_some_and(|program| program != CONTROLLER);
        let writes = ["create", "update", "patch", "delete"].contains(&record.verb.as_str());
        by_others && writes && record.namespace == namespace && record.resource == "pods"
    };
    let mut changes: Vec<Timestamp> =
        records.iter().filter(is_change).map(|record| record.completed).collect();
    changes.sort_unstable();
    let mut bursts = 0;
    let mut burst: Option<(Timestamp, Timestamp)> = None;
    for at in changes {
        let same = burst.filter(|(first, last)| {
            at.duration_since(*last) <= GATHERED && at.duration_since(*first) <= LONGEST
        });
        bursts += usize::from(same.is_none());
        burst = Some((same.map_or(at, |(first, _)| first), at));
    }
    bursts
}

fn rows(lives: &[Measured]) -> String {
    let mut rows = String::new();
    for Measured { life, requests, .. } in lives {
        for (program, counts) in requests {
            let counts: Vec<String> = counts.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
            rows += &format!("| {life} | {program} | {} |\n", counts.join(", "));
        }
    }
    rows
}

/// The table of the page.
fn written(page: &str) -> BTreeMap<(String, String), Counts> {
    let (_, table) = page.split_once(BEGIN).expect("the table begins");
    let (table, _) = table.split_once(END).expect("the table ends");
    let cells = |row: &str| row.split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
    let count = |cell: &str| {
        let (count, kind) = cell.trim().split_once(' ').expect("a number and a kind");
        (kind.to_owned(), count.parse().expect("a number"))
    };
    let row = |row: &str| match &cells(row)[..] {
        [_, life, program, counts, _] => {
            ((life.clone(), program.clone()), counts.split(',').map(count).collect())
        }
        other => panic!("{other:?}"),
    };
    table.lines().skip(2).map(row).collect()
}

/// Whether the requests of this kind are counted exactly.
fn is_exact(kind: &str) -> bool {
    let resource = kind.split_once(' ').map_or("", |(_, resource)| resource);
    EXACT.contains(&resource.split('/').next().unwrap_or_default())
}

/// Asserts that the controller and the garbage collector send as many requests as the page says. Status
/// writes vary with the machine: there may be twice as many, or one more for each burst of changes of Pods.
/// On a slow machine Pods start and end one by one, further apart than changes are gathered. Events, requests
/// for the time and the status of a Queue come at their own pace, and the other programs are not ours. So the
/// page has their requests of one run.
pub fn assert_as_written(lives: &[Measured]) {
    let rows = rows(lives);
    println!("{HEAD}{rows}");
    let page = std::fs::read_to_string(PAGE).expect("the page is there");
    if std::env::var_os("UPDATE").is_some_and(|value| value == "1") {
        let (before, rest) = page.split_once(BEGIN).expect("the table begins");
        let (_, after) = rest.split_once(END).expect("the table ends");
        std::fs::write(PAGE, format!("{before}{BEGIN}{HEAD}{rows}{END}{after}")).expect("it is written");
        return;
    }
    let written = written(&page);
    for Measured { life, requests, bursts } in lives {
        for program in [CONTROLLER, COLLECTOR] {
            let expected = written.get(&((*life).to_owned(), program.to_owned()));
            let [mut found, expected] = [requests.get(program), expected].map(|counts| {
                let mut counts = counts.cloned().unwrap_or_default();
                // How often the garbage collector reads an object depends on the delay of its watches.
                let reads = |kind: &str| program == COLLECTOR && kind.starts_with("get ");
                counts.retain(|kind, _| is_exact(kind) && !reads(kind));
                counts
            });
            if let (Some(expected), Some(found)) = (expected.get(STATUS_WRITE), found.get_mut(STATUS_WRITE)) {
                let allowed = (expected * 2).max(expected + bursts);
                assert!(*found <= allowed, "{life}: {found} status writes, of {allowed} for {bursts} bursts");
                *found = *expected;
            }
            assert_eq!(found, expected, "{life}: of the {program}, {PAGE} says other requests");
        }
    }
}
