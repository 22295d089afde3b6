//! A scripted cluster: objects, requests that wait for their answer, and watch events that wait for their
//! delivery.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use framework_api::{ExecutionType, Framework, FrameworkStatus, State, Time};
use framework_core::classify::{Classifier, ContainerEnd, ContainerTerminated, TerminalPhase, TerminatedPod};
use framework_core::observed::{Deletion, PodFacts, PodPhase};
use framework_core::plan::Report;
use framework_core::{Action, Policy};
use jiff::{SignedDuration, Timestamp};

use crate::engine::{Engine, EngineSettings};
use crate::event::{Effect, Event, Measure, QueuedFramework};
use crate::history::Line;
use crate::object::{ConfigMapObject, Form, FrameworkObject, PodObject, Reply};
use crate::request::Request;
use crate::traces::Span;
use framework_message::{Change, Key, Now, Rejection, Slot, Slots, Ticket};

/// The default policy of the core, but for a low limit of unrecorded creates.
pub fn policy() -> Policy {
    Policy { expectations_limit: 64, ..Policy::new(Classifier::new(&[]).unwrap()) }
}

/// The namespace of a Framework: its name says whether another tenant has it.
pub fn namespace(framework: &str) -> &'static str {
    if framework.starts_with("tenant2") { "tenant2" } else { "ns" }
}

/// A policy with one rule switched off.
pub fn lacking(defect: framework_core::Defect) -> Policy {
    Policy { defects: defect.into(), ..policy() }
}

/// A budget that never limits a test.
pub fn generous() -> EngineSettings {
    let in_flight = 100_000;
    EngineSettings {
        qps: 100_000.0,
        burst: 100_000,
        min_in_flight: in_flight,
        max_in_flight: in_flight,
        ..EngineSettings::default()
    }
}

/// The effects of the engine, apart from its requests.
#[derive(Default)]
pub struct Heard {
    pub reports: Vec<Report>,
    /// The lines of the history, each with the request that waits for it.
    pub logged: Vec<(Line, Option<Ticket>)>,
    pub drained: bool,
    pub drained_slots: Slots,
    pub listed: Slots,
    /// Each version that was seen, and the lower one that was found instead.
    pub went_back: Vec<(u128, u128)>,
    /// The reports to the controller of QueueUnits.
    pub queued: Vec<(Key, Option<QueuedFramework>)>,
    /// With each of them: whether there are strays, and creates of the Framework before.
    pub left: Vec<(bool, bool)>,
    pub measured: Vec<Measure>,
    pub spans: Vec<Span>,
}

/// The cluster, and the engine that works on it.
pub struct Cluster {
    pub engine: Engine,
    pub now: Duration,
    /// Seconds by which the API server's clock is ahead of ours.
    pub ahead_sec: i64,
    pub frameworks: BTreeMap<String, FrameworkObject>,
    pub config_maps: BTreeMap<String, ConfigMapObject>,
    pub pods: BTreeMap<String, PodObject>,
    /// Watch events that are not delivered yet.
    pub watch: VecDeque<Event>,
    /// Requests that are not answered yet.
    pub open: BTreeMap<Ticket, Request>,
    /// All requests that were sent, in words.
    pub log: Vec<String>,
    pub heard: Heard,
    /// Whether the first question for the time was answered.
    tells_time: bool,
    version: u128,
    uids: u64,
    seed: u128,
}

/// The request in words: verb and object.
pub fn words(request: &Request) -> String {
    match request {
        Request::PutStatus { framework, status, .. } => {
            format!("put {} {:?}", name_of(framework), status.state)
        }
        Request::PatchConditions { framework, .. } => format!("quarantine {}", name_of(framework)),
        Request::AskTime => "time".to_owned(),
        Request::GetFramework { key } => format!("get {}", key.name),
        Request::GetHolder { key, action } => format!("holder {}", pod_of(action).unwrap_or(&key.name)),
        Request::RestoreLabel { framework, pod, .. } => {
            format!("label {}", pod.as_deref().unwrap_or(&name_of(framework)))
        }
        Request::Act { framework, action, .. } => {
            let own = name_of(framework);
            match action {
                Action::CreateConfigMap { .. } => format!("create map {own}"),
                Action::CreatePod { name, .. } => format!("create {name}"),
                Action::DeleteConfigMap { .. } => format!("delete map {own}"),
                Action::DeletePod { name, force: false, .. } => format!("delete {name}"),
                Action::DeletePod { name, force: true, .. } => format!("force {name}"),
                Action::ConfirmConfigMap { .. } => format!("confirm map {own}"),
                Action::ConfirmPod { name, .. } => format!("confirm {name}"),
                Action::DeleteFramework => format!("retire {own}"),
            }
        }
    }
}

pub fn name_of(framework: &Framework) -> String {
    framework.metadata.name.clone().unwrap()
}

pub fn pod_of(action: &Action) -> Option<&str> {
    match action {
        Action::CreatePod { name, .. } => Some(name),
        _ => None,
    }
}

/// A refusal by the API server.
pub fn refusal(code: u16, reason: &str, message: &str) -> Reply {
    let (reason, message) = (reason.to_owned(), message.to_owned());
    Reply::Refused(Rejection { code, reason, message, retry_after: None })
}

impl Cluster {
    /// The last report of a Framework to the controller of QueueUnits.
    pub fn last_queued(&self) -> QueuedFramework {
        self.heard
            .queued
            .last()
            .and_then(|(_, framework)| framework.clone())
            .expect("a Framework was reported")
    }
}

impl Cluster {
    /// An empty cluster whose three LISTs are complete.
    pub fn new(policy: Policy) -> Self {
        Self::with(policy, generous())
    }

    /// As [`Cluster::new`], with a budget.
    pub fn with(policy: Policy, settings: EngineSettings) -> Self {
        let mut cluster = Self::unsynced(policy, settings);
        for begin in [true, false] {
            for event in relist(begin) {
                cluster.step(event);
            }
        }
        cluster
    }

    /// An engine that has seen no event yet.
    pub fn unsynced(policy: Policy, settings: EngineSettings) -> Self {
        Cluster {
            engine: Engine::new(settings, Arc::new(policy)),
            now: Duration::from_secs(1),
            ahead_sec: 0,
            frameworks: BTreeMap::new(),
            config_maps: BTreeMap::new(),
            pods: BTreeMap::new(),
            watch: VecDeque::new(),
            open: BTreeMap::new(),
            log: Vec::new(),
            heard: Heard::default(),
            tells_time: false,
            version: 100,
            uids: 0,
            seed: 1,
        }
    }

    /// Now, on both clocks.
    pub fn now(&self) -> Now {
        let epoch: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let wall = epoch + SignedDuration::try_from(self.now).unwrap();
        Now { steady: self.now, boot: self.now, wall }
    }

    pub fn server_time(&self) -> Time {
        Time::floor(self.now().wall).plus_seconds(self.ahead_sec)
    }

    pub fn version(&mut self) -> u128 {
        self.version += 1;
        self.version
    }

    pub fn uid(&mut self, of: &str) -> String {
        self.uids += 1;
        format!("{of}#{}", self.uids)
    }

    /// The slot of a Framework that is there.
    pub fn slot(&self, framework: &str) -> Option<Slot> {
        self.frameworks.get(framework).map(|framework| Slot::of(&framework.uid))
    }

    pub fn step(&mut self, event: Event) {
        self.engine.step(self.now(), event);
    }

    /// A user creates a Framework with one TaskRole `w` and this many Tasks.
    pub fn create_framework(&mut self, name: &str, tasks: i32) {
        let uid = self.uid(name);
        let resource_version = self.version();
        let mut framework = Framework::new(
            name,
            serde_json::from_value(serde_json::json!({
                "taskRoles": [{"name": "w", "taskNumber": tasks, "task": {"pod": {"spec": {}}}}],
            }))
            .unwrap(),
        );
        framework.metadata.namespace = Some(namespace(name).to_owned());
        framework.metadata.uid = Some(uid.clone());
        framework.metadata.generation = Some(1);
        let object = FrameworkObject {
            key: Key::new(namespace(name), name),
            uid: uid.as_str().into(),
            resource_version,
            stored_bytes: 1000,
            content: Ok((Arc::new(framework), None)),
            form: Form::default(),
            ignored: None,
        };
        self.frameworks.insert(name.to_owned(), object.clone());
        self.watch.push_back(Event::Framework(Change::Applied(object)));
    }

    /// A user creates a Framework that is not to start yet: its first status is written, and nothing else.
    pub fn create_held(&mut self, name: &str, tasks: i32) {
        self.create_framework(name, tasks);
        self.edit(name, |framework| framework.spec.execution_type = ExecutionType::Create);
    }

    /// A user starts it.
    pub fn start(&mut self, name: &str) {
        self.edit(name, |framework| framework.spec.execution_type = ExecutionType::Start);
        self.deliver();
        self.turn();
    }

    /// A user changes the spec.
    pub fn edit(&mut self, name: &str, change: impl FnOnce(&mut Framework)) {
        let version = self.version();
        let object = self.frameworks.get_mut(name).unwrap();
        object.resource_version = version;
        let (framework, _) = object.content.as_mut().unwrap();
        let framework = Arc::make_mut(framework);
        change(framework);
        framework.metadata.generation = framework.metadata.generation.map(|generation| generation + 1);
        let event = Event::Framework(Change::Applied(object.clone()));
        self.watch.push_back(event);
    }

    pub fn scale(&mut self, name: &str, tasks: i32) {
        self.edit(name, |framework| framework.spec.task_roles[0].task_number = tasks);
    }

    pub fn stop(&mut self, name: &str) {
        self.edit(name, |framework| framework.spec.execution_type = ExecutionType::Stop);
    }

    /// The stored status.
    pub fn status(&self, name: &str) -> Arc<FrameworkStatus> {
        self.frameworks[name].content.as_ref().unwrap().1.clone().expect("a status")
    }

    pub fn state(&self, name: &str) -> State {
        self.status(name).state
    }

    /// Changes a Pod, and queues the watch event that shows it.
    pub fn change_pod(&mut self, name: &str, change: impl FnOnce(&mut PodFacts)) {
        let version = self.version();
        let pod = self.pods.get_mut(name).unwrap_or_else(|| panic!("no Pod {name}"));
        pod.resource_version = version;
        change(&mut pod.facts);
        let event = Event::Pod(Change::Applied(pod.clone()));
        self.watch.push_back(event);
    }

    pub fn run_pod(&mut self, name: &str) {
        self.change_pod(name, |pod| pod.phase = PodPhase::Running);
    }

    /// A Pod ends by itself.
    pub fn exit(&mut self, name: &str, code: i32) {
        let terminated = ContainerTerminated {
            reason: String::new(),
            message: String::new(),
            signal: 0,
            exit_code: code,
            finished_at: None,
        };
        let ok = code == 0;
        let end = TerminatedPod {
            phase: if ok { TerminalPhase::Succeeded } else { TerminalPhase::Failed },
            pod_name: name.to_owned(),
            reason: String::new(),
            message: String::new(),
            containers: vec![ContainerEnd { name: "main".into(), terminated: Some(terminated) }],
        };
        self.change_pod(name, |pod| {
            pod.phase = if ok { PodPhase::Succeeded } else { PodPhase::Failed };
            pod.end = Some(Box::new(end));
        });
    }

    /// Removes a Pod's object; the watch shows its last state.
    pub fn remove_pod(&mut self, name: &str) {
        let mut pod = self.pods.remove(name).unwrap();
        pod.resource_version = self.version();
        let whole = serde_json::json!({"kept": "as it came"});
        pod.last = pod.facts.deletion.map(|_| serde_json::value::to_raw_value(&whole).unwrap());
        self.watch.push_back(Event::Pod(Change::Deleted(pod)));
    }

    /// Another client deletes a Pod, which is given no time.
    pub fn delete_pod_by_others(&mut self, name: &str) {
        let at = self.server_time();
        self.change_pod(name, |pod| pod.deletion = Some(Deletion { at, grace_sec: 0 }));
        self.remove_pod(name);
    }

    /// A user deletes a Framework in the background.
    pub fn delete_framework(&mut self, name: &str) {
        let mut framework = self.frameworks.remove(name).unwrap();
        framework.resource_version = self.version();
        self.watch.push_back(Event::Framework(Change::Deleted(framework)));
    }

    /// A user removes a Framework's slot label: the watch shows a deletion of the object as it was.
    pub fn unselect(&mut self, name: &str) {
        let version = self.version();
        let framework = self.frameworks.get_mut(name).unwrap();
        framework.resource_version = version;
        self.watch.push_back(Event::Framework(Change::Deleted(framework.clone())));
    }

    /// A user removes a Pod's slot label: the watch shows a deletion of the object as it was.
    pub fn strip_label(&mut self, name: &str) {
        let version = self.version();
        let pod = self.pods.get_mut(name).unwrap();
        pod.resource_version = version;
        let event = Event::Pod(Change::Deleted(pod.clone()));
        pod.label = None;
        self.watch.push_back(event);
    }

    /// Delivers the watch events that wait.
    pub fn deliver(&mut self) {
        while let Some(event) = self.watch.pop_front() {
            self.step(event);
        }
    }

    /// Lets the engine decide, and takes its requests. Answers only the first request for the time, because
    /// nothing is decided without it.
    pub fn turn(&mut self) {
        self.decide();
        let asked = self.open.iter().find(|(_, request)| matches!(request, Request::AskTime));
        if let Some((&ticket, _)) = asked.filter(|_| !self.tells_time) {
            self.tells_time = true;
            self.open.remove(&ticket);
            self.log.retain(|words| words != "time");
            let server = Some(self.server_time());
            self.step(Event::Reply { ticket, reply: Reply::Done, server });
            self.decide();
        }
    }

    fn decide(&mut self) {
        self.seed += 1;
        let seed = self.seed << 64 | self.seed;
        for effect in self.engine.turn(self.now(), seed) {
            match effect {
                Effect::Send { ticket, request, .. } => {
                    self.log.push(words(&request));
                    assert!(self.open.insert(ticket, request).is_none());
                }
                Effect::Publish { reports, .. } => self.heard.reports.extend(reports),
                Effect::WriteHistory { lines, before } => {
                    assert!(before.is_none_or(|ticket| !self.open.contains_key(&ticket)), "logged too late");
                    self.heard.logged.extend(lines.into_iter().map(|line| (line, before)));
                }
                Effect::Trace(spans) => self.heard.spans.extend(spans),
                Effect::Measure(measure) => self.heard.measured.push(measure),
                Effect::Queued { key, framework, has_strays, left_creates } => {
                    self.heard.queued.push((key, framework));
                    self.heard.left.push((has_strays, left_creates));
                }
                Effect::StoreWentBack { seen, found } => self.heard.went_back.push((seen, found)),
                Effect::Drained(slots) => {
                    self.heard.drained_slots = self.heard.drained_slots.or(slots);
                    self.heard.drained = self.heard.drained_slots == Slots::ALL;
                }
                Effect::TimeHeard { .. } => {}
                Effect::Listed(slots) => self.heard.listed = self.heard.listed.or(slots),
            }
        }
    }

    /// Lets time pass, turning whenever the engine wants it; answers nothing.
    pub fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(wake) = self.engine.next_wake().filter(|wake| *wake <= end) {
            self.now = self.now.max(wake);
            self.turn();
        }
        self.now = end;
        self.turn();
    }

    /// The requests that wait for an answer, in words.
    pub fn waiting(&self) -> Vec<String> {
        self.open.values().map(words).collect()
    }

    pub fn ticket(&self, words_wanted: &str) -> Ticket {
        let found = self.open.iter().find(|(_, request)| words(request).starts_with(words_wanted));
        *found.unwrap_or_else(|| panic!("no {words_wanted} among {:?}", self.waiting())).0
    }

    /// Answers a request in a given way.
    pub fn answer(&mut self, wanted: &str, reply: Reply) -> Request {
        let ticket = self.ticket(wanted);
        let request = self.open.remove(&ticket).unwrap();
        let server = (!matches!(reply, Reply::NotSent(_) | Reply::Unknown(_))).then(|| self.server_time());
        self.step(Event::Reply { ticket, reply, server });
        request
    }

    /// Serves a request as an API server does, and answers it.
    pub fn serve(&mut self, wanted: &str) {
        let request = self.open[&self.ticket(wanted)].clone();
        let reply = self.perform(&request);
        self.answer(wanted, reply);
    }

    /// Serves a request, and loses the reply.
    pub fn serve_silently(&mut self, wanted: &str) {
        let request = self.open[&self.ticket(wanted)].clone();
        self.perform(&request);
        self.answer(wanted, Reply::Unknown("timed out".into()));
    }

    /// Serves everything that waits, in order.
    pub fn serve_all(&mut self) {
        for wanted in self.waiting() {
            self.serve(&wanted);
        }
    }

    /// Turns, serves and delivers until nothing more happens without time passing.
    pub fn settle(&mut self) {
        loop {
            self.turn();
            if self.open.is_empty() && self.watch.is_empty() {
                return;
            }
            self.serve_all();
            self.deliver();
        }
    }

    /// Lets time pass, and settles whenever there is something to do.
    pub fn live(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            self.settle();
            match self.engine.next_wake().filter(|wake| *wake <= end) {
                Some(wake) => self.now = self.now.max(wake),
                None => break,
            }
        }
        self.now = end;
        self.settle();
    }

    /// How often a request was sent.
    pub fn count(&self, wanted: &str) -> usize {
        self.log.iter().filter(|line| line.starts_with(wanted)).count()
    }

    /// Brings a Framework with this many Tasks to the state where all its Pods run and are recorded.
    pub fn running(&mut self, name: &str, tasks: i32) {
        self.create_framework(name, tasks);
        self.deliver();
        self.live(Duration::from_secs(2));
        for index in 0..tasks {
            self.run_pod(&format!("{name}-w-{index}"));
        }
        self.deliver();
        self.live(Duration::from_secs(2));
        assert_eq!(self.state(name), State::AttemptRunning);
        self.log.clear();
    }

    /// Brings a Framework with this many Tasks to the state where the POSTs of its Pods wait for their
    /// answer.
    pub fn creating(&mut self, name: &str, tasks: i32) {
        self.create_framework(name, tasks);
        self.deliver();
        self.serve_until(&format!("create {name}-w"));
    }

    /// Serves all requests until one that begins so waits for its answer.
    pub fn serve_until(&mut self, wanted: &str) {
        for _ in 0..1000 {
            self.pass(Duration::from_millis(50));
            if self.open.values().any(|request| words(request).starts_with(wanted)) {
                return;
            }
            self.serve_all();
            self.deliver();
        }
        panic!("there is no {wanted}: {:?}", self.log);
    }
}

pub fn not_found() -> Reply {
    refusal(404, "NotFound", "not found")
}

impl Cluster {
    /// Lists all objects again, without the beginnings and ends of the LISTs.
    pub fn list_objects(&mut self) {
        self.watch.clear();
        for object in self.frameworks.values().cloned().collect::<Vec<_>>() {
            self.step(Event::Framework(Change::Listed(object)));
        }
        for object in self.config_maps.values().cloned().collect::<Vec<_>>() {
            self.step(Event::ConfigMap(Change::Listed(object)));
        }
        for object in self.pods.values().cloned().collect::<Vec<_>>() {
            self.step(Event::Pod(Change::Listed(object)));
        }
    }
}

/// The beginnings, or the ends, of the three LISTs.
pub fn relist(begin: bool) -> [Event; 3] {
    if begin {
        [
            Event::Framework(Change::Restarted),
            Event::ConfigMap(Change::Restarted),
            Event::Pod(Change::Restarted),
        ]
    } else {
        [Event::Framework(Change::Synced), Event::ConfigMap(Change::Synced), Event::Pod(Change::Synced)]
    }
}
