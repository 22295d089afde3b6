//! The desk against an API server of few words: one queue, one quota, users who change priorities at any
//! time, replies that are lost, watches that lag. What the server holds is judged after each write.

use std::collections::VecDeque;

use framework_api::queue::{FINALIZER, QueuePolicy};
use framework_core::queue::Stage;
use framework_queue::{Amount, QuotaFacts};

use super::super::object::UnitStanding;
use super::super::request::Request;
use super::*;
use crate::event::{Rejection, Reply};

const SPACE: &str = "ns";
const LIFETIME: Duration = Duration::from_secs(28);

fn key(name: &str) -> Key {
    Key::new(SPACE, name)
}

fn cpu(amount: u64) -> Ask {
    [("cpu", Amount::units(amount.try_into().unwrap()))].into_iter().collect()
}

fn at(second: u64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + i64::try_from(second).unwrap()).unwrap()
}

/// What the API server has, and what it has been asked.
#[derive(Debug, Default)]
struct Server {
    version: u128,
    units: BTreeMap<Key, UnitObject>,
    /// What the watch will show.
    news: VecDeque<Change<UnitObject>>,
    /// Jobs that have not ended, and what they ask for.
    jobs: BTreeMap<Key, (Stage, u64)>,
    limit: u64,
    releases: BTreeMap<Key, usize>,
    refused: usize,
    patches: usize,
}

impl Server {
    fn stamp(&mut self) -> u128 {
        self.version += 1;
        self.version
    }

    fn changed(&mut self, name: &Key) {
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
    fn prioritise(&mut self, name: &Key, priority: i32) {
        let Some(unit) = self.units.get_mut(name) else { return };
        if unit.standing.phase == Some(Phase::Dequeued) {
            return;
        }
        self.patches += 1;
        unit.priority = Some(priority);
        self.changed(name);
    }

    fn refuse(&mut self, code: u16) -> Reply {
        self.refused += 1;
        let rejection = Rejection { code, reason: String::new(), message: String::new(), retry_after: None };
        Reply::Refused(rejection)
    }

    fn guarded(&self, name: &Key, uid: &str, version: Option<u128>) -> Result<(), u16> {
        let unit = self.units.get(name).ok_or(404_u16)?;
        let same = *unit.uid == *uid && version.is_none_or(|version| version == unit.resource_version);
        if same { Ok(()) } else { Err(409) }
    }

    fn take(&mut self, request: &Request) -> Reply {
        let checked = match request {
            Request::PatchStatus { unit, uid, resource_version, .. }
            | Request::LetGo { unit, uid, resource_version, .. } => {
                self.guarded(unit, uid, Some(*resource_version))
            }
            Request::DeleteUnit { unit, uid } => self.guarded(unit, uid, None),
            Request::GetUnit { unit } if !self.units.contains_key(unit) => Err(404),
            Request::CreateUnit { kind, job, .. }
                if self.units.contains_key(&key(&kind.unit_name(&job.name))) =>
            {
                Err(409)
            }
            _ => Ok(()),
        };
        if let Err(code) = checked {
            return self.refuse(code);
        }
        let name = match request {
            Request::CreateUnit { .. } => self.create(request),
            Request::PatchStatus { unit, standing, .. } => {
                let stored = &mut self.units.get_mut(unit).unwrap().standing;
                assert_ne!(stored.phase, Some(Phase::Dequeued), "{unit} is written after its release");
                let order = [None, Some(Phase::Enqueued), Some(Phase::Dequeued)];
                let place = |phase| order.iter().position(|known| *known == phase).unwrap();
                assert!(place(standing.phase).abs_diff(place(stored.phase)) <= 1, "{stored:?} {standing:?}");
                stored.clone_from(standing);
                if standing.phase == Some(Phase::Dequeued) {
                    *self.releases.entry(unit.clone()).or_default() += 1;
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
            Request::GetUnit { unit } => return Reply::Unit(Box::new(self.units[unit].clone())),
            Request::ResumeJob { .. } => unreachable!("there are no Jobs"),
        };
        self.changed(&name);
        self.judge();
        Reply::Unit(Box::new(self.units[&name].clone()))
    }

    fn create(&mut self, request: &Request) -> Key {
        let Request::CreateUnit { kind, job, uid, queue, ask, .. } = request else { unreachable!() };
        let (name, version) = (key(&kind.unit_name(&job.name)), self.stamp());
        let unit = UnitObject {
            key: name.clone(),
            uid: format!("unit-{version}").into(),
            resource_version: version,
            created: at(0),
            deleting: false,
            finalizers: vec![FINALIZER.to_owned()],
            owner: Some(Arc::clone(uid)),
            consumer: ConsumerKey::new(*kind, job.clone()),
            consumer_uid: Some(Arc::clone(uid)),
            queue: Arc::clone(queue),
            priority: None,
            class: None,
            ask: Ok(ask.clone()),
            standing: UnitStanding::default(),
        };
        self.units.insert(name.clone(), unit);
        name
    }

    /// What is released and has not ended fits.
    fn judge(&self) {
        let mut sum = 0;
        for unit in self.units.values().filter(|unit| unit.standing.phase == Some(Phase::Dequeued)) {
            let (stage, asks) = self.jobs[&unit.consumer.key];
            sum += if stage == Stage::Finished { 0 } else { asks };
        }
        assert!(sum <= self.limit, "{sum} of {} are released: {:#?}", self.limit, self.units);
        let twice = self.releases.iter().find(|(_, times)| **times > 1);
        assert_eq!(twice, None, "released twice");
    }
}

/// A request on its way, or its reply.
#[derive(Debug)]
enum Transit {
    There(Ticket, Request),
    Back(Ticket, Reply),
}

struct World {
    server: Server,
    desk: Desk,
    transit: Vec<Transit>,
    second: u64,
    rng: fastrand::Rng,
    admitted: BTreeSet<Key>,
}

impl World {
    fn new(seed: u64, limit: u64) -> Self {
        let settings = Settings { reserve_after: Duration::from_secs(60), request_lifetime: LIFETIME };
        let mut world = World {
            server: Server { limit, ..Server::default() },
            desk: Desk::new(settings, seed),
            transit: Vec::new(),
            second: 0,
            rng: fastrand::Rng::with_seed(seed),
            admitted: BTreeSet::new(),
        };
        world.listed();
        world
    }

    /// All that does not change is listed, and no units.
    fn listed(&mut self) {
        let queue = QueueObject {
            key: key("q"),
            resource_version: 1,
            policy: QueuePolicy::Priority,
            priority: None,
            class: None,
        };
        let hard = [("cpu".to_owned(), Amount::units(self.server.limit.try_into().unwrap()))];
        let limits = QuotaFacts { hard: hard.into(), used: BTreeMap::new() };
        let quota = QuotaObject { key: key("quota"), resource_version: 1, limits: Some(limits) };
        self.desk.step(News::Queue(Change::Listed(queue)));
        self.desk.step(News::Quota(Change::Listed(quota)));
        self.desk.step(News::Queue(Change::Synced));
        self.desk.step(News::Quota(Change::Synced));
        self.desk.step(News::Class(Change::Synced));
        self.desk.step(News::Pod(Change::Synced));
        self.desk.step(News::Job(Change::Synced));
        self.relist();
    }

    fn relist(&mut self) {
        self.server.news.clear();
        self.desk.step(News::Unit(Change::Restarted));
        for unit in self.server.units.values() {
            self.desk.step(News::Unit(Change::Listed(unit.clone())));
        }
        self.desk.step(News::Unit(Change::Synced));
    }

    fn now(&self) -> Now {
        Now { steady: Duration::from_secs(self.second), wall: at(self.second) }
    }

    fn tell(&mut self, job: &Key) {
        let (stage, asks) = self.server.jobs[job];
        let consumer = Consumer {
            uid: format!("uid-{}", job.name).into(),
            resource_version: 0,
            created: at(0),
            queue: Some("q".into()),
            class: None,
            ask: Ok(cpu(asks)),
            stage,
            deleting: false,
        };
        self.desk.framework(job.clone(), Some(consumer));
    }

    fn submit(&mut self, name: &str, asks: u64) {
        self.server.jobs.insert(key(name), (Stage::Waiting, asks));
        self.tell(&key(name));
    }

    fn turn(&mut self) {
        let now = self.now();
        for outcome in self.desk.turn(now, now.wall) {
            if let Outcome::Admit { key, admission: Admission::Released, .. } = outcome {
                self.admitted.insert(key);
            }
        }
        while let Some((ticket, request)) = self.desk.next_request(now, now.wall) {
            self.transit.push(Transit::There(ticket, request));
        }
    }

    /// One thing that may happen next.
    fn happen(&mut self) {
        match self.rng.u32(0..12) {
            0..=3 if !self.transit.is_empty() => {
                let chosen = self.rng.usize(0..self.transit.len());
                let transit = self.transit.swap_remove(chosen);
                self.travel(transit);
            }
            4..=6 => {
                if let Some(change) = self.server.news.pop_front() {
                    self.desk.step(News::Unit(change));
                }
            }
            7 | 8 => {
                let names: Vec<Key> = self.server.units.keys().cloned().collect();
                if let Some(name) = self.rng.choice(&names) {
                    self.server.prioritise(name, self.rng.i32(0..5));
                }
            }
            9 => {
                let admitted: Vec<Key> = self.admitted.iter().cloned().collect();
                if let Some(job) = self.rng.choice(&admitted) {
                    self.advance(job);
                }
            }
            10 if self.rng.u32(0..20) == 0 => self.relist(),
            _ => self.second += self.rng.u64(0..3),
        }
        self.turn();
    }

    fn advance(&mut self, job: &Key) {
        let entry = self.server.jobs.get_mut(job).unwrap();
        entry.0 = if entry.0 == Stage::Waiting { Stage::Started } else { Stage::Finished };
        self.tell(job);
    }

    fn travel(&mut self, transit: Transit) {
        let fate = self.rng.u32(0..10);
        match transit {
            // It never left.
            Transit::There(ticket, _) if fate == 0 => {
                self.transit.push(Transit::Back(ticket, Reply::NotSent(String::new())));
            }
            // Its reply is lost.
            Transit::There(ticket, request) if fate == 1 => {
                self.server.take(&request);
                self.transit.push(Transit::Back(ticket, Reply::Unknown(String::new())));
            }
            // The same, and it is still on its way.
            Transit::There(ticket, request) if fate == 2 => {
                self.transit.push(Transit::There(Ticket(0), request));
                self.transit.push(Transit::Back(ticket, Reply::Unknown(String::new())));
            }
            Transit::There(ticket, request) => {
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

    fn finished(&self) -> usize {
        self.server.jobs.values().filter(|(stage, _)| *stage == Stage::Finished).count()
    }
}

#[test]
fn racing_priorities_lost_replies_and_slow_watches_release_each_unit_once_and_never_too_many() {
    let (mut patches, mut releases, mut refused) = (0, 0, 0);
    for seed in 0..700 {
        let mut world = World::new(seed, 10);
        let jobs = world.rng.usize(5..25);
        for number in 0..jobs {
            let asks = world.rng.u64(1..8);
            world.submit(&format!("job{number}"), asks);
        }
        let mut steps = 0;
        while world.finished() < jobs {
            world.happen();
            steps += 1;
            assert!(steps < 1_000_000, "seed {seed} does not come to an end: {:#?}", world.server);
        }
        assert_eq!(world.server.releases.values().sum::<usize>(), jobs, "seed {seed}");
        patches += world.server.patches;
        releases += jobs;
        refused += world.server.refused;
    }
    println!("{patches} changes of priorities, {releases} releases, {refused} requests refused");
    assert!(patches >= 100_000, "{patches}");
    assert!(refused > 1_000, "{refused}");
}

#[test]
fn a_unit_costs_a_creation_and_two_writes_and_one_with_no_room_is_written_once_while_it_waits() {
    let mut world = World::new(1, 2);
    world.submit("a", 2);
    world.submit("b", 2);
    world.submit("c", 2);
    let mut requests: Vec<String> = Vec::new();
    for _ in 0..50 {
        world.turn();
        for transit in std::mem::take(&mut world.transit) {
            let Transit::There(ticket, request) = transit else { continue };
            requests.push(match &request {
                Request::PatchStatus { unit, standing, .. } => {
                    format!("{} {:?} {:?}", unit.name, standing.phase.unwrap(), standing.reason.unwrap())
                }
                Request::CreateUnit { job, .. } => format!("create {}", job.name),
                other => format!("{other:?}"),
            });
            let reply = world.server.take(&request);
            let now = world.now();
            world.desk.replied(now, now.wall, ticket, reply);
        }
        while let Some(change) = world.server.news.pop_front() {
            world.desk.step(News::Unit(change));
        }
    }
    requests.sort();
    assert_eq!(
        requests,
        [
            "create a",
            "create b",
            "create c",
            "framework-a Dequeued Admitted",
            "framework-a Enqueued Waiting",
            "framework-b Enqueued InsufficientQuota",
            "framework-c Enqueued InsufficientQuota",
        ]
    );
    assert_eq!(world.server.refused, 0);
}

#[test]
fn after_a_start_nothing_is_released_while_what_a_predecessor_sent_may_land() {
    let mut world = World::new(1, 2);
    world.submit("a", 2);
    for _ in 0..20 {
        world.turn();
        for transit in std::mem::take(&mut world.transit) {
            let Transit::There(ticket, request) = transit else { continue };
            // The controller dies before it releases anything.
            if let Request::PatchStatus { standing, .. } = &request
                && standing.phase == Some(Phase::Dequeued)
            {
                continue;
            }
            let reply = world.server.take(&request);
            let now = world.now();
            world.desk.replied(now, now.wall, ticket, reply);
        }
        while let Some(change) = world.server.news.pop_front() {
            world.desk.step(News::Unit(change));
        }
    }
    let settings = Settings { reserve_after: Duration::from_secs(60), request_lifetime: LIFETIME };
    world.desk = Desk::new(settings, 2);
    world.tell(&key("a"));
    world.listed();
    world.second = 100;
    world.turn();
    assert!(world.transit.is_empty(), "{:?}", world.transit);
    world.second += LIFETIME.as_secs() - 1;
    world.turn();
    assert!(world.transit.is_empty(), "{:?}", world.transit);
    world.second += 1;
    world.turn();
    assert_eq!(world.transit.len(), 1);
}
