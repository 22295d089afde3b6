//! Frameworks of one namespace that succeed, fail, are retried or wait in a queue, while everything around
//! them is disturbed.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use framework_api::State;
use framework_sim::check::{owners, queue};
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;

use crate::cluster::history::Change;
use crate::cluster::lease::namespace;
use crate::cluster::queues::furnish;
use crate::cluster::recording::Recording;
use crate::cluster::{
    self, PATIENCE, block_on, checkers, code, frameworks, halfway, kubectl, manifest, state,
};
use crate::disturbance::{record, witness};

/// The Tasks of each.
const TASKS: u32 = 3;

/// How the Tasks of a Framework end, and so the Framework.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Succeeds,
    SucceedsTheSecondTime,
    Fails,
}

/// Findings of a run; each is a Framework or a breach in words.
#[derive(Debug, Default)]
pub struct Findings {
    pub lost: Vec<String>,
    pub twice: Vec<String>,
    pub stuck: Vec<String>,
}

/// The Frameworks of a namespace.
pub struct Jobs {
    namespace: String,
    is_queued: bool,
    recording: Recording,
    fates: BTreeMap<String, Fate>,
}

impl Jobs {
    /// None yet, in a new namespace.
    pub fn start(name: &str) -> Jobs {
        let namespace = namespace(name);
        let recording = record(&namespace);
        Jobs { namespace, is_queued: false, recording, fates: BTreeMap::new() }
    }

    /// None yet, in a new namespace with a queue and a quota, by which so many run at a time.
    pub fn start_queued(name: &str, frameworks: usize) -> Jobs {
        furnish(name, TASKS * u32::try_from(frameworks).expect("it fits"));
        let recording = Recording::start_with_queues(witness(), name);
        Jobs { namespace: name.to_owned(), is_queued: true, recording, fates: BTreeMap::new() }
    }

    /// Creates Frameworks until so many have not ended.
    pub fn fill(&mut self, random: &mut fastrand::Rng, frameworks: usize) {
        let seen = block_on(cluster::frameworks(&self.namespace).list(&ListParams::default()));
        let seen = seen.expect("a list").items;
        let over = seen.iter().filter(|seen| state(seen) == Some(State::Completed));
        self.add(random, frameworks.saturating_sub(seen.len() - over.count()));
    }

    /// Creates so many more.
    pub fn add(&mut self, random: &mut fastrand::Rng, frameworks: usize) {
        for _ in 0..frameworks {
            let name = format!("job{:04}", self.fates.len());
            let fate = random.choice([Fate::Succeeds, Fate::SucceedsTheSecondTime, Fate::Fails]);
            let fate = fate.expect("there are three");
            let runs = format!("{}ms", random.u32(500..8000));
            let [runs, first] = [("run-duration", runs.as_str()), ("only-task-attempt", "0")];
            let (fates_of_pods, fancy, retries) = match fate {
                Fate::Succeeds => (vec![runs], false, 0),
                Fate::SucceedsTheSecondTime => (vec![runs, ("exit-code", "200"), first], true, 0),
                Fate::Fails => (vec![runs, ("exit-code", "1")], false, 1),
            };
            let manifest = manifest(&name).role("worker", TASKS, &fates_of_pods).task_retry(fancy, retries);
            let manifest = if self.is_queued { manifest.queue("q") } else { manifest };
            manifest.create(&self.namespace);
            self.fates.insert(name, fate);
        }
    }

    /// Waits until all have ended, and notes those that do not, are gone or ended otherwise. One is stuck if
    /// it has not ended [`PATIENCE`] after the one before it was seen to have. Together they may take longer.
    pub fn await_ends(&self, findings: &mut Findings) {
        let namespace = &self.namespace;
        let mut deadline = Instant::now() + PATIENCE;
        for (name, fate) in &self.fates {
            let ended = loop {
                let seen = block_on(frameworks(namespace).get_opt(name)).expect("an answer");
                match seen {
                    None => break None,
                    Some(seen) if state(&seen) == Some(State::Completed) => {
                        deadline = Instant::now() + PATIENCE;
                        break Some(code(&seen).0);
                    }
                    Some(_) if Instant::now() > deadline => {
                        let pods = phases(namespace, name);
                        findings.stuck.push(format!("{namespace}/{name} ({fate:?}), its Pods: {pods}"));
                        break None;
                    }
                    Some(_) => {
                        // A Pod whose deletion died with the API server has no kubelet that ends it.
                        halfway::finish(namespace);
                        halfway::nudge(namespace);
                        std::thread::sleep(Duration::from_millis(200));
                    }
                }
            };
            let is_stuck = findings.stuck.last().is_some_and(|last| last.contains(name));
            if !is_stuck && ended.is_none_or(|code| (code == 0) == matches!(fate, Fate::Fails)) {
                findings.lost.push(format!("{namespace}/{name} ({fate:?}) ended with {ended:?}"));
            }
        }
    }

    /// Judges the history, to which `map` adds the versions of the map of slots; then deletes the Frameworks.
    pub fn end(self, map: &[Change], findings: &mut Findings) -> framework_sim::History {
        let (mut changes, requests) = self.recording.end_with_changes(checkers::slim);
        changes.extend_from_slice(map);
        let history = checkers::recorded(&changes, &requests);
        findings.twice.extend(checkers::broken_promises(&history));
        findings.twice.extend(checkers::broken_guarantees(&history));
        match owners::check(&history) {
            Ok(counts) => println!("{}: {counts:?}", self.namespace),
            Err(broken) => findings.twice.push(broken.to_string()),
        }
        if self.is_queued {
            findings
                .twice
                .extend(queue::check(&history, queue::Blind::default()).err().map(|it| it.to_string()));
            findings.stuck.extend(queue::at_quiescence(&history).err().map(|it| it.to_string()));
            let releases = queue::count(&history).releases;
            if releases != self.fates.len() {
                let jobs = self.fates.len();
                findings.lost.push(format!("{}: {releases} releases of {jobs} units", self.namespace));
            }
        }
        let all = ["delete", "frameworks", "--all", "--cascade=foreground", "--wait=false", "--namespace"];
        kubectl(&[&all[..], &[&self.namespace]].concat());
        history
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
