//! The API server that the desk meets, and what happens there.

use super::*;
use crate::object::Page;

/// What the API server has, and what it has been asked.
#[derive(Debug, Default)]
pub(super) struct Server {
    pub(super) version: u128,
    pub(super) units: BTreeMap<Key, UnitObject>,
    /// What the watch will show.
    pub(super) news: VecDeque<Change<UnitObject>>,
    /// Jobs that have not ended, and what they ask for.
    pub(super) jobs: BTreeMap<Key, (Stage, u64)>,
    /// What they have grown by since: by generation, since which second, and how much.
    pub(super) growths: BTreeMap<Key, BTreeMap<i64, (u64, u64)>>,
    pub(super) limit: u64,
    /// By name and UID: a unit that is made anew is another one.
    pub(super) releases: BTreeMap<(Key, Arc<str>), usize>,
    /// The generation of the spec of jobs that were changed.
    pub(super) generations: BTreeMap<Key, i64>,
    /// In which second jobs were created.
    pub(super) created: BTreeMap<Key, u64>,
    pub(super) refused: usize,
    pub(super) patches: usize,
    /// What was written of the Queue, and when.
    pub(super) fillings: Vec<(u64, Filling)>,
    pub(super) second: u64,
}

impl Server {
    pub(super) fn stamp(&mut self) -> u128 {
        self.version += 1;
        self.version
    }

    pub(super) fn changed(&mut self, name: &Key) {
        let version = self.stamp();
        let unit = self.units.get_mut(name).unwrap();
        unit.resource_version = version;
        if unit.deleting && unit.finalizers.is_empty() {
            let unit = self.units.remove(name).unwrap();
            self.news.push_back(Change::Deleted(unit));
        } else {
            let unit = unit.clone();
            self.news.push_back(Change::Applied(unit));
        }
    }

    /// A user changes a priority: refused once the unit is released, as the CRD's rule says.
    pub(super) fn prioritise(&mut self, name: &Key, priority: i32) {
        let Some(unit) = self.units.get_mut(name) else { return };
        if unit.standing.phase == Some(Phase::Dequeued) {
            return;
        }
        self.patches += 1;
        unit.priority = Some(priority);
        self.changed(name);
    }

    pub(super) fn refuse(&mut self, code: u16) -> Reply {
        self.refused += 1;
        let rejection = Rejection { code, reason: String::new(), message: String::new(), retry_after: None };
        Reply::Refused(rejection)
    }

    pub(super) fn guarded(&self, name: &Key, uid: &str, version: Option<u128>) -> Result<(), u16> {
        let unit = self.units.get(name).ok_or(404_u16)?;
        let same = *unit.uid == *uid && version.is_none_or(|version| version == unit.resource_version);
        if same { Ok(()) } else { Err(409) }
    }

    pub(super) fn take(&mut self, request: &Request) -> Reply {
        let checked = match request {
            Request::PutStatus { unit, uid, resource_version, .. }
            | Request::LetGo { unit, uid, resource_version, .. } => {
                self.guarded(unit, uid, Some(*resource_version))
            }
            Request::DeleteUnit { unit, uid } => self.guarded(unit, uid, None),
            Request::GetUnit { unit } if !self.units.contains_key(unit) => Err(404),
            Request::CreateUnit { unit, .. } if self.units.contains_key(unit) => Err(409),
            _ => Ok(()),
        };
        if let Err(code) = checked {
            return self.refuse(code);
        }
        let name = match request {
            Request::CreateUnit { .. } => self.create(request),
            Request::PutStatus { unit, uid, standing, .. } => {
                let stored = &mut self.units.get_mut(unit).unwrap().standing;
                assert_ne!(stored.phase, Some(Phase::Dequeued), "{unit} is written after its release");
                let order = [None, Some(Phase::Enqueued), Some(Phase::Dequeued)];
                let place = |phase| order.iter().position(|known| *known == phase).unwrap();
                assert!(place(standing.phase).abs_diff(place(stored.phase)) <= 1, "{stored:?} {standing:?}");
                stored.clone_from(standing);
                if standing.phase == Some(Phase::Dequeued) {
                    *self.releases.entry((unit.clone(), Arc::clone(uid))).or_default() += 1;
                }
                unit.clone()
            }
            Request::DeleteUnit { unit, .. } => {
                self.units.get_mut(unit).unwrap().deleting = true;
                self.changed(unit);
                return Reply::Done;
            }
            Request::LetGo { unit, finalizers, .. } => {
                self.units.get_mut(unit).unwrap().finalizers.clone_from(finalizers);
                self.changed(unit);
                return Reply::Done;
            }
            Request::GetUnit { unit } => {
                return Reply::Object(Object::Unit(Box::new(self.units[unit].clone())));
            }
            Request::PatchQueue { filling, .. } => {
                self.fillings.push((self.second, *filling));
                return Reply::Done;
            }
            Request::ListUnits { after, .. } => {
                let rest = self
                    .units
                    .values()
                    .filter(|unit| after.as_ref().is_none_or(|last| unit.key.name > *last));
                let units: Vec<UnitObject> = rest.take(3).cloned().collect();
                let after = units.last().filter(|_| units.len() == 3).map(|unit| unit.key.name.to_string());
                return Reply::Object(Object::Page(Page { units, after }));
            }
            Request::ResumeJob { .. } | Request::ResumeJobSet { .. } => unreachable!("there are no Jobs"),
        };
        self.changed(&name);
        self.judge();
        Reply::Object(Object::Unit(Box::new(self.units[&name].clone())))
    }

    pub(super) fn create(&mut self, request: &Request) -> Key {
        let Request::CreateUnit { unit, kind, job, uid, queue, priority, ask, .. } = request else {
            unreachable!()
        };
        let (name, version) = (unit.clone(), self.stamp());
        let unit = UnitObject {
            key: name.clone(),
            uid: format!("unit-{version}").into(),
            resource_version: version,
            created: at(self.second),
            deleting: false,
            finalizers: vec![FINALIZER.to_owned()],
            owner: Some(Arc::clone(uid)),
            consumer: ConsumerKey::new(*kind, job.clone()),
            consumer_uid: Some(Arc::clone(uid)),
            queue: Arc::clone(queue),
            priority: *priority,
            class: None,
            ask: Ok(ask.clone()),
            standing: UnitStanding::default(),
        };
        self.units.insert(name.clone(), unit);
        name
    }

    /// What is released and has not ended fits, and nothing runs with more than was released for it.
    pub(super) fn judge(&self) {
        let mut sum = Amount::ZERO;
        for unit in self.units.values().filter(|unit| unit.standing.phase == Some(Phase::Dequeued)) {
            let job = &unit.consumer.key;
            let (stage, asks) = self.jobs[job];
            let growth = unit.consumer.generation_of(&unit.key);
            let grown = |generation| self.growths.get(job).and_then(|growths| growths.get(&generation));
            let asks = growth.map_or(asks, |generation| grown(generation).map_or(0, |grown| grown.1));
            let given = unit.ask.clone().unwrap_or_default();
            sum = match stage {
                Stage::Waiting if growth.is_none() => sum.plus(given.get("cpu")),
                Stage::Waiting | Stage::Started => sum.plus(cpu(asks).get("cpu")),
                Stage::Finished => sum,
            };
        }
        assert!(sum <= cpu(self.limit).get("cpu"), "{sum} of {} are released: {:#?}", self.limit, self.units);
        for (job, (_, asks)) in self.jobs.iter().filter(|(_, (stage, _))| *stage == Stage::Started) {
            let unit = self.units.get(&key(&format!("framework-{}", job.name)));
            let released = unit.filter(|unit| unit.standing.phase == Some(Phase::Dequeued));
            let given = released.and_then(|unit| unit.ask.clone().ok()).unwrap_or_default();
            assert!(cpu(*asks).get("cpu") <= given.get("cpu"), "{job} runs with {given}, and asks {asks}");
        }
        let twice = self.releases.iter().find(|(_, times)| **times > 1);
        assert_eq!(twice, None, "released twice");
    }
}

/// A request on its way, or its reply.
#[derive(Debug)]
pub(super) enum Transit {
    /// Sent in that second.
    There(Ticket, Request, u64),
    Back(Ticket, Reply),
}

pub(super) struct World {
    pub(super) server: Server,
    pub(super) desk: QueueController,
    pub(super) transit: Vec<Transit>,
    pub(super) second: u64,
    pub(super) rng: fastrand::Rng,
    /// Who was told last that it may begin, and in which generation.
    pub(super) admitted: BTreeMap<Key, i64>,
    /// The same of a controller that has died: what it has sent may land until then.
    pub(super) late: BTreeMap<Key, (i64, u64)>,
    /// Which growths each job was last told that it may begin.
    pub(super) grown: BTreeMap<Key, Vec<i64>>,
}

impl World {
    pub(super) fn new(seed: u64, limit: u64) -> Self {
        let settings = Settings { reserve_after: Duration::from_secs(60), request_lifetime: LIFETIME };
        let mut world = World {
            server: Server { limit, ..Server::default() },
            desk: QueueController::new(settings, seed),
            transit: Vec::new(),
            second: 0,
            rng: fastrand::Rng::with_seed(seed),
            admitted: BTreeMap::new(),
            late: BTreeMap::new(),
            grown: BTreeMap::new(),
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
            filling: self.server.fillings.last().map(|(_, filling)| *filling),
            policy: QueuePolicy::Priority,
            priority: None,
            class: None,
        };
        let hard = [("cpu".to_owned(), Amount::units(self.server.limit.try_into().unwrap()))];
        let limits = QuotaFacts { hard: hard.into(), ..Default::default() };
        let quota =
            QuotaObject { key: key("quota"), resource_version: 1, limits: Some(limits), counted: true };
        self.desk.step(QueueEvent::Queue(Change::Listed(queue)));
        self.desk.step(QueueEvent::Quota(Change::Listed(quota)));
        self.desk.step(QueueEvent::Queue(Change::Synced));
        self.desk.step(QueueEvent::Quota(Change::Synced));
        self.desk.step(QueueEvent::Class(Change::Synced));
        self.desk.step(QueueEvent::Pod(Change::Synced));
        self.desk.step(QueueEvent::Job(Change::Synced));
        self.relist();
    }

    pub(super) fn relist(&mut self) {
        self.server.news.clear();
        self.desk.step(QueueEvent::Unit(Change::Restarted));
        for unit in self.server.units.values() {
            self.desk.step(QueueEvent::Unit(Change::Listed(unit.clone())));
        }
        self.desk.step(QueueEvent::Unit(Change::Synced));
    }

    /// The status of the Queue, as stored.
    pub(super) fn filling(&self) -> Option<(usize, usize)> {
        self.server.fillings.last().map(|(_, filling)| (filling.waiting, filling.released))
    }

    pub(super) fn now(&self) -> Now {
        let steady = Duration::from_secs(self.second);
        Now { steady, boot: steady, wall: at(self.second) }
    }

    pub(super) fn tell(&mut self, job: &Key) {
        let (stage, asks) = self.server.jobs[job];
        let grown = |(generation, (since, asks)): (&i64, &(u64, u64))| {
            (*generation, Growth { since: at(*since), ask: Ok(cpu(*asks)) })
        };
        let consumer = Consumer {
            uid: format!("uid-{}", job.name).into(),
            resource_version: 0,
            generation: self.server.generations.get(job).copied().unwrap_or(1),
            created: at(self.server.created.get(job).copied().unwrap_or(0)),
            queue: Some("q".into()),
            class: None,
            ask: Ok(cpu(asks)),
            growths: self.server.growths.get(job).into_iter().flatten().map(grown).collect(),
            stage,
            deleting: false,
        };
        self.desk.framework(job.clone(), Some(consumer));
    }

    pub(super) fn submit(&mut self, name: &str, asks: u64) {
        self.server.jobs.insert(key(name), (Stage::Waiting, asks));
        self.server.created.entry(key(name)).or_insert(self.second);
        self.tell(&key(name));
    }

    pub(super) fn turn(&mut self) {
        let now = self.now();
        for outcome in self.desk.turn(now, now.wall) {
            match outcome {
                Outcome::Admit { key, admission: Admission::Released { generation }, .. } => {
                    self.admitted.insert(key, generation);
                }
                Outcome::Admit { key, .. } => _ = self.admitted.remove(&key),
                Outcome::AdmitGrowths { key, growths, .. } => _ = self.grown.insert(key, growths),
                Outcome::Tell { .. } => {}
            }
        }
        while let Some((ticket, request)) = self.desk.next_request(now, now.wall) {
            self.transit.push(Transit::There(ticket, request, self.second));
        }
    }

    /// The controller dies, and another one starts: what the first has sent may still land.
    pub(super) fn restart(&mut self) {
        self.transit.retain_mut(|transit| match transit {
            Transit::There(ticket, ..) => {
                *ticket = Ticket(0);
                true
            }
            Transit::Back(..) => false,
        });
        let until = self.second + LIFETIME.as_secs();
        for (job, generation) in std::mem::take(&mut self.admitted) {
            self.late.insert(job, (generation, until));
        }
        let settings = Settings { reserve_after: Duration::from_secs(60), request_lifetime: LIFETIME };
        self.desk = QueueController::new(settings, self.rng.u64(..));
        let jobs: Vec<Key> = self.server.jobs.keys().cloned().collect();
        jobs.iter().for_each(|job| self.tell(job));
        self.listed();
    }

    /// Time passes, and requests do not live for ever.
    pub(super) fn pass(&mut self, seconds: u64) {
        self.second += seconds;
        self.server.second = self.second;
        let ended = |sent: &u64| sent + LIFETIME.as_secs() <= self.second;
        self.transit.retain(|transit| !matches!(transit, Transit::There(Ticket(0), _, sent) if ended(sent)));
    }

    /// All that is on its way arrives, and what comes of it, but requests that read so stay on their way.
    pub(super) fn calm_but(&mut self, held: &str) -> Vec<(Ticket, Request)> {
        let mut stay = Vec::new();
        loop {
            self.turn();
            let transit = std::mem::take(&mut self.transit);
            if transit.is_empty() && self.server.news.is_empty() {
                return stay;
            }
            for transit in transit {
                match transit {
                    Transit::There(ticket, request, _) if told(&request) == held => {
                        stay.push((ticket, request));
                    }
                    transit => self.arrive(transit),
                }
            }
            while let Some(change) = self.server.news.pop_front() {
                self.desk.step(QueueEvent::Unit(change));
            }
        }
    }

    /// All that is on its way arrives, and what comes of it, until nothing more does. What was asked.
    pub(super) fn calm(&mut self) -> Vec<String> {
        let mut requests = Vec::new();
        loop {
            self.turn();
            let transit = std::mem::take(&mut self.transit);
            if transit.is_empty() && self.server.news.is_empty() {
                return requests;
            }
            for transit in transit {
                let Transit::There(_, request, _) = &transit else { continue };
                if !matches!(request, Request::PatchQueue { .. }) {
                    requests.push(told(request));
                }
                self.arrive(transit);
            }
            while let Some(change) = self.server.news.pop_front() {
                self.desk.step(QueueEvent::Unit(change));
            }
        }
    }

    /// One thing that may happen next.
    pub(super) fn happen(&mut self) {
        match self.rng.u32(0..12) {
            0..=3 if !self.transit.is_empty() => {
                let chosen = self.rng.usize(0..self.transit.len());
                let transit = self.transit.swap_remove(chosen);
                self.travel(transit);
            }
            4..=6 => {
                if let Some(change) = self.server.news.pop_front() {
                    self.desk.step(QueueEvent::Unit(change));
                }
            }
            7 | 8 => {
                let names: Vec<Key> = self.server.units.keys().cloned().collect();
                if let Some(name) = self.rng.choice(&names) {
                    self.server.prioritise(name, self.rng.i32(0..5));
                }
            }
            9 => {
                let told: Vec<Key> = self.admitted.keys().chain(self.late.keys()).cloned().collect();
                if let Some(job) = self.rng.choice(&told) {
                    self.advance(job);
                }
            }
            10 if self.rng.u32(0..20) == 0 => self.relist(),
            11 if self.rng.u32(0..40) == 0 => self.restart(),
            _ => {
                let seconds = self.rng.u64(0..3);
                self.pass(seconds);
            }
        }
        self.turn();
    }

    pub(super) fn finish(&mut self, name: &str) {
        self.server.jobs.get_mut(&key(name)).unwrap().0 = Stage::Finished;
        self.tell(&key(name));
    }

    /// A job begins, if it was told that it may as it is; one that has begun ends.
    pub(super) fn advance(&mut self, job: &Key) {
        let current = self.server.generations.get(job).copied().unwrap_or(1);
        let is_told = self.admitted.get(job) == Some(&current);
        let was_told = self.late.get(job).is_some_and(|told| told.0 == current && self.second < told.1);
        let entry = self.server.jobs.get_mut(job).unwrap();
        entry.0 = match entry.0 {
            Stage::Waiting if is_told || was_told => Stage::Started,
            Stage::Waiting => Stage::Waiting,
            Stage::Started | Stage::Finished => Stage::Finished,
        };
        self.server.judge();
        self.tell(job);
    }

    /// A user changes what a job asks for.
    pub(super) fn resize(&mut self, job: &Key, asks: u64) {
        self.server.jobs.get_mut(job).unwrap().1 = asks;
        *self.server.generations.entry(job.clone()).or_insert(1) += 1;
        self.tell(job);
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
    pub(super) fn answer(&mut self, ticket: Ticket, request: &Request) {
        let reply = self.server.take(request);
        let now = self.now();
        self.desk.replied(now, now.wall, ticket, reply);
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
            Transit::Back(ticket, reply) => {
                let now = self.now();
                self.desk.replied(now, now.wall, ticket, reply);
            }
        }
    }

    pub(super) fn finished(&self) -> usize {
        self.server.jobs.values().filter(|(stage, _)| *stage == Stage::Finished).count()
    }
}

/// A request in few words.
pub(super) fn told(request: &Request) -> String {
    match request {
        Request::PutStatus { unit, standing, .. } => {
            format!("{} {:?} {:?}", unit.name, standing.phase.unwrap(), standing.reason.unwrap())
        }
        Request::CreateUnit { job, .. } => format!("create {}", job.name),
        Request::DeleteUnit { unit, .. } => format!("delete {}", unit.name),
        Request::LetGo { unit, .. } => format!("let {} go", unit.name),
        Request::ListUnits { after, .. } => format!("list after {after:?}"),
        other => format!("{other:?}"),
    }
}
