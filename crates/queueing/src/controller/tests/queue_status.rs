//! The status of Queues: how often it is written.

use super::*;

#[test]
fn the_status_of_a_queue_is_written_when_it_changes_and_not_too_often() {
    let mut world = World::new(1, 2);
    world.settle();
    assert_eq!(world.counts(), Some((0, 0)));
    let times = written_in_a_hundred_seconds(&mut world);
    assert!(times.windows(2).all(|pair| pair[1] >= pair[0] + 5), "{times:?}");
    assert!(times.len() > 15, "{times:?}");
    world.pass(10);
    world.settle();
    let gauges = world.controller.gauges();
    assert_eq!(world.counts(), Some((gauges.waiting.values().sum(), gauges.released)));
    let written = world.server.queue_writes.len();
    // Nothing has changed, and a new controller finds the stored status.
    world.pass(10);
    world.restart();
    world.settle();
    assert_eq!(world.server.queue_writes.len(), written);
}

#[test]
fn of_many_queues_each_is_written_less_often() {
    let mut world = World::new(1, 2);
    for number in 1..200 {
        let queue = QueueObject {
            key: key(&format!("q{number}")),
            uid: format!("q{number}").into(),
            resource_version: 1,
            counts: Some(QueueCounts { waiting: 0, released: 0 }),
            policy: QueuePolicy::Priority,
            priority: None,
            class: None,
        };
        world.controller.step(QueueEvent::Queue(Change::Applied(queue)));
    }
    world.settle();
    let times = written_in_a_hundred_seconds(&mut world);
    assert!(times.windows(2).all(|pair| pair[1] >= pair[0] + 20), "{times:?}");
    assert!(times.len() > 3, "{times:?}");
}

/// When the status of the Queue was written, while a unit came each second and every other one ended.
fn written_in_a_hundred_seconds(world: &mut World) -> Vec<u64> {
    for second in 1..=100 {
        let name = format!("job{second:03}");
        world.submit(&name, 2);
        world.settle();
        world.pass(1);
        if second % 2 == 0 {
            world.finish(&name);
        }
        world.settle();
    }
    world.server.queue_writes.iter().map(|(at, _)| *at).collect()
}
