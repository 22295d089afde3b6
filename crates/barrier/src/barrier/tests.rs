//! The barrier, reply by reply.

use serde_json::{Value, json};

use super::*;

const MINUTE: Duration = Duration::from_secs(60);

/// A barrier, the time, and how often each query was sent.
struct World {
    barrier: Barrier,
    next: Next,
    now: Duration,
    tables: u32,
    objects: u32,
}

impl World {
    fn new() -> World {
        let pace = Pace::new(Duration::from_secs(5), fastrand::Rng::with_seed(7));
        let barrier = Barrier::new(MINUTE, pace);
        let next = barrier.first();
        World { barrier, next, now: Duration::ZERO, tables: 0, objects: 0 }
    }

    /// Waits for the asked time, and replies.
    fn reply(&mut self, expected: Query, reply: Reply) -> &mut Self {
        let Next::Ask { query, after } = self.next else { panic!("it is over: {:?}", self.next) };
        assert_eq!(query, expected);
        *if query == Query::Object { &mut self.objects } else { &mut self.tables } += 1;
        self.now += after;
        self.next = self.barrier.handle(query, reply, self.now);
        self
    }

    fn table(&mut self, version: u32, cells: Value) -> &mut Self {
        let columns = json!([{"name": "Tasks"}, {"name": "Addressed"}]);
        let table = json!({
            "metadata": {"resourceVersion": version.to_string()},
            "columnDefinitions": columns, "rows": [{"cells": cells}],
        });
        self.reply(Query::Table, Reply::Body(table.to_string().into_bytes()))
    }

    fn whole(&mut self, version: u32, ips: [Option<&str>; 2]) -> &mut Self {
        let tasks: Vec<Value> = ips.iter().map(|ip| json!({"attemptStatus": {"podIP": ip}})).collect();
        let object = json!({
            "metadata": {"name": "train", "resourceVersion": version.to_string()},
            "spec": {"taskRoles": [{"name": "a", "taskNumber": 2}]},
            "status": {"attemptStatus": {"taskRoleStatuses": [{"name": "a", "taskStatuses": tasks}]}},
        });
        self.reply(Query::Object, Reply::Body(object.to_string().into_bytes()))
    }

    fn denied(&mut self) -> &mut Self {
        self.reply(Query::Table, Reply::Denied { code: 403, message: "no".into() })
    }

    fn missing(&mut self, query: Query) -> &mut Self {
        self.reply(query, Reply::NotFound("none".into()))
    }

    fn failed(&mut self, retry_after: Option<Duration>) -> &mut Self {
        self.reply(Query::Table, Reply::Failed { problem: "busy".into(), retry_after })
    }

    fn failure(&self) -> &Failure {
        let Next::Fail(failure) = &self.next else { panic!("{:?}", self.next) };
        failure
    }

    fn wait(&self) -> Duration {
        let Next::Ask { after, .. } = self.next else { panic!("{:?}", self.next) };
        after
    }
}

const BOTH: [Option<&str>; 2] = [Some("10.0.0.1"), Some("10.0.0.2")];

#[test]
fn the_whole_object_is_read_once_the_columns_count_all_tasks() {
    let mut world = World::new();
    world.table(1, json!(["0/2", null])).whole(1, [None; 2]);
    for version in [1, 2, 2, 3] {
        world.table(version, json!(["0/2", 1]));
    }
    assert_eq!(world.barrier.awaited(), "1 of 2 Tasks have no IP yet");
    world.table(4, json!(["0/2", 2])).whole(4, BOTH);
    let Next::Pass(passed) = &world.next else { panic!("{:?}", world.next) };
    assert_eq!(passed.addresses.roles[0].ips.len(), 2);
    assert!(passed.document.starts_with(b"{"));
    assert_eq!((world.tables, world.objects), (6, 2), "the first one had no columns yet");
}

#[test]
fn without_columns_the_whole_object_is_read_once_a_version() {
    let mut world = World::new();
    world.table(1, json!([])).whole(1, [None; 2]);
    world.table(1, json!([])).table(1, json!([]));
    world.table(2, json!([])).whole(3, [None, Some("10.0.0.2")]);
    assert_eq!(world.barrier.awaited(), "1 of 2 Tasks have no IP yet: train-a-0");
    world.table(3, json!([])).table(4, json!([])).whole(4, BOTH);
    assert!(matches!(world.next, Next::Pass(_)));
    assert_eq!(world.objects, 3);
}

#[test]
fn columns_ahead_of_the_spec_do_not_repeat_the_whole_query() {
    let mut world = World::new();
    world.table(1, json!(["0/2", 2])).whole(1, [None, Some("10.0.0.2")]);
    world.table(1, json!(["0/2", 2])).table(1, json!(["0/2", 2]));
    assert_eq!(world.objects, 1);
}

#[test]
fn tables_come_from_memory_and_whole_objects_from_the_store() {
    let mut world = World::new();
    assert_eq!(world.barrier.since(Query::Table), Some("0"));
    world.table(3, json!(["0/2", 2]));
    assert_eq!(world.barrier.since(Query::Table), Some("3"));
    world.whole(5, [None; 2]);
    assert_eq!(world.barrier.since(Query::Table), Some("5"));
    assert_eq!(world.barrier.since(Query::Object), None);
}

#[test]
fn three_denials_in_a_row_end_it_within_ten_seconds() {
    let mut world = World::new();
    world.denied().denied().denied();
    assert_eq!(*world.failure(), Failure::Denied { code: 403, message: "no".into() });
    assert!(world.now < Duration::from_secs(10), "{:?}", world.now);
}

#[test]
fn a_right_that_is_granted_in_between_is_used() {
    let mut world = World::new();
    world.denied().denied().table(1, json!(["0/2", 0])).denied().denied();
    assert!(matches!(world.next, Next::Ask { .. }), "three in a row, not in all");
}

#[test]
fn a_framework_that_is_not_there_ends_it_at_once() {
    let mut world = World::new();
    world.missing(Query::Table).missing(Query::Object);
    assert_eq!(*world.failure(), Failure::NotFound("none".into()));
    assert_eq!(world.now, Duration::ZERO);
}

#[test]
fn a_memory_older_than_the_framework_does_not_end_it() {
    let mut world = World::new();
    world.missing(Query::Table).whole(7, [None; 2]);
    assert_eq!(world.barrier.awaited(), "2 of 2 Tasks have no IP yet: train-a-0, train-a-1");
    assert_eq!(world.barrier.since(Query::Table), Some("7"), "a memory that is as new");
    world.table(8, json!(["0/2", 2])).whole(8, BOTH);
    assert!(matches!(world.next, Next::Pass(_)));
}

#[test]
fn a_version_that_a_restored_store_lacks_is_not_named_again() {
    let mut world = World::new();
    world.table(900, json!(["0/2", 1])).failed(None);
    assert_eq!(world.barrier.since(Query::Table), Some("0"));
    world.table(5, json!(["0/2", 2])).whole(5, BOTH);
    assert!(matches!(world.next, Next::Pass(_)));
}

#[test]
fn a_time_out_is_one_of_waiting_only_if_the_last_read_succeeded() {
    let mut world = World::new();
    while world.now < MINUTE {
        world.table(1, json!(["0/2", 1]));
    }
    assert_eq!(*world.failure(), Failure::TimedOut { missing: "1 of 2 Tasks have no IP yet".into() });
    assert_eq!(world.now, MINUTE, "the last look is at the end, not an interval before it");

    let mut world = World::new();
    world.table(1, json!(["0/2", 1]));
    while world.now < MINUTE {
        world.failed(None);
    }
    assert_eq!(*world.failure(), Failure::Unread { problem: "busy".into() });
    let mut world = World::new();
    world.now = MINUTE;
    world.denied();
    assert!(matches!(world.failure(), Failure::Denied { .. }), "the time is over before three tries");
}

#[test]
fn a_failure_in_between_leaves_the_result_of_the_whole_object() {
    let mut world = World::new();
    world.table(1, json!(["0/2", 2])).whole(1, [Some("10.0.0.1"), None]).failed(None);
    while world.now < MINUTE {
        world.table(1, json!(["0/2", 2]));
    }
    assert!(matches!(world.failure(), Failure::TimedOut { .. }), "{:?}", world.failure());
}

#[test]
fn retry_after_is_respected_and_a_success_resets_the_failures() {
    let mut world = World::new();
    world.failed(Some(Duration::from_secs(9)));
    assert!(world.wait() >= Duration::from_secs(9));
    world.failed(None).failed(None).failed(None);
    assert!(world.wait() > Duration::from_secs(2), "{:?}", world.wait());
    world.table(1, json!(["0/2", 0])).failed(None);
    assert!(world.wait() <= Duration::from_secs(1), "{:?}", world.wait());
}

#[test]
fn delays_grow_when_only_the_whole_object_fails() {
    let mut world = World::new();
    let failed = || Reply::Failed { problem: "busy".into(), retry_after: None };
    for _ in 0..4 {
        world.table(1, json!(["0/2", 2])).reply(Query::Object, failed());
    }
    assert!(world.wait() >= Duration::from_secs(4), "{:?}", world.wait());
}

#[test]
fn a_broken_object_fails_and_is_read_again_once_it_changed() {
    let mut world = World::new();
    world.table(1, json!(["0/2", 2])).reply(Query::Object, Reply::Body(b"{}".to_vec()));
    assert!(world.barrier.awaited().starts_with("cannot understand the Framework"));
    world.table(1, json!(["0/2", 2])).table(2, json!(["0/2", 2])).whole(2, BOTH);
    assert!(matches!(world.next, Next::Pass(_)));

    let mut world = World::new();
    world.table(1, json!(["0/2", 2])).reply(Query::Object, Reply::Body(b"{}".to_vec()));
    while world.now < MINUTE {
        world.table(1, json!(["0/2", 2]));
    }
    assert!(matches!(world.failure(), Failure::Unread { .. }));
    world.next = world.barrier.first();
    world.reply(Query::Table, Reply::Body(b"<html>".to_vec()));
    assert!(matches!(world.failure(), Failure::Unread { .. }));
}
