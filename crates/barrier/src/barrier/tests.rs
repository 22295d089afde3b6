//! The barrier, answer by answer.

use serde_json::{Value, json};

use super::*;

const MINUTE: Duration = Duration::from_secs(60);

/// A barrier, the time, and how often each question was asked.
struct World {
    barrier: Barrier,
    next: Next,
    now: Duration,
    glimpses: u32,
    wholes: u32,
}

impl World {
    fn new() -> World {
        let pace = Pace::new(Duration::from_secs(5), fastrand::Rng::with_seed(7));
        let barrier = Barrier::new(MINUTE, pace);
        let next = barrier.first();
        World { barrier, next, now: Duration::ZERO, glimpses: 0, wholes: 0 }
    }

    /// Waits as it is told, and answers.
    fn answer(&mut self, expected: Question, answer: Answer) -> &mut Self {
        let Next::Ask { question, after } = self.next else { panic!("it is over: {:?}", self.next) };
        assert_eq!(question, expected);
        *if question == Question::Whole { &mut self.wholes } else { &mut self.glimpses } += 1;
        self.now += after;
        self.next = self.barrier.hear(question, answer, self.now);
        self
    }

    fn glimpse(&mut self, version: u32, cells: Value) -> &mut Self {
        let columns = json!([{"name": "Tasks"}, {"name": "Addressed"}]);
        let table = json!({
            "metadata": {"resourceVersion": version.to_string()},
            "columnDefinitions": columns, "rows": [{"cells": cells}],
        });
        self.answer(Question::Glimpse, Answer::Body(table.to_string().into_bytes()))
    }

    fn whole(&mut self, version: u32, ips: [Option<&str>; 2]) -> &mut Self {
        let tasks: Vec<Value> = ips.iter().map(|ip| json!({"attemptStatus": {"podIP": ip}})).collect();
        let object = json!({
            "metadata": {"name": "train", "resourceVersion": version.to_string()},
            "spec": {"taskRoles": [{"name": "a", "taskNumber": 2}]},
            "status": {"attemptStatus": {"taskRoleStatuses": [{"name": "a", "taskStatuses": tasks}]}},
        });
        self.answer(Question::Whole, Answer::Body(object.to_string().into_bytes()))
    }

    fn denied(&mut self) -> &mut Self {
        self.answer(Question::Glimpse, Answer::Denied { code: 403, message: "no".into() })
    }

    fn failed(&mut self, retry_after: Option<Duration>) -> &mut Self {
        self.answer(Question::Glimpse, Answer::Failed { problem: "busy".into(), retry_after })
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
fn the_whole_object_is_read_once_when_the_columns_say_that_all_are_there() {
    let mut world = World::new();
    world.glimpse(1, json!(["0/2", null])).whole(1, [None; 2]);
    for version in [1, 2, 2, 3] {
        world.glimpse(version, json!(["0/2", 1]));
    }
    assert_eq!(world.barrier.awaited(), "1 of 2 Tasks have no IP yet");
    world.glimpse(4, json!(["0/2", 2])).whole(4, BOTH);
    let Next::Pass(passed) = &world.next else { panic!("{:?}", world.next) };
    assert_eq!(passed.roster.roles[0].ips.len(), 2);
    assert!(passed.document.starts_with(b"{"));
    assert_eq!((world.glimpses, world.wholes), (6, 2), "the first one had no columns yet");
}

#[test]
fn without_columns_the_whole_object_is_read_once_a_version() {
    let mut world = World::new();
    world.glimpse(1, json!([])).whole(1, [None; 2]);
    world.glimpse(1, json!([])).glimpse(1, json!([]));
    world.glimpse(2, json!([])).whole(3, [None, Some("10.0.0.2")]);
    assert_eq!(world.barrier.awaited(), "1 of 2 Tasks have no IP yet: train-a-0");
    world.glimpse(3, json!([])).glimpse(4, json!([])).whole(4, BOTH);
    assert!(matches!(world.next, Next::Pass(_)));
    assert_eq!(world.wholes, 3);
}

#[test]
fn columns_that_are_ahead_of_the_spec_do_not_make_it_ask_again_and_again() {
    let mut world = World::new();
    world.glimpse(1, json!(["0/2", 2])).whole(1, [None, Some("10.0.0.2")]);
    world.glimpse(1, json!(["0/2", 2])).glimpse(1, json!(["0/2", 2]));
    assert_eq!(world.wholes, 1);
}

#[test]
fn glimpses_come_from_memory_but_never_from_the_past_and_whole_objects_from_the_store() {
    let mut world = World::new();
    assert_eq!(world.barrier.since(Question::Glimpse), Some("0"));
    world.glimpse(3, json!(["0/2", 2]));
    assert_eq!(world.barrier.since(Question::Glimpse), Some("3"));
    world.whole(5, [None; 2]);
    assert_eq!(world.barrier.since(Question::Glimpse), Some("5"));
    assert_eq!(world.barrier.since(Question::Whole), None);
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
    world.denied().denied().glimpse(1, json!(["0/2", 0])).denied().denied();
    assert!(matches!(world.next, Next::Ask { .. }), "three in a row, not in all");
}

#[test]
fn a_framework_that_is_not_there_ends_it_at_once() {
    let mut world = World::new();
    world.answer(Question::Glimpse, Answer::NotFound("none".into()));
    assert_eq!(*world.failure(), Failure::NotFound("none".into()));
}

#[test]
fn a_time_out_is_one_of_waiting_only_if_the_last_read_succeeded() {
    let mut world = World::new();
    while world.now < MINUTE {
        world.glimpse(1, json!(["0/2", 1]));
    }
    assert_eq!(*world.failure(), Failure::TimedOut { missing: "1 of 2 Tasks have no IP yet".into() });
    assert_eq!(world.now, MINUTE, "the last look is at the end, not an interval before it");

    let mut world = World::new();
    world.glimpse(1, json!(["0/2", 1]));
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
fn a_busy_server_gets_the_time_that_it_asks_for_and_success_forgets_failures() {
    let mut world = World::new();
    world.failed(Some(Duration::from_secs(9)));
    assert!(world.wait() >= Duration::from_secs(9));
    world.failed(None).failed(None).failed(None);
    assert!(world.wait() > Duration::from_secs(2), "{:?}", world.wait());
    world.glimpse(1, json!(["0/2", 0])).failed(None);
    assert!(world.wait() <= Duration::from_secs(1), "{:?}", world.wait());
}

#[test]
fn a_server_that_fails_on_the_whole_object_alone_is_left_alone_ever_longer() {
    let mut world = World::new();
    let failed = || Answer::Failed { problem: "busy".into(), retry_after: None };
    for _ in 0..4 {
        world.glimpse(1, json!(["0/2", 2])).answer(Question::Whole, failed());
    }
    assert!(world.wait() >= Duration::from_secs(4), "{:?}", world.wait());
}

#[test]
fn a_broken_object_is_read_again_once_it_changed_and_is_no_successful_read() {
    let mut world = World::new();
    world.glimpse(1, json!(["0/2", 2])).answer(Question::Whole, Answer::Body(b"{}".to_vec()));
    assert!(world.barrier.awaited().starts_with("cannot understand the Framework"));
    world.glimpse(1, json!(["0/2", 2])).glimpse(2, json!(["0/2", 2])).whole(2, BOTH);
    assert!(matches!(world.next, Next::Pass(_)));

    let mut world = World::new();
    world.glimpse(1, json!(["0/2", 2])).answer(Question::Whole, Answer::Body(b"{}".to_vec()));
    while world.now < MINUTE {
        world.glimpse(1, json!(["0/2", 2]));
    }
    assert!(matches!(world.failure(), Failure::Unread { .. }));
    world.next = world.barrier.first();
    world.answer(Question::Glimpse, Answer::Body(b"<html>".to_vec()));
    assert!(matches!(world.failure(), Failure::Unread { .. }));
}
