//! The first rounds after a start, while requests of a predecessor may land.

use super::*;

/// A world where a waits, and its controller died with the request that releases it on its way.
fn orphaned() -> World {
    let mut world = World::new(1, 2);
    world.submit("a", 2);
    let releases = |transit: &Transit| {
        matches!(transit, Transit::There(_, QueueRequest::PutStatus { status, .. }, _)
            if status.phase == Some(Phase::Dequeued))
    };
    loop {
        world.turn();
        if world.transit.iter().any(releases) {
            break;
        }
        for transit in std::mem::take(&mut world.transit) {
            world.arrive(transit);
        }
        world.show();
    }
    world.pass(100);
    world
}

#[test]
fn after_a_start_nothing_is_released_while_older_requests_may_land() {
    let mut world = orphaned();
    world.restart();
    world.transit.clear();
    assert!(world.settle().is_empty());
    world.pass(LIFETIME.as_secs() - 1);
    assert!(world.settle().is_empty());
    assert_eq!(
        world.controller.next_wake(world.now(), world.now().wall),
        Some(world.now().steady + Duration::from_secs(1))
    );
    world.pass(1);
    assert_eq!(world.settle(), ["list after None", "framework-a Dequeued Admitted"]);
}

#[test]
fn the_last_release_of_a_predecessor_is_read_before_any_other_release() {
    let mut world = orphaned();
    let Some(Transit::There(_, late, _)) = world.transit.pop() else { panic!() };
    world.restart();
    for name in ["b", "c", "d"] {
        world.submit(name, 1);
    }
    world.settle();
    // It lands, and the watch does not show it.
    assert!(matches!(world.server.take(&late), Reply::Object(Object::Unit(_))));
    world.server.news.clear();
    world.pass(LIFETIME.as_secs());
    let requests = world.settle();
    assert_eq!(requests[..2], ["list after None", "list after Some(\"framework-c\")"]);
    assert_eq!(world.server.releases.len(), 1, "{requests:?}");
}

#[test]
fn a_lost_page_is_requested_again_and_shows_no_deleted_unit() {
    let mut world = orphaned();
    world.restart();
    world.turn();
    world.pass(LIFETIME.as_secs());
    world.transit.clear();
    world.turn();
    let Some(Transit::There(ticket, request, _)) = world.transit.pop() else { panic!() };
    let Reply::Object(Object::Page(page)) = world.server.take(&request) else { panic!() };
    world.reply(ticket, Reply::Unknown(String::new()));
    assert!(world.settle().is_empty(), "not at once");
    world.pass(1);
    world.turn();
    let Some(Transit::There(ticket, ..)) = world.transit.pop() else { panic!() };
    // While the page is on its way, its unit goes.
    let mut gone = page.units[0].clone();
    gone.resource_version += 1;
    world.server.units.clear();
    let gone = Arc::new(gone);
    world.controller.step(QueueEvent::Unit(Change::Deleted(Arc::clone(&gone))));
    world.frameworks.step(Change::Deleted(gone));
    world.server.jobs.clear();
    world.report(&key("a"));
    world.reply(ticket, Reply::Object(Object::Page(page)));
    assert!(world.settle().is_empty());
    assert_eq!(world.controller.queue_position(&key("framework-a")), None);
    assert_eq!(world.controller.gauges(), Gauges::default());
}

/// The watches come one after the other, and a unit may change before the last kind is listed.
#[test]
fn before_every_kind_is_listed_nothing_is_sent_and_no_turn_is_wanted() {
    let mut world = World::new(1, 10);
    world.submit("a", 2);
    world.settle();
    let mut first = world.server.units[&key("framework-a")].clone();
    first.status.phase = Some(Phase::Enqueued);
    first.status.overtaken = Some(Overtaken { since: Time::floor(at(0)), reserved: true });
    let mut second = first.clone();
    second.resource_version += 1;
    second.status.overtaken = None;
    let mut controller = QueueController::new(settings(), 1);
    for unit in [first, second] {
        controller.step(QueueEvent::Unit(Change::Applied(Arc::new(unit))));
    }
    let now = world.now();
    controller.turn(now, now.wall);
    assert_eq!(controller.next_request(now, now.wall).map(|(_, request, _)| summary(&request)), None);
    assert_eq!(controller.next_wake(now, now.wall), None);
}
