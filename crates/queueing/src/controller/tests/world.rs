//! The controller, its API server, and the requests between them.

use super::*;

/// A request on its way, or its reply.
#[derive(Debug)]
pub(super) enum Transit {
    /// Sent in that second.
    There(Ticket, QueueRequest, u64),
    Back(Ticket, Reply),
}

pub(super) struct World {
    pub(super) server: Server,
    pub(super) controller: QueueController,
    pub(super) frameworks: FrameworkUnits,
    pub(super) transit: Vec<Transit>,
    pub(super) second: u64,
    pub(super) rng: fastrand::Rng,
    /// The admitted jobs, with the admitted generation.
    pub(super) admitted: BTreeMap<Key, i64>,
    /// The same of a controller that has died: its requests may land until that second.
    pub(super) late: BTreeMap<Key, (i64, u64)>,
    /// The admitted growths of each job.
    pub(super) grown: BTreeMap<Key, Vec<i64>>,
    /// The removed Tasks of growths whose Pods remain, by generation.
    pub(super) lingering: BTreeMap<Key, BTreeMap<i64, u64>>,
    /// The stored reasons of units that were reported.
    pub(super) reported: Vec<String>,
    /// The Events about jobs that stay suspended, and about units whose status is refused.
    pub(super) said: Vec<String>,
    /// Jobs that are gone, and whether their Pods run on.
    pub(super) strays: BTreeMap<Key, bool>,
}

impl World {
    pub(super) fn new(seed: u64, limit: u64) -> Self {
        let mut world = World {
            server: Server { limit, ..Server::default() },
            controller: QueueController::new(settings(), seed),
            frameworks: FrameworkUnits::new(settings(), seed),
            transit: Vec::new(),
            second: 0,
            rng: fastrand::Rng::with_seed(seed),
            admitted: BTreeMap::new(),
            late: BTreeMap::new(),
            grown: BTreeMap::new(),
            lingering: BTreeMap::new(),
            reported: Vec::new(),
            said: Vec::new(),
            strays: BTreeMap::new(),
        };
        world.listed();
        world
    }

    /// All that does not change is listed, and no units.
    pub(super) fn listed(&mut self) {
        let queue = QueueObject {
            key: key("q"),
            uid: "q".into(),
            resource_version: 1,
            counts: self.server.queue_writes.last().map(|(_, counts)| *counts),
            policy: QueuePolicy::Priority,
            priority: None,
            class: None,
        };
        let hard = [("cpu".to_owned(), Amount::units(self.server.limit.try_into().unwrap()))];
        let limits = QuotaFacts { hard: hard.into(), ..Default::default() };
        let quota =
            QuotaObject { key: key("quota"), resource_version: 1, limits: Some(limits), counted: true };
        self.controller.step(QueueEvent::Queue(Change::Listed(queue)));
        self.controller.step(QueueEvent::Quota(Change::Listed(quota)));
        self.controller.step(QueueEvent::Queue(Change::Synced));
        self.controller.step(QueueEvent::Quota(Change::Synced));
        self.controller.step(QueueEvent::Class(Change::Synced));
        self.controller.step(QueueEvent::Pod(Change::Synced));
        self.controller.step(QueueEvent::Declared(batch("Job"), Change::Synced.into()));
        self.controller.step(QueueEvent::Attempt(Change::Synced));
        self.relist();
    }

    pub(super) fn relist(&mut self) {
        self.server.news.clear();
        for change in self.list() {
            self.controller.step(QueueEvent::Unit(change));
        }
        self.relist_frameworks();
    }

    fn relist_frameworks(&mut self) {
        self.server.framework_news.clear();
        for change in self.list() {
            self.frameworks.step(change);
        }
    }

    /// A LIST of the units.
    fn list(&self) -> Vec<Change<Arc<UnitObject>>> {
        let units = self.server.units.values().map(|unit| Change::Listed(Arc::new(unit.clone())));
        [Change::Restarted].into_iter().chain(units).chain([Change::Synced]).collect()
    }

    /// Shows the next change of a unit to one of the sides.
    pub(super) fn show_queues(&mut self) -> bool {
        let Some(change) = self.server.news.pop_front() else { return false };
        self.controller.step(QueueEvent::Unit(change.map(Arc::new)));
        true
    }

    pub(super) fn show_frameworks(&mut self) -> bool {
        let Some(change) = self.server.framework_news.pop_front() else { return false };
        self.frameworks.step(change.map(Arc::new));
        true
    }

    /// The ConfigMap of a job is shown.
    pub(super) fn show_attempt(&mut self, job: &str) -> OwnerLink {
        let map = OwnerLink {
            key: key(&format!("{job}-attempt")),
            resource_version: self.server.stamp(),
            uid: format!("map-{job}").into(),
            controller: Some(format!("uid-{job}").into()),
            slot: None,
        };
        self.controller.step(QueueEvent::Attempt(Change::Applied(map.clone())));
        map
    }

    /// Shows all changes of units to both sides.
    pub(super) fn show(&mut self) {
        while self.show_queues() || self.show_frameworks() {}
    }

    fn is_shown(&self) -> bool {
        self.server.news.is_empty() && self.server.framework_news.is_empty()
    }

    /// Hands a reply to the side that sent the request.
    pub(super) fn reply(&mut self, ticket: Ticket, reply: Reply) {
        let now = self.now();
        if self.frameworks.sent(ticket) {
            self.frameworks.replied(now, ticket, reply);
        } else {
            self.controller.replied(now, now.wall, ticket, reply);
        }
    }

    /// The status of the Queue, as stored.
    pub(super) fn counts(&self) -> Option<(usize, usize)> {
        self.server.queue_writes.last().map(|(_, counts)| (counts.waiting, counts.released))
    }

    pub(super) fn now(&self) -> Now {
        let steady = Duration::from_secs(self.second);
        Now { steady, boot: steady, wall: at(self.second) }
    }

    pub(super) fn report(&mut self, job: &Key) {
        let Some((stage, asks)) = self.server.jobs.get(job).copied() else {
            let has_strays = self.strays.get(job).copied().unwrap_or(false);
            return self.frameworks.framework(job.clone(), None, has_strays, false);
        };
        let mut held: BTreeMap<_, _> = [(None, Some(cpu(asks)))].into();
        for (generation, (_, asks)) in self.server.growths.get(job).into_iter().flatten() {
            held.insert(Some(*generation), Some(cpu(*asks)));
        }
        for (generation, asks) in self.lingering.get(job).into_iter().flatten() {
            held.insert(Some(*generation), Some(cpu(*asks)));
        }
        let grown = |(generation, (since, asks)): (&i64, &(u64, u64))| {
            (*generation, Growth { since: at(*since), requests: Ok(cpu(*asks)) })
        };
        let consumer = Consumer {
            uid: format!("uid-{}", job.name).into(),
            resource_version: 0,
            generation: self.server.generations.get(job).copied().unwrap_or(1),
            created: at(self.server.created.get(job).copied().unwrap_or(0)),
            resumed_by: None,
            queue: Some("q".into()),
            class: None,
            requests: Ok(cpu(asks)),
            growths: self.server.growths.get(job).into_iter().flatten().map(grown).collect(),
            held,
            stage,
            deleting: false,
        };
        self.frameworks.framework(job.clone(), Some(consumer), false, false);
    }

    pub(super) fn submit(&mut self, name: &str, asks: u64) {
        self.server.jobs.insert(key(name), (Stage::Waiting, asks));
        self.server.created.entry(key(name)).or_insert(self.second);
        self.report(&key(name));
    }

    pub(super) fn turn(&mut self) {
        let now = self.now();
        let mut effects = self.frameworks.turn(now);
        effects.extend(self.controller.turn(now, now.wall));
        for effect in effects {
            match effect {
                QueueEffect::Admit { key, admission: Admission::Released { generation }, .. } => {
                    self.admitted.insert(key, generation);
                }
                QueueEffect::Admit { key, .. } => _ = self.admitted.remove(&key),
                QueueEffect::AdmitGrowths { key, growths, .. } => _ = self.grown.insert(key, growths),
                QueueEffect::StaysSuspended { job, report, .. } => {
                    self.said.push(format!("{} {}: {}", job.name, report.reason, report.note));
                }
                QueueEffect::StatusStored { unit, reason: Reason::Waiting, note: Some(note), .. } => {
                    self.said.push(format!("{}: {note}", unit.name));
                }
                QueueEffect::StatusStored { unit, reason, .. } => {
                    self.reported.push(format!("{} {}", unit.name, reason.as_str()));
                }
                QueueEffect::Lifetime { .. } => {}
            }
        }
        while let Some((ticket, request, _)) = self.controller.next_request(now, now.wall) {
            self.transit.push(Transit::There(ticket, request, self.second));
        }
        while let Some((ticket, request, _)) = self.frameworks.next_request(now) {
            self.transit.push(Transit::There(ticket, request, self.second));
        }
    }

    /// Requests of a side that dies may still land, and their replies are lost.
    fn orphan(&mut self, is_of_it: impl Fn(&Self, Ticket) -> bool) {
        let mut transit = std::mem::take(&mut self.transit);
        transit.retain_mut(|transit| match transit {
            Transit::There(ticket, ..) if is_of_it(self, *ticket) => {
                *ticket = Ticket(0);
                true
            }
            Transit::Back(ticket, _) => !is_of_it(self, *ticket),
            Transit::There(..) => true,
        });
        self.transit = transit;
    }

    /// Both sides die, and others start. Requests of the first may still land.
    pub(super) fn restart(&mut self) {
        self.restart_frameworks();
        self.restart_queues();
    }

    /// The side of the namespace dies, and another one starts.
    pub(super) fn restart_queues(&mut self) {
        self.orphan(|world, ticket| world.controller.sent(ticket));
        self.controller = QueueController::new(settings(), self.rng.u64(..));
        self.listed();
    }

    /// The side of the Frameworks dies, and another one starts.
    pub(super) fn restart_frameworks(&mut self) {
        self.orphan(|world, ticket| world.frameworks.sent(ticket));
        let until = self.second + LIFETIME.as_secs();
        for (job, generation) in std::mem::take(&mut self.admitted) {
            self.late.insert(job, (generation, until));
        }
        self.frameworks = FrameworkUnits::new(settings(), self.rng.u64(..));
        let jobs: Vec<Key> = self.server.jobs.keys().chain(self.strays.keys()).cloned().collect();
        jobs.iter().for_each(|job| self.report(job));
        self.relist_frameworks();
    }

    /// Time passes, and requests of a dead controller end after their lifetime.
    pub(super) fn pass(&mut self, seconds: u64) {
        self.second += seconds;
        self.server.second = self.second;
        let ended = |sent: &u64| sent + LIFETIME.as_secs() <= self.second;
        self.transit.retain(|transit| !matches!(transit, Transit::There(Ticket(0), _, sent) if ended(sent)));
    }

    /// As [`World::settle`], but requests with this summary stay on their way.
    pub(super) fn settle_except(&mut self, held: &str) -> Vec<(Ticket, QueueRequest)> {
        let mut stay = Vec::new();
        loop {
            self.turn();
            let transit = std::mem::take(&mut self.transit);
            if transit.is_empty() && self.is_shown() {
                return stay;
            }
            for transit in transit {
                match transit {
                    Transit::There(ticket, request, _) if summary(&request) == held => {
                        stay.push((ticket, request));
                    }
                    transit => self.arrive(transit),
                }
            }
            self.show();
        }
    }

    /// Delivers requests and replies until there are no more. Returns the summaries of the requests.
    pub(super) fn settle(&mut self) -> Vec<String> {
        let mut requests = Vec::new();
        loop {
            self.turn();
            let transit = std::mem::take(&mut self.transit);
            if transit.is_empty() && self.is_shown() {
                return requests;
            }
            for transit in transit {
                let Transit::There(_, request, _) = &transit else { continue };
                if !matches!(request, QueueRequest::PatchQueue { .. }) {
                    requests.push(summary(request));
                }
                self.arrive(transit);
            }
            self.show();
        }
    }

    /// One thing that may random_step next.
    pub(super) fn random_step(&mut self) {
        match self.rng.u32(0..12) {
            0..=3 if !self.transit.is_empty() => {
                let chosen = self.rng.usize(0..self.transit.len());
                let transit = self.transit.swap_remove(chosen);
                self.travel(transit);
            }
            4..=6 => _ = if self.rng.bool() { self.show_queues() } else { self.show_frameworks() },
            7 | 8 => {
                let names: Vec<Key> = self.server.units.keys().cloned().collect();
                if let Some(name) = self.rng.choice(&names) {
                    self.server.set_priority(name, self.rng.i32(0..5));
                }
            }
            9 => {
                let admitted: Vec<Key> = self.admitted.keys().chain(self.late.keys()).cloned().collect();
                if let Some(job) = self.rng.choice(&admitted) {
                    self.advance(job);
                }
            }
            10 if self.rng.u32(0..20) == 0 => self.relist(),
            11 if self.rng.u32(0..40) == 0 => match self.rng.u32(0..3) {
                0 => self.restart_queues(),
                1 => self.restart_frameworks(),
                _ => self.restart(),
            },
            _ => {
                let seconds = self.rng.u64(0..3);
                self.pass(seconds);
            }
        }
        self.turn();
    }

    pub(super) fn finish(&mut self, name: &str) {
        self.server.jobs.get_mut(&key(name)).unwrap().0 = Stage::Finished;
        self.report(&key(name));
    }

    /// A waiting job begins if its present generation was admitted; a started one ends.
    pub(super) fn advance(&mut self, job: &Key) {
        let current = self.server.generations.get(job).copied().unwrap_or(1);
        let is_admitted = self.admitted.get(job) == Some(&current);
        let was_admitted = self.late.get(job).is_some_and(|late| late.0 == current && self.second < late.1);
        let entry = self.server.jobs.get_mut(job).unwrap();
        entry.0 = match entry.0 {
            Stage::Waiting if is_admitted || was_admitted => Stage::Started,
            Stage::Waiting => Stage::Waiting,
            Stage::Started | Stage::Finished => Stage::Finished,
        };
        self.server.check();
        self.report(job);
    }

    /// A user changes the requests of a job.
    pub(super) fn resize(&mut self, job: &Key, asks: u64) {
        self.server.jobs.get_mut(job).unwrap().1 = asks;
        *self.server.generations.entry(job.clone()).or_insert(1) += 1;
        self.report(job);
    }

    /// A user deletes a unit.
    pub(super) fn delete(&mut self, unit: &Key) {
        if let Some(known) = self.server.units.get_mut(unit) {
            known.deleting = true;
            self.server.changed(unit);
        }
    }

    pub(super) fn arrive(&mut self, transit: Transit) {
        let Transit::There(ticket, request, _) = transit else { return };
        self.answer(ticket, &request);
    }

    /// A request arrives, and its reply comes back.
    pub(super) fn answer(&mut self, ticket: Ticket, request: &QueueRequest) {
        let reply = self.server.take(request);
        self.reply(ticket, reply);
    }

    pub(super) fn travel(&mut self, transit: Transit) {
        let fate = self.rng.u32(0..10);
        match transit {
            // It never left.
            Transit::There(ticket, ..) if fate == 0 => {
                self.transit.push(Transit::Back(ticket, Reply::NotSent(String::new())));
            }
            // Its reply is lost.
            Transit::There(ticket, request, _) if fate == 1 => {
                self.server.take(&request);
                self.transit.push(Transit::Back(ticket, Reply::Unknown(String::new())));
            }
            // The same, and it is still on its way.
            Transit::There(ticket, request, sent) if fate == 2 => {
                self.transit.push(Transit::There(Ticket(0), request, sent));
                self.transit.push(Transit::Back(ticket, Reply::Unknown(String::new())));
            }
            Transit::There(ticket, request, _) => {
                let reply = self.server.take(&request);
                self.transit.push(Transit::Back(ticket, reply));
            }
            Transit::Back(Ticket(0), _) => {}
            Transit::Back(ticket, reply) => self.reply(ticket, reply),
        }
    }

    pub(super) fn finished(&self) -> usize {
        self.server.jobs.values().filter(|(stage, _)| *stage == Stage::Finished).count()
    }
}

/// A request in few words.
pub(super) fn summary(request: &QueueRequest) -> String {
    match request {
        QueueRequest::PutStatus { unit, status, .. } => {
            format!("{} {:?} {:?}", unit.name, status.phase.unwrap(), status.reason.unwrap())
        }
        QueueRequest::CreateUnit(creation) => format!("create {}", creation.job.name),
        QueueRequest::DeleteUnit { unit, .. } => format!("delete {}", unit.name),
        QueueRequest::RemoveFinalizer { unit, .. } => format!("remove finalizer of {}", unit.name),
        QueueRequest::ReturnCapacity { unit, held, .. } => format!("{} keeps {held}", unit.name),
        QueueRequest::BindUnit { unit, framework, .. } => format!("{} is for {framework}", unit.name),
        QueueRequest::ListUnits { after, .. } => format!("list after {after:?}"),
        QueueRequest::ResumeJob { job, with, .. } => {
            format!("resume {} at {}", job.name, with.resource_version)
        }
        QueueRequest::LabelTemplates { job, resource_version, labels, .. } => {
            format!("label JobSet {} at {resource_version} for {}", job.name, labels.job)
        }
        other => format!("{other:?}"),
    }
}
