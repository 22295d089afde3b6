//! A run that mixes, by a seed, all that disturbs a controller with all that users may do.

use std::time::{Duration, Instant};

use kube::api::{DeleteParams, ListParams};

use super::relay::KINDS;
use super::{Controller, Crashed, Stopped, record, until};
use crate::cluster::history::History;
use crate::cluster::recording::Recording;
use crate::cluster::{self, block_on, completed, delete, halfway, manifest, task_number};

/// How many Frameworks it has.
const FRAMEWORKS: usize = 4;

/// The next step of the mixed run.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// The watches of some kinds are held back.
    Hold,
    /// All watches go on.
    Release,
    /// The controller is killed and started again.
    Kill,
    /// The API server stands still, and the controller may be killed meanwhile.
    Stop,
    /// The API server dies.
    Crash,
    /// A user deletes a Pod.
    DeletePod,
    /// A user deletes a ConfigMap.
    DeleteConfigMap,
    /// A user changes the number of Tasks.
    Rescale,
    /// A user stops a Framework and, once it is completed, deletes it.
    StopFramework,
    /// A user deletes a Framework.
    DeleteFramework,
}

/// A run that mixes all disturbances with all that users may do.
pub struct Mix {
    namespace: String,
    random: fastrand::Rng,
    controller: Controller,
    recording: Recording,
}

impl Mix {
    /// Starts one in an empty namespace.
    pub fn start(namespace: &str, seed: u64) -> Mix {
        let controller = Controller::start("");
        let recording = record(namespace);
        let random = fastrand::Rng::with_seed(seed);
        Mix { namespace: namespace.to_owned(), random, controller, recording }
    }

    /// Goes so many steps.
    pub fn go(&mut self, steps: usize, crashes: bool) {
        for number in 0..steps {
            self.create();
            let step = self.choose(crashes);
            println!("step {number} at {} changes: {step:?}", self.recording.changes().len());
            self.step(step);
            let changes = self.random.usize(..40);
            self.go_on(changes);
        }
    }

    /// Deletes all Frameworks, waits until the garbage collector has deleted the rest, and returns the
    /// history.
    pub fn end(self) -> History {
        self.controller.relay.release();
        let all = ["delete", "fw", "--all", "--namespace", &self.namespace];
        cluster::kubectl(&[&all[..], &["--cascade=foreground", "--wait=false"]].concat());
        let deadline = Instant::now() + cluster::PATIENCE;
        while !block_on(cluster::frameworks(&self.namespace).list(&ListParams::default()))
            .expect("a list")
            .items
            .is_empty()
        {
            assert!(Instant::now() < deadline, "Frameworks that were deleted are still there");
            halfway::finish(&self.namespace);
            std::thread::sleep(Duration::from_millis(200));
        }
        until(&self.recording, "all ConfigMaps and Pods are gone", |seen| {
            seen.config_maps.iter().chain(&seen.pods).all(|life| life.gone.is_some())
        });
        self.recording.end()
    }

    fn choose(&mut self, crashes: bool) -> Step {
        use Step::*;
        let steps = [
            Hold,
            Hold,
            Release,
            Kill,
            Stop,
            DeletePod,
            DeletePod,
            DeleteConfigMap,
            Rescale,
            Rescale,
            StopFramework,
            DeleteFramework,
            Crash,
        ];
        steps[self.random.usize(..steps.len() - usize::from(!crashes))]
    }

    fn name(&mut self) -> String {
        format!("f{}", self.random.usize(..FRAMEWORKS))
    }

    /// A Framework that is not being deleted: others may be gone before they are asked for anything.
    fn living(&mut self) -> Option<String> {
        let name = self.name();
        let there = block_on(cluster::frameworks(&self.namespace).get_opt(&name)).expect("an answer");
        there.filter(|framework| framework.metadata.deletion_timestamp.is_none()).map(|_| name)
    }

    /// Creates the Frameworks that are not there.
    fn create(&mut self) {
        for name in (0..FRAMEWORKS).map(|number| format!("f{number}")) {
            let there = block_on(cluster::frameworks(&self.namespace).get_opt(&name)).expect("an answer");
            if there.is_some() {
                continue;
            }
            let runs = format!("{}ms", self.random.u32(200..2000));
            let ends = ["0", "1", "200", "210"][self.random.usize(..4)];
            let slowly = format!("{}ms", self.random.u32(1..500));
            let fates = [("run-duration", runs.as_str()), ("exit-code", ends), ("stop-delay", &slowly)];
            let first = [&fates[..], &[("only-task-attempt", "0")]].concat();
            manifest(&name)
                .role("a", self.random.u32(1..6), if self.random.bool() { &first } else { &[] })
                .task_retry(true, 1)
                .role(
                    "b",
                    self.random.u32(0..3),
                    if self.random.bool() { &fates } else { &[("stop-delay", "700ms")] },
                )
                .task_retry(self.random.bool(), 0)
                .retry(true, 1)
                .create(&self.namespace);
        }
    }

    fn step(&mut self, step: Step) {
        let ns = self.namespace.clone();
        match step {
            Step::Hold => {
                let kinds: Vec<_> = KINDS.into_iter().filter(|_| self.random.bool()).collect();
                self.controller.relay.hold(&kinds);
            }
            Step::Release => self.controller.relay.release(),
            Step::Kill => self.controller.replace(),
            Step::Stop => {
                let stopped = Stopped::now();
                if self.random.bool() {
                    self.controller.replace();
                }
                stopped.for_a_while(Duration::from_millis(self.random.u64(1..800)));
            }
            Step::Crash => drop(Crashed::now()),
            Step::DeletePod => {
                let pods = block_on(cluster::pods(&ns).list(&Default::default())).expect("a list").items;
                if let Some(pod) = self.random.choice(pods) {
                    // It may be gone by now.
                    let name = pod.metadata.name.expect("a name");
                    let _ = block_on(cluster::pods(&ns).delete(&name, &DeleteParams::default()));
                }
            }
            Step::DeleteConfigMap => {
                let name = format!("{}-attempt", self.name());
                let params =
                    [DeleteParams::foreground(), DeleteParams::background(), DeleteParams::default()];
                let params = &params[self.random.usize(..3)];
                let _ = block_on(cluster::config_maps(&ns).delete(&name, params));
            }
            Step::Rescale => {
                let (name, number) = (self.living(), self.random.u32(0..8));
                name.iter().for_each(|name| task_number(&ns, name, number));
            }
            Step::StopFramework => {
                let Some(name) = self.living() else { return };
                cluster::execute(&ns, &name, "Stop");
                self.controller.relay.release();
                completed(&ns, &name);
                delete(&ns, &name);
            }
            Step::DeleteFramework => self.living().iter().for_each(|name| delete(&ns, name)),
        }
    }

    /// Lets the control plane go on for a while: for so many changes, or a second.
    fn go_on(&self, changes: usize) {
        let enough = self.recording.changes().len() + changes;
        let deadline = Instant::now() + Duration::from_secs(1);
        while self.recording.changes().len() < enough && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
