//! The desk against an API server of few words: one queue, one quota, users who change priorities at any
//! time, replies that are lost, watches that lag. What the server holds is judged after each write.

use std::collections::VecDeque;

use framework_api::Time;
use framework_api::queue::{FINALIZER, Phase, QueuePolicy};
use framework_core::queue::Stage;
use framework_queue::{Amount, QuotaFacts};

use super::super::consumer::Growth;
use super::super::counts::{Filling, Gauges};
use super::super::object::{Overtaken, UnitStanding};
use super::super::request::{Page, Request};
use super::*;
use crate::event::{Rejection, Reply};

mod growth;

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
    /// What they have grown by since: by generation, since which second, and how much.
    growths: BTreeMap<Key, BTreeMap<i64, (u64, u64)>>,
    limit: u64,
    /// By name and UID: a unit that is made anew is another one.
    releases: BTreeMap<(Key, Arc<str>), usize>,
    /// In which second jobs were created.
    created: BTreeMap<Key, u64>,
    refused: usize,
    patches: usize,
    /// What was written of the Queue, and when.
    fillings: Vec<(u64, Filling)>,
    second: u64,
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
            Request::CreateUnit { unit, .. } if self.units.contains_key(unit) => Err(409),
            _ => Ok(()),
        };
        if let Err(code) = checked {
            return self.refuse(code);
        }
        let name = match request {
            Request::CreateUnit { .. } => self.create(request),
            Request::PatchStatus { unit, uid, standing, .. } => {
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
            Request::GetUnit { unit } => return Reply::Unit(Box::new(self.units[unit].clone())),
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
                return Reply::Units(Page { units, after });
            }
            Request::ResumeJob { .. } | Request::ResumeJobSet { .. } => unreachable!("there are no Jobs"),
        };
        self.changed(&name);
        self.judge();
        Reply::Unit(Box::new(self.units[&name].clone()))
    }

    fn create(&mut self, request: &Request) -> Key {
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

    /// What is released and has not ended fits.
    fn judge(&self) {
        let mut sum = 0;
        for unit in self.units.values().filter(|unit| unit.standing.phase == Some(Phase::Dequeued)) {
            let job = &unit.consumer.key;
            let (stage, asks) = self.jobs[job];
            let asks = match unit.consumer.generation_of(&unit.key) {
                Some(generation) => {
                    let growths = self.growths.get(job);
                    growths.and_then(|growths| growths.get(&generation)).map_or(0, |grown| grown.1)
                }
                None => asks,
            };
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
    /// Sent in that second.
    There(Ticket, Request, u64),
    Back(Ticket, Reply),
}

struct World {
    server: Server,
    desk: Desk,
    transit: Vec<Transit>,
    second: u64,
    rng: fastrand::Rng,
    admitted: BTreeSet<Key>,
    /// Which growths each job was last told that it may begin.
    grown: BTreeMap<Key, Vec<i64>>,
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
            grown: BTreeMap::new(),
        };
        world.listed();
        world
    }

    /// All that does not change is listed, and no units.
    fn listed(&mut self) {
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
        let limits = QuotaFacts { hard: hard.into(), used: BTreeMap::new() };
        let quota =
            QuotaObject { key: key("quota"), resource_version: 1, limits: Some(limits), counted: true };
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

    /// The status of the Queue, as stored.
    fn filling(&self) -> Option<(usize, usize)> {
        self.server.fillings.last().map(|(_, filling)| (filling.waiting, filling.released))
    }

    fn now(&self) -> Now {
        Now { steady: Duration::from_secs(self.second), wall: at(self.second) }
    }

    fn tell(&mut self, job: &Key) {
        let (stage, asks) = self.server.jobs[job];
        let grown = |(generation, (since, asks)): (&i64, &(u64, u64))| {
            (*generation, Growth { since: at(*since), ask: Ok(cpu(*asks)) })
        };
        let consumer = Consumer {
            uid: format!("uid-{}", job.name).into(),
            resource_version: 0,
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

    fn submit(&mut self, name: &str, asks: u64) {
        self.server.jobs.insert(key(name), (Stage::Waiting, asks));
        self.server.created.entry(key(name)).or_insert(self.second);
        self.tell(&key(name));
    }

    fn turn(&mut self) {
        let now = self.now();
        for outcome in self.desk.turn(now, now.wall) {
            match outcome {
                Outcome::Admit { key, admission: Admission::Released, .. } => _ = self.admitted.insert(key),
                Outcome::AdmitGrowths { key, growths, .. } => _ = self.grown.insert(key, growths),
                Outcome::Admit { .. } | Outcome::Tell { .. } => {}
            }
        }
        while let Some((ticket, request)) = self.desk.next_request(now, now.wall) {
            self.transit.push(Transit::There(ticket, request, self.second));
        }
    }

    /// The controller dies, and another one starts: what the first has sent may still land.
    fn restart(&mut self) {
        self.transit.retain_mut(|transit| match transit {
            Transit::There(ticket, ..) => {
                *ticket = Ticket(0);
                true
            }
            Transit::Back(..) => false,
        });
        let settings = Settings { reserve_after: Duration::from_secs(60), request_lifetime: LIFETIME };
        self.desk = Desk::new(settings, self.rng.u64(..));
        let jobs: Vec<Key> = self.server.jobs.keys().cloned().collect();
        jobs.iter().for_each(|job| self.tell(job));
        self.listed();
    }

    /// Time passes, and requests do not live for ever.
    fn pass(&mut self, seconds: u64) {
        self.second += seconds;
        self.server.second = self.second;
        let ended = |sent: &u64| sent + LIFETIME.as_secs() <= self.second;
        self.transit.retain(|transit| !matches!(transit, Transit::There(Ticket(0), _, sent) if ended(sent)));
    }

    /// All that is on its way arrives, and what comes of it, but requests that read so stay on their way.
    fn calm_but(&mut self, held: &str) -> Vec<(Ticket, Request)> {
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
                self.desk.step(News::Unit(change));
            }
        }
    }

    /// All that is on its way arrives, and what comes of it, until nothing more does. What was asked.
    fn calm(&mut self) -> Vec<String> {
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
                self.desk.step(News::Unit(change));
            }
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
            11 if self.rng.u32(0..40) == 0 => self.restart(),
            _ => {
                let seconds = self.rng.u64(0..3);
                self.pass(seconds);
            }
        }
        self.turn();
    }

    fn finish(&mut self, name: &str) {
        self.server.jobs.get_mut(&key(name)).unwrap().0 = Stage::Finished;
        self.tell(&key(name));
    }

    fn advance(&mut self, job: &Key) {
        let entry = self.server.jobs.get_mut(job).unwrap();
        entry.0 = if entry.0 == Stage::Waiting { Stage::Started } else { Stage::Finished };
        self.tell(job);
    }

    fn arrive(&mut self, transit: Transit) {
        let Transit::There(ticket, request, _) = transit else { return };
        let reply = self.server.take(&request);
        let now = self.now();
        self.desk.replied(now, now.wall, ticket, reply);
    }

    fn travel(&mut self, transit: Transit) {
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

/// A request in few words.
fn told(request: &Request) -> String {
    match request {
        Request::PatchStatus { unit, standing, .. } => {
            format!("{} {:?} {:?}", unit.name, standing.phase.unwrap(), standing.reason.unwrap())
        }
        Request::CreateUnit { job, .. } => format!("create {}", job.name),
        Request::DeleteUnit { unit, .. } => format!("delete {}", unit.name),
        Request::LetGo { unit, .. } => format!("let {} go", unit.name),
        Request::ListUnits { after, .. } => format!("list after {after:?}"),
        other => format!("{other:?}"),
    }
}

#[test]
fn a_unit_costs_a_creation_and_two_writes_and_one_with_no_room_is_written_once_while_it_waits() {
    let mut world = World::new(1, 2);
    world.submit("a", 2);
    world.submit("b", 2);
    world.submit("c", 2);
    let mut requests = world.calm();
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
    let gauges = Gauges { waiting: [("InsufficientQuota", 2)].into(), released: 1 };
    assert_eq!(*world.desk.gauges(), gauges);
}

/// The reasons that are on their way to units.
fn on_their_way(world: &World) -> Vec<Reason> {
    let reason = |transit: &Transit| match transit {
        Transit::There(_, Request::PatchStatus { standing, .. }, _) => standing.reason,
        _ => None,
    };
    world.transit.iter().filter_map(reason).collect()
}

#[test]
fn a_release_waits_for_no_crowd_that_is_told_to_wait() {
    let mut world = World::new(1, 1);
    for number in 0..100 {
        world.submit(&format!("job{number}"), 1);
    }
    world.turn();
    for creation in std::mem::take(&mut world.transit) {
        world.arrive(creation);
    }
    while let Some(change) = world.server.news.pop_front() {
        world.desk.step(News::Unit(change));
    }
    world.turn();
    let reasons = on_their_way(&world);
    assert_eq!(reasons[0], Reason::Waiting, "the one that is to be released, whoever came before it");
    assert!(reasons[1..].iter().all(|reason| *reason == Reason::InsufficientQuota), "{reasons:?}");
    let others = reasons.len() - 1;
    assert!((1..=50).contains(&others), "{others} of 99 are told at a time");
    let first = world.transit.remove(0);
    world.arrive(first);
    world.turn();
    assert_eq!(on_their_way(&world).len(), others + 1);
    assert_eq!(on_their_way(&world).last(), Some(&Reason::Admitted), "while the others are on their way");
    let one = world.transit.remove(0);
    world.arrive(one);
    world.turn();
    assert_eq!(on_their_way(&world).len(), others + 1, "for each that was told another one is");
}

/// A world where a waits, and its controller died with the request that releases it on its way.
fn orphaned() -> World {
    let mut world = World::new(1, 2);
    world.submit("a", 2);
    let releases = |transit: &Transit| {
        matches!(transit, Transit::There(_, Request::PatchStatus { standing, .. }, _)
            if standing.phase == Some(Phase::Dequeued))
    };
    loop {
        world.turn();
        if world.transit.iter().any(releases) {
            break;
        }
        for transit in std::mem::take(&mut world.transit) {
            world.arrive(transit);
        }
        while let Some(change) = world.server.news.pop_front() {
            world.desk.step(News::Unit(change));
        }
    }
    world.pass(100);
    world
}

#[test]
fn after_a_start_nothing_is_released_while_what_a_predecessor_sent_may_land() {
    let mut world = orphaned();
    world.restart();
    world.transit.clear();
    assert!(world.calm().is_empty());
    world.pass(LIFETIME.as_secs() - 1);
    assert!(world.calm().is_empty());
    assert_eq!(
        world.desk.next_wake(world.now(), world.now().wall),
        Some(world.now().steady + Duration::from_secs(1))
    );
    world.pass(1);
    assert_eq!(world.calm(), ["list after None", "framework-a Dequeued Admitted"]);
}

#[test]
fn what_a_predecessor_released_last_is_read_before_anything_is_released() {
    let mut world = orphaned();
    let Some(Transit::There(_, late, _)) = world.transit.pop() else { panic!() };
    world.restart();
    for name in ["b", "c", "d"] {
        world.submit(name, 1);
    }
    world.calm();
    // It lands, and the watch does not show it.
    assert!(matches!(world.server.take(&late), Reply::Unit(_)));
    world.server.news.clear();
    world.pass(LIFETIME.as_secs());
    let requests = world.calm();
    assert_eq!(requests[..2], ["list after None", "list after Some(\"framework-c\")"]);
    assert_eq!(world.server.releases.len(), 1, "{requests:?}");
}

#[test]
fn a_page_that_does_not_come_is_asked_for_again_and_shows_nothing_that_is_gone() {
    let mut world = orphaned();
    world.restart();
    world.turn();
    world.pass(LIFETIME.as_secs());
    world.transit.clear();
    world.turn();
    let Some(Transit::There(ticket, request, _)) = world.transit.pop() else { panic!() };
    let now = world.now();
    let Reply::Units(page) = world.server.take(&request) else { panic!() };
    world.desk.replied(now, now.wall, ticket, Reply::Unknown(String::new()));
    assert!(world.calm().is_empty(), "not at once");
    world.pass(1);
    world.turn();
    let Some(Transit::There(ticket, ..)) = world.transit.pop() else { panic!() };
    // While the page is on its way, its unit goes.
    let mut gone = page.units[0].clone();
    gone.resource_version += 1;
    world.server.units.clear();
    world.desk.step(News::Unit(Change::Deleted(gone)));
    world.desk.framework(key("a"), None);
    world.desk.replied(now, now.wall, ticket, Reply::Units(page));
    assert!(world.calm().is_empty());
    assert_eq!(world.desk.whereabouts(&key("framework-a")), None);
    assert_eq!(*world.desk.gauges(), Gauges::default());
}

#[test]
fn the_status_of_a_queue_is_written_when_it_changes_and_not_too_often() {
    let mut world = World::new(1, 2);
    world.calm();
    assert_eq!(world.filling(), Some((0, 0)));
    // A hundred units in a hundred seconds, each of which runs for one.
    for second in 1..=100 {
        let name = format!("job{second:03}");
        world.submit(&name, 2);
        world.calm();
        world.pass(1);
        if second % 2 == 0 {
            world.finish(&name);
        }
        world.calm();
    }
    let times: Vec<u64> = world.server.fillings.iter().map(|(at, _)| *at).collect();
    assert!(times.windows(2).all(|pair| pair[1] >= pair[0] + 5), "{times:?}");
    assert!(times.len() > 15, "{times:?}");
    world.pass(10);
    world.calm();
    let gauges = world.desk.gauges();
    assert_eq!(world.filling(), Some((gauges.waiting.values().sum(), gauges.released)));
    let written = world.server.fillings.len();
    // Nothing has changed, and a desk that starts anew finds what is stored.
    world.pass(10);
    world.restart();
    world.calm();
    assert_eq!(world.server.fillings.len(), written);
}

#[test]
fn an_unwanted_unit_is_deleted_once() {
    let mut world = World::new(1, 2);
    world.submit("a", 3);
    world.calm();
    world.finish("a");
    world.turn();
    let Some(Transit::There(ticket, request, _)) = world.transit.pop() else { panic!() };
    assert_eq!(told(&request), "delete framework-a");
    let now = world.now();
    let reply = world.server.take(&request);
    world.desk.replied(now, now.wall, ticket, reply);
    // The watch is slow, and meanwhile much else happens.
    let news = std::mem::take(&mut world.server.news);
    for _ in 0..3 {
        world.tell(&key("a"));
        world.desk.offer(Work::Unit(key("framework-a")));
        assert!(world.calm().is_empty());
    }
    world.server.news = news;
    assert_eq!(world.calm(), ["let framework-a go"]);
}

#[test]
fn a_quota_that_was_just_made_has_room_as_soon_as_it_is_counted() {
    let mut world = World::new(1, 10);
    let amount = |cpu| [("cpu".to_owned(), Amount::units(cpu))].into();
    for (version, used, counted) in [(2, 10, false), (3, 0, true)] {
        assert!(world.calm().is_empty(), "nothing is known of it yet");
        let limits = Some(QuotaFacts { hard: amount(10), used: amount(used) });
        let quota = QuotaObject { key: key("quota"), resource_version: version, limits, counted };
        world.desk.step(News::Quota(Change::Applied(quota)));
        if !counted {
            world.submit("a", 6);
            world.calm();
        }
    }
    assert_eq!(world.calm(), ["framework-a Dequeued Admitted"], "at once");
}

#[test]
fn watches_that_lag_behind_each_other_make_no_room() {
    let mut world = World::new(1, 10);
    let mut version = 1;
    let mut uses = |world: &mut World, used: i64| {
        version += 1;
        let amount = |cpu| [("cpu".to_owned(), Amount::units(cpu))].into();
        let limits = Some(QuotaFacts { hard: amount(10), used: amount(used) });
        let quota = QuotaObject { key: key("quota"), resource_version: version, limits, counted: true };
        world.desk.step(News::Quota(Change::Applied(quota)));
    };
    uses(&mut world, 4);
    world.submit("a", 6);
    world.calm();
    world.submit("b", 3);
    world.calm();
    let consumer = Some((ConsumerKey::new(ConsumerKind::Framework, key("a")), "uid-a".into()));
    let pod = PodUse { key: key("a-0"), resource_version: 2, consumer, ask: cpu(6), ended: false };
    world.desk.step(News::Pod(Change::Applied(pod)));
    assert!(world.calm().is_empty(), "the quota has not counted it yet");
    uses(&mut world, 10);
    world.pass(10);
    assert!(world.calm().is_empty());
    uses(&mut world, 7);
    assert!(world.calm().is_empty(), "not before it has stood");
    assert_eq!(
        world.desk.next_wake(world.now(), world.now().wall),
        Some(world.now().steady + Duration::from_secs(1))
    );
    world.pass(1);
    assert_eq!(world.calm(), ["framework-b Dequeued Admitted"]);
}

#[test]
fn a_release_without_a_reply_counts_though_a_later_try_of_it_is_refused() {
    let mut world = World::new(1, 2);
    world.submit("a", 2);
    world.submit("b", 2);
    let [(ticket, late)] = &world.calm_but("framework-a Dequeued Admitted")[..] else { panic!() };
    // It is on its way for long, and nobody knows.
    let now = world.now();
    world.desk.replied(now, now.wall, *ticket, Reply::Unknown(String::new()));
    world.pass(1);
    let [(ticket, _)] = world.calm_but("framework-a Dequeued Admitted")[..] else { panic!() };
    // By now another would go first.
    world.server.prioritise(&key("framework-b"), 5);
    assert!(world.calm().is_empty());
    let (now, refusal) = (world.now(), world.server.refuse(403));
    world.desk.replied(now, now.wall, ticket, refusal);
    assert!(world.calm().is_empty(), "there is room for one, and perhaps one has it");
    assert!(matches!(world.server.take(late), Reply::Unit(_)));
    world.pass(10);
    world.calm();
    assert_eq!(world.server.releases.len(), 1);
}

#[test]
fn room_is_kept_for_who_was_overtaken_for_long_also_by_the_next_controller() {
    let mut world = World::new(1, 3);
    world.submit("a", 2);
    world.calm();
    world.submit("b", 3);
    world.calm();
    let overtaken = |world: &World| world.server.units[&key("framework-b")].standing.overtaken;
    assert_eq!(overtaken(&world), None);
    world.submit("c", 1);
    assert!(world.calm().contains(&"framework-c Dequeued Admitted".to_owned()));
    assert_eq!(overtaken(&world), Some(Overtaken { since: Time::floor(at(0)), reserved: false }));
    world.pass(61);
    world.calm();
    assert_eq!(overtaken(&world), Some(Overtaken { since: Time::floor(at(0)), reserved: true }));
    world.finish("c");
    world.submit("d", 1);
    assert_eq!(world.calm(), ["create d", "framework-d Enqueued CapacityReserved"]);
    world.restart();
    world.calm();
    world.pass(LIFETIME.as_secs());
    let requests = world.calm();
    assert_eq!(requests, ["list after None", "list after Some(\"framework-c\")"]);
    world.finish("a");
    assert!(world.calm().contains(&"framework-b Dequeued Admitted".to_owned()));
    assert_eq!(world.server.units[&key("framework-d")].standing.phase, Some(Phase::Enqueued));
}
