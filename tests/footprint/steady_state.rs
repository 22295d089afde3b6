//! An engine that looks after Frameworks whose Tasks all run, and a cluster that is nothing but its answers.
//! Tests and benches count the cost of an event on it.

#![allow(dead_code, reason = "each program uses a part of it")]

use std::sync::Arc;
use std::time::Duration;

use framework_api::status::TaskRoleStatus;
use framework_api::{Framework, FrameworkStatus, State, Time, name};
use framework_core::classify::Classifier;
use framework_core::observed::{ConfigMapFacts, Objects, PodFacts, PodPhase};
use framework_core::{Moment, Observed, Policy, sync};
use framework_engine::engine::{Engine, EngineSettings};
use framework_engine::event::{Effect, Event};
use framework_engine::object::{ConfigMapObject, Form, FrameworkObject, Object, PodObject, Reply};
use framework_engine::request::Request;
use framework_message::{Change, Key, Now};
use framework_runtime::wire::decode;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

const ROLE: &str = "worker";
const START: &str = "2026-01-01T00:00:00Z";

/// The UID of a Pod, of real length.
pub fn pod_uid(index: usize) -> String {
    format!("3b5e2f60-7a1c-4f1e-9d3b-{index:012x}")
}

fn address(index: usize) -> String {
    format!("10.{}.{}.{}", index >> 16, index >> 8 & 0xff, index & 0xff)
}

fn node(index: usize) -> String {
    format!("node-{}.cluster.example", index % 500)
}

fn config_map_uid(job: &str) -> String {
    format!("map-of-{job}")
}

fn task(job: &str, index: usize) -> Value {
    let uid = pod_uid(index);
    json!({
        "index": index, "instanceUID": format!("a1b2c3d4-0000-4000-8000-{index:012x}"), "startTime": START,
        "runTime": START, "completionTime": null, "state": "AttemptRunning", "transitionTime": START,
        "deletionPending": false,
        "retryPolicyStatus": {"totalRetriedCount": 0, "accountableRetriedCount": 0, "retryDelaySec": null},
        "attemptStatus": {
            "id": 0, "startTime": START, "runTime": START, "completionTime": null,
            "instanceUID": format!("0_{uid}"), "podName": format!("{job}-{ROLE}-{index}"), "podUID": uid,
            "podNodeName": node(index), "podIP": address(index), "podHostIP": "10.0.0.1",
            "completionStatus": null,
        },
    })
}

/// A Framework whose Tasks all run, as the API server shows it.
pub fn framework(job: &str, tasks: usize, version: u128) -> Value {
    let roles = json!([{
        "name": ROLE, "instanceUID": "role", "podGracefulDeletionTimeoutSec": null,
        "taskStatuses": (0..tasks).map(|index| task(job, index)).collect::<Vec<_>>(),
    }]);
    let counts = json!({"totalRetriedCount": 0, "accountableRetriedCount": 0, "retryDelaySec": null});
    let map = config_map_uid(job);
    json!({
        "apiVersion": name::API_VERSION, "kind": name::KIND,
        "metadata": {
            "name": job, "namespace": "ns", "uid": format!("framework-{job}"), "generation": 1,
            "resourceVersion": version.to_string(), "creationTimestamp": START,
        },
        "spec": {"taskRoles": [{
            "name": ROLE, "taskNumber": tasks,
            "task": {"pod": {"spec": {"containers": [{"name": "main", "image": "busybox"}]}}},
        }]},
        "status": {
            "startTime": START, "runTime": START, "completionTime": null, "state": "AttemptRunning",
            "transitionTime": START, "retryPolicyStatus": counts,
            "attemptStatus": {
                "id": 0, "startTime": START, "runTime": START, "completionTime": null,
                "instanceUID": format!("0_{map}"), "configMapName": name::config_map_name(job),
                "configMapUID": map, "completionStatus": null, "taskRoleStatuses": roles,
            },
        },
    })
}

fn config_map(job: &str) -> ConfigMapObject {
    let facts = ConfigMapFacts {
        uid: config_map_uid(job),
        framework_uid: Some(format!("framework-{job}")),
        deleting: false,
    };
    ConfigMapObject { key: Key::new("ns", job), resource_version: 2, facts, label: None }
}

/// The Pod of a Task, as the watch shows it while it runs.
pub fn pod(job: &str, index: usize, version: u128) -> PodObject {
    let facts = PodFacts {
        node_name: node(index),
        pod_ip: address(index),
        host_ip: "10.0.0.1".to_owned(),
        ..PodFacts::new(pod_uid(index), config_map_uid(job), PodPhase::Running)
    };
    let name = name::pod_name(job, ROLE, i32::try_from(index).unwrap());
    PodObject { key: Key::new("ns", job), name, resource_version: version, facts, label: None, last: None }
}

/// A policy with the contract's defaults.
pub fn policy() -> Policy {
    Policy::new(Classifier::new(&[]).unwrap())
}

/// The engine, at rest between two calls.
pub struct SteadyState {
    /// The measured engine.
    pub engine: Engine,
    steady: Duration,
    version: u128,
}

impl SteadyState {
    /// An engine at rest with these Frameworks: name and number of Tasks.
    pub fn new(jobs: &[(String, usize)]) -> Self {
        let settings = EngineSettings { qps: 1e6, burst: 1_000_000, ..EngineSettings::default() };
        let engine = Engine::new(settings, Arc::new(policy()));
        let mut state = SteadyState { engine, steady: Duration::from_secs(1), version: 1000 };
        state.list(jobs);
        state.settle();
        state
    }

    /// An engine at rest with one Framework, `job`.
    pub fn one(tasks: usize) -> Self {
        Self::new(&[("job".to_owned(), tasks)])
    }

    fn list(&mut self, jobs: &[(String, usize)]) {
        self.step(Event::Framework(Change::Restarted));
        for (job, tasks) in jobs {
            let json = framework(job, *tasks, 1).to_string();
            let object = decode::<FrameworkObject>(json.as_bytes()).unwrap().unwrap();
            self.step(Event::Framework(Change::Listed(object)));
        }
        self.step(Event::Framework(Change::Synced));
        self.step(Event::ConfigMap(Change::Restarted));
        for (job, _) in jobs {
            self.step(Event::ConfigMap(Change::Listed(config_map(job))));
        }
        self.step(Event::ConfigMap(Change::Synced));
        self.step(Event::Pod(Change::Restarted));
        for (job, tasks) in jobs {
            for index in 0..*tasks {
                self.step(Event::Pod(Change::Listed(pod(job, index, 3))));
            }
        }
        self.step(Event::Pod(Change::Synced));
    }

    /// A version that has not been used yet.
    pub fn version(&mut self) -> u128 {
        self.version += 1;
        self.version
    }

    /// Now, on both clocks.
    pub fn now(&self) -> Now {
        let epoch: Timestamp = "2026-01-02T00:00:00Z".parse().unwrap();
        let wall = epoch + SignedDuration::try_from(self.steady).unwrap();
        Now { steady: self.steady, boot: self.steady, wall }
    }

    /// The engine takes in an event.
    pub fn step(&mut self, event: Event) {
        let now = self.now();
        self.engine.step(now, event);
    }

    /// The engine decides, and returns the effects that it wants.
    pub fn turn(&mut self) -> Vec<Effect> {
        let now = self.now();
        self.engine.turn(now, 7)
    }

    /// Time passes.
    pub fn pass(&mut self, time: Duration) {
        self.steady += time;
    }

    /// Time passes until the engine wants its turn; whether it wants one within a minute.
    pub fn wait(&mut self) -> bool {
        let wake = self.engine.next_wake().filter(|wake| *wake < self.steady + Duration::from_secs(60));
        self.steady = wake.map_or(self.steady, |wake| wake.max(self.steady));
        wake.is_some()
    }

    /// Turns and waits until there is nothing to do any more.
    pub fn settle(&mut self) {
        loop {
            let replies: Vec<Event> =
                self.turn().into_iter().filter_map(|effect| self.reply(effect)).collect();
            if replies.is_empty() && !self.wait() {
                // All delays are over.
                return self.pass(Duration::from_secs(1));
            }
            for reply in replies {
                self.step(reply);
            }
        }
    }

    /// The answer to a request: stores a status, and answers a question for the time.
    pub fn reply(&mut self, effect: Effect) -> Option<Event> {
        let Effect::Send { ticket, request, .. } = effect else { return None };
        let reply = match request {
            Request::AskTime => Reply::Done,
            Request::PutStatus { framework, status, .. } => {
                let own = &framework.metadata;
                let bytes = |value: &Option<String>| value.clone().unwrap_or_default();
                Reply::Object(Object::Framework(FrameworkObject {
                    key: Key::new(&bytes(&own.namespace), &bytes(&own.name)),
                    uid: bytes(&own.uid).into(),
                    resource_version: self.version(),
                    stored_bytes: 500,
                    form: Form::default(),
                    ignored: None,
                    content: Ok((framework, Some(status))),
                }))
            }
            other => panic!("nothing else is asked for while all Tasks run: {other:?}"),
        };
        Some(Event::Reply { ticket, reply, server: Some(Time::floor(self.now().wall)) })
    }

    /// The watch shows that a Pod has got another address.
    pub fn moved(&mut self, job: &str, index: usize) -> Event {
        let version = self.version();
        let mut pod = pod(job, index, version);
        pod.facts.pod_ip = format!("172.16.{}.{}", version >> 8 & 0xff, version & 0xff);
        Event::Pod(Change::Applied(pod))
    }
}

/// A Framework whose Tasks all run, as the core receives it.
pub struct Job {
    framework: Framework,
    status: FrameworkStatus,
    objects: Objects,
}

impl Job {
    /// At rest: nothing is to be decided.
    pub fn steady(tasks: usize) -> Self {
        let object: Framework = serde_json::from_value(framework("job", tasks, 1)).unwrap();
        let status = object.status.clone().unwrap();
        let pods = (0..tasks).map(|index| pod("job", index, 1));
        let objects = Objects {
            config_map: Some(config_map("job").facts),
            pods: pods.map(|pod| (pod.name, pod.facts.into())).collect(),
            ..Objects::default()
        };
        let mut job = Job { framework: Framework { status: None, ..object }, status, objects };
        let summarised = sync(&job.observed(), moment(), &policy()).persist;
        job.status = summarised.map_or(job.status, |status| *status);
        job
    }

    /// One Pod has got another address.
    pub fn moved(tasks: usize) -> Self {
        let mut job = Self::steady(tasks);
        let pod = job.objects.pods.values_mut().nth(tasks / 2).unwrap();
        pod.pod_ip = "172.16.0.1".to_owned();
        job
    }

    /// All Tasks of the running attempt wait for their Pods.
    pub fn waiting(tasks: usize) -> Self {
        let mut job = Self::steady(tasks);
        job.objects.pods.clear();
        let attempt = &mut job.status.attempt_status;
        for task in attempt.task_role_statuses.iter_mut().flatten().flat_map(|role| &mut role.task_statuses) {
            let task = task.to_mut();
            task.state = State::AttemptCreationPending;
            task.attempt_status.pod_uid = None;
        }
        job
    }

    /// Every Pod has got another address.
    pub fn all_moved(tasks: usize) -> Self {
        let mut job = Self::steady(tasks);
        job.objects.pods.values_mut().for_each(|pod| pod.pod_ip = "172.16.0.1".to_owned());
        job
    }

    /// The core's input.
    pub fn observed(&self) -> Observed<'_> {
        let Job { framework, status, objects } = self;
        Observed {
            framework,
            stored_bytes: 500,
            status: Some(status),
            server_date: None,
            admission: None,
            growths: &[],
            objects,
        }
    }

    /// Its TaskRoles, as they are compressed.
    pub fn roles(&self) -> &[TaskRoleStatus] {
        self.status.task_roles()
    }
}

/// When the core is asked.
pub fn moment() -> Moment {
    let now = "2026-01-02T00:00:00Z".parse().unwrap();
    Moment { now, server: None, seed: 7 }
}
