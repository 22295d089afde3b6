//! Growths of released jobs: their units, their quota, and its return.

use super::*;

const A: &str = "framework-a";

impl World {
    /// Delivers requests and replies. Returns the names and requests of the created units.
    fn run(&mut self) -> Vec<String> {
        let mut made = Vec::new();
        for _ in 0..50 {
            self.turn();
            for transit in std::mem::take(&mut self.transit) {
                let Transit::There(ticket, request, _) = transit else { continue };
                if let QueueRequest::CreateUnit(UnitCreation { unit, requests, .. }) = &request {
                    made.push(format!("{} {requests}", unit.name));
                }
                let reply = self.server.take(&request);
                self.reply(ticket, reply);
            }
            self.show();
        }
        made
    }

    /// A job has grown by so much in a generation of its spec; or that has become so much.
    fn grow(&mut self, job: &str, generation: i64, by: u64) -> Vec<String> {
        let since = self.second;
        let growths = self.server.growths.entry(key(job)).or_default();
        growths.entry(generation).or_insert((since, by)).1 = by;
        self.report(&key(job));
        self.run()
    }

    /// The growth is removed from the spec.
    fn shrink(&mut self, job: &str, generation: i64) {
        self.server.growths.get_mut(&key(job)).unwrap().remove(&generation);
        self.report(&key(job));
        self.run();
    }

    /// A job is released, and has begun.
    fn begun(&mut self, job: &str, asks: u64) {
        self.submit(job, asks);
        self.run();
        assert!(self.admitted.contains_key(&key(job)));
        self.advance(&key(job));
        self.run();
    }

    /// A job that does not fit now.
    fn begin_waiting(&mut self, job: &str, asks: u64) {
        self.submit(job, asks);
        self.run();
        assert!(!self.admitted.contains_key(&key(job)));
    }

    fn limit(&mut self, limit: u64) {
        self.server.limit = limit;
        let hard = [("cpu".to_owned(), Amount::units(limit.try_into().unwrap()))];
        let limits = QuotaFacts { hard: hard.into(), ..Default::default() };
        let resource_version = 1000 + u128::from(limit);
        let quota = QuotaObject { key: key("quota"), resource_version, limits: Some(limits), counted: true };
        self.controller.step(QueueEvent::Quota(Change::Applied(quota)));
        self.run();
    }

    fn pod(&mut self, name: &str, job: &str, change: impl Fn(PodUse) -> Change<PodUse>) {
        self.server.version += 1;
        self.show_attempt(job);
        let pod = PodUse {
            key: key(name),
            resource_version: self.server.version,
            controller: Some(format!("map-{job}").into()),
            consumer: None,
            requests: cpu(1),
            ended: false,
            lapses: None,
            slot: None,
        };
        self.controller.step(QueueEvent::Pod(change(pod)));
        self.run();
    }

    fn phase(&self, unit: &str) -> Option<Phase> {
        self.server.units.get(&key(unit))?.status.phase
    }

    fn growths(&self, job: &str) -> &[i64] {
        self.grown.get(&key(job)).map_or(&[], Vec::as_slice)
    }
}

#[test]
fn a_growth_of_a_released_job_has_its_own_unit_and_waits_for_room() {
    let mut world = World::new(1, 3);
    world.begun("a", 2);
    world.pass(100);
    assert_eq!(world.grow("a", 2, 2), ["framework-a-2 cpu: 2"]);
    let unit = world.server.units[&key("framework-a-2")].clone();
    assert_eq!(
        (unit.status.phase, unit.status.reason),
        (Some(Phase::Enqueued), Some(Reason::InsufficientQuota))
    );
    assert_eq!((&*unit.queue, unit.owner.as_deref()), ("q", Some("uid-a")));
    assert_eq!(world.growths("a"), [0; 0]);
    assert_eq!(world.phase(A), Some(Phase::Dequeued), "the first unit stays released");
    world.limit(4);
    assert_eq!(world.phase("framework-a-2"), Some(Phase::Dequeued));
    assert_eq!(world.growths("a"), [2]);
    world.submit("b", 1);
    world.run();
    assert_eq!(world.phase("framework-b"), Some(Phase::Enqueued), "all of it is held");
}

#[test]
fn a_shrink_returns_the_growth_and_a_later_growth_gets_a_new_unit() {
    let mut world = World::new(1, 4);
    world.begun("a", 2);
    world.grow("a", 2, 2);
    assert_eq!(world.growths("a"), [2]);
    world.submit("b", 2);
    world.run();
    assert!(!world.admitted.contains_key(&key("b")));
    world.shrink("a", 2);
    assert_eq!(world.phase("framework-a-2"), None, "its unit is gone");
    assert_eq!(world.growths("a"), [0; 0]);
    assert!(world.admitted.contains_key(&key("b")), "its quota goes to the next unit");
    assert_eq!(world.grow("a", 4, 2), ["framework-a-4 cpu: 2"]);
    assert_eq!(world.phase("framework-a-4"), Some(Phase::Enqueued));
    world.shrink("a", 4);
    assert_eq!(world.phase("framework-a-4"), None, "also while it waits");
}

#[test]
fn the_share_of_a_growth_returns_when_the_last_pod_of_its_tasks_is_gone() {
    let mut world = World::new(1, 4);
    world.begun("a", 2);
    world.grow("a", 2, 1);
    for name in ["p0", "p1", "p2"] {
        world.pod(name, "a", Change::Applied);
    }
    world.submit("b", 2);
    world.run();
    world.lingering.insert(key("a"), [(2, 1)].into());
    world.shrink("a", 2);
    assert!(world.server.units[&key("framework-a-2")].deleting);
    assert!(!world.admitted.contains_key(&key("b")), "its Pod still ends");
    world.lingering.clear();
    world.report(&key("a"));
    world.pod("p2", "a", Change::Deleted);
    assert_eq!(world.phase("framework-a-2"), None);
    assert!(world.admitted.contains_key(&key("b")));
    assert_eq!(world.phase(A), Some(Phase::Dequeued));
}

#[test]
fn growths_wait_side_by_side_in_the_order_in_which_they_were_asked_for() {
    let mut world = World::new(1, 3);
    world.begun("a", 3);
    for generation in [2, 3] {
        world.pass(10);
        world.grow("a", generation, 1);
    }
    world.pass(10);
    world.begin_waiting("b", 1);
    world.limit(4);
    assert_eq!(world.growths("a"), [2]);
    world.limit(5);
    assert_eq!(world.growths("a"), [2, 3]);
    assert!(!world.admitted.contains_key(&key("b")), "it came later than both");
    world.limit(6);
    assert!(world.admitted.contains_key(&key("b")));
}

#[test]
fn a_waiting_growth_that_shrinks_gets_a_new_unit_and_keeps_its_place() {
    let mut world = World::new(1, 3);
    world.begun("a", 3);
    world.pass(10);
    world.grow("a", 2, 2);
    world.pass(10);
    world.begin_waiting("b", 1);
    world.pass(10);
    let before = world.server.units[&key("framework-a-2")].uid.clone();
    assert_eq!(world.grow("a", 2, 1), ["framework-a-2 cpu: 1"]);
    assert_ne!(world.server.units[&key("framework-a-2")].uid, before);
    world.limit(4);
    assert_eq!((world.growths("a"), world.admitted.contains_key(&key("b"))), (&[2][..], false));
}

#[test]
fn a_new_controller_reports_released_growths_and_creates_no_unit_again() {
    let mut world = World::new(1, 4);
    world.begun("a", 2);
    world.grow("a", 2, 1);
    world.grow("a", 3, 2);
    assert_eq!(world.growths("a"), [2]);
    world.restart();
    world.grown.clear();
    assert_eq!(world.run(), [""; 0]);
    assert_eq!(world.growths("a"), [2]);
    world.limit(5);
    assert_eq!(world.growths("a"), [2], "a request of a predecessor may still land");
    world.pass(LIFETIME.as_secs());
    world.run();
    assert_eq!(world.growths("a"), [2, 3]);
}

#[test]
fn growths_of_a_finished_job_use_no_quota_and_waiting_ones_go() {
    let mut world = World::new(1, 3);
    world.begun("a", 2);
    world.grow("a", 2, 1);
    world.grow("a", 3, 1);
    world.submit("b", 3);
    world.advance(&key("a"));
    world.run();
    assert!(world.admitted.contains_key(&key("b")));
    assert_eq!((world.phase("framework-a-2"), world.phase("framework-a-3")), (Some(Phase::Dequeued), None));
}

#[test]
fn a_refused_growth_is_reported_once_and_holds_up_no_later_one() {
    let mut world = World::new(1, 10);
    world.begun("a", 2);
    world.server.growths.insert(key("a"), [(2, (0, 1)), (3, (0, 1))].into());
    world.report(&key("a"));
    let mut tried = Vec::new();
    for _ in 0..5 {
        for (ticket, request) in world.settle_except("create a") {
            let QueueRequest::CreateUnit(UnitCreation { unit, .. }) = &request else { panic!("{request:?}") };
            tried.push(unit.name.to_string());
            if *unit.name == *"framework-a-2" {
                let refusal = world.server.refuse(403);
                world.reply(ticket, refusal);
            } else {
                world.answer(ticket, &request);
            }
        }
        world.show();
        world.pass(60);
    }
    assert_eq!(tried[..3], ["framework-a-2", "framework-a-3", "framework-a-2"]);
    assert_eq!(world.growths("a"), [3]);
    let says = "a QueueUnitRefused: the Tasks of generation 2 wait, because the API server refuses their \
                QueueUnit framework-a-2: ";
    assert_eq!(world.said, [says]);
}

#[test]
fn a_growth_has_the_priority_that_the_first_unit_was_given() {
    let mut world = World::new(1, 2);
    world.begin_waiting("a", 3);
    world.server.set_priority(&key(A), 7);
    world.run();
    world.limit(3);
    world.advance(&key("a"));
    world.grow("a", 2, 1);
    assert_eq!(world.server.units[&key("framework-a-2")].priority, Some(7));
}
