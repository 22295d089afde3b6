//! The ends of TrainJobs, with an API server that answers as each test wants.

use std::sync::Arc;
use std::time::Duration;

use framework_api::Time;
use framework_api::job_kind::{JobKindRow, built_in};
use framework_core::lifetime::Lifetime;
use framework_core::plan::Report;
use framework_message::{Change, Key, MayAct, Now, Ownership, Rejection, Slot, Slots, Ticket};
use framework_queue::ResourceRequests;
use jiff::Timestamp;

use super::*;
use crate::consumer::JobKind;
use crate::effect::LifetimeMeasure;
use crate::job_lifetime::{ChildEnd, ChildObject, ConditionPlace, DeadlineCondition, JobLifetime};
use crate::object::{DeclaredObject, JobNotes, JobObject, Object, Reply};
use crate::request::QueueRequest;

mod outage;

const SPACE: &str = "team";
const LIFE: Duration = Duration::from_secs(28);

fn row() -> Arc<JobKindRow> {
    Arc::new(built_in().into_iter().find(JobKindRow::is_train_job).unwrap())
}

fn key() -> Key {
    Key::new(SPACE, "train")
}

fn at(second: i64) -> Time {
    Time::floor(Timestamp::from_second(1_800_000_000 + second).unwrap())
}

/// A TrainJob that was created at second 0.
#[derive(Clone, Copy, Default)]
struct Facts {
    version: u128,
    deadline: Option<i64>,
    finished: Option<i64>,
    ttl: Option<i64>,
    overdue: bool,
    deleting: bool,
}

impl Facts {
    fn object(self) -> DeclaredObject {
        let job = JobObject {
            key: key(),
            uid: "uid".into(),
            resource_version: self.version,
            created: at(0).timestamp(),
            controller: None,
            notes: JobNotes::default(),
            queue: None,
            suspended: false,
            finished: self.finished.is_some(),
            deleting: self.deleting,
            class: None,
            requests: Ok(ResourceRequests::default()),
        };
        let (deadline, finished, ttl) = (self.deadline, self.finished.map(at), self.ttl);
        let lifetime = JobLifetime {
            lifetime: Lifetime { created: Some(at(0)), deadline, finished, ttl },
            is_overdue: self.overdue,
            place: ConditionPlace::NoStatus,
            ignored: Vec::new(),
        };
        DeclaredObject { job, row: row(), templates: Vec::new(), lifetime: Some(lifetime) }
    }
}

/// The lifetimes, and the API server's clock, which our estimate follows.
struct World {
    lifetimes: JobLifetimes,
    /// In milliseconds since second 0.
    time: i64,
    effects: Vec<QueueEffect>,
}

impl World {
    fn new(facts: Facts) -> World {
        let mut world = World { lifetimes: JobLifetimes::new(LIFE), time: 0, effects: Vec::new() };
        world.show(Change::Listed(facts.object()));
        world.show(Change::Synced);
        world
    }

    fn now(&self) -> Now {
        let steady = Duration::from_millis(u64::try_from(self.time).unwrap());
        Now { steady, boot: steady, wall: Timestamp::UNIX_EPOCH }
    }

    fn time(&self) -> Timestamp {
        Timestamp::from_millisecond(1_800_000_000_000 + self.time).unwrap()
    }

    fn show(&mut self, change: Change<DeclaredObject>) {
        self.lifetimes.step(&QueueEvent::Declared(JobKind::declared(&row()), change.into()));
    }

    fn shows(&mut self, facts: Facts) {
        self.show(Change::Applied(facts.object()));
    }

    /// The time goes on to that millisecond. The API server answers with its time if it is asked.
    fn to(&mut self, time: i64) {
        self.time = time;
        self.turn();
        if self.lifetimes.asks() {
            let date = Time::floor(self.time());
            self.lifetimes.heard(self.now().steady, date);
        }
        self.turn();
    }

    fn turn(&mut self) {
        self.effects.extend(self.lifetimes.turn(self.now(), self.time()));
    }

    fn next(&mut self) -> Option<(Ticket, QueueRequest)> {
        self.lifetimes.next_request(self.now()).map(|(ticket, request, _)| (ticket, request))
    }

    /// Lets the time pass, at whose end the one request is this.
    #[track_caller]
    fn sends(&mut self, at: i64) -> (Ticket, QueueRequest) {
        self.to(at - 1);
        assert!(self.next().is_none(), "it is too early");
        self.to(at);
        let sent = self.next().expect("its time has come");
        assert!(self.next().is_none(), "one at a time");
        sent
    }

    fn reply(&mut self, ticket: Ticket, reply: Reply) {
        let (now, time) = (self.now(), self.time());
        assert!(self.lifetimes.sent(ticket));
        self.lifetimes.replied(now, time, ticket, reply);
        self.turn();
    }

    fn measures(&self) -> Vec<LifetimeMeasure> {
        let measure = |effect: &QueueEffect| match effect {
            QueueEffect::Lifetime { measure, .. } => *measure,
            _ => None,
        };
        self.effects.iter().filter_map(measure).collect()
    }

    fn reasons(&self) -> Vec<&'static str> {
        let reason = |effect: &QueueEffect| match effect {
            QueueEffect::Lifetime { report: Some(Report { reason, .. }), .. } => Some(*reason),
            _ => None,
        };
        self.effects.iter().filter_map(reason).collect()
    }
}

fn refused(code: u16) -> Reply {
    let message = "no".to_owned();
    Reply::Refused(Rejection { code, reason: "Refused".to_owned(), message, retry_after: None })
}

fn child(end: ChildEnd, controller: &str) -> Reply {
    Reply::Object(Object::Child(ChildObject {
        uid: "child".into(),
        resource_version: 70,
        controller: Some(controller.into()),
        end,
        place: ConditionPlace::Last,
    }))
}

fn is_look(request: &QueueRequest) -> bool {
    matches!(request, QueueRequest::GetChild { job } if *job == key())
}

/// UID and version of the object that fails, and whether it is the JobSet.
fn fails(request: &QueueRequest) -> Option<(&str, u128, bool)> {
    match request {
        QueueRequest::Fail { row, uid, resource_version, .. } => {
            Some((uid, *resource_version, row.is_none()))
        }
        _ => None,
    }
}

#[test]
fn without_a_ttl_nothing_is_deleted() {
    let mut world = World::new(Facts { finished: Some(1), ..Facts::default() });
    world.to(1_000_000_000);
    assert!(world.next().is_none() && !world.lifetimes.asks());
    assert_eq!(world.lifetimes.next_wake(world.now(), world.time()), None);
}

#[test]
fn a_job_of_a_kind_that_is_not_served_any_more_is_not_deleted() {
    let mut world = World::new(Facts { finished: Some(10), ttl: Some(50), ..Facts::default() });
    assert_eq!(world.lifetimes.gauges().ttl_pending, 1);
    world.lifetimes.step(&QueueEvent::NotServed(JobKind::declared(&row())));
    world.to(1_000_000);
    assert!(world.next().is_none() && !world.lifetimes.asks());
    assert_eq!(world.lifetimes.gauges(), LifetimeGauges::default());
}

#[test]
fn an_expired_ttl_deletes_once_in_the_version_that_had_finished() {
    let mut world = World::new(Facts { version: 7, finished: Some(10), ttl: Some(50), ..Facts::default() });
    let (ticket, request) = world.sends(60_000);
    let QueueRequest::DeleteJob { uid, resource_version, .. } = request else { panic!("{request:?}") };
    assert_eq!((&*uid, resource_version), ("uid", 7));
    world.to(60_400);
    world.reply(ticket, Reply::Done);
    assert_eq!(world.measures(), [LifetimeMeasure::TtlDeletion { late: Duration::from_millis(400) }]);
    world.shows(Facts { version: 8, finished: Some(10), ttl: Some(50), deleting: true, ..Facts::default() });
    world.to(1_000_000);
    assert!(world.next().is_none(), "it is on its way out");
}

#[test]
fn a_deletion_that_the_watch_shows_before_its_reply_is_counted() {
    let facts = Facts { version: 7, finished: Some(10), ttl: Some(50), ..Facts::default() };
    for is_gone in [false, true] {
        let mut world = World::new(facts);
        let (ticket, _) = world.sends(60_000);
        let leaving = Facts { version: 8, deleting: true, ..facts }.object();
        world.show(if is_gone { Change::Deleted(leaving) } else { Change::Applied(leaving) });
        world.reply(ticket, Reply::Done);
        assert_eq!(world.measures(), [LifetimeMeasure::TtlDeletion { late: Duration::ZERO }]);
    }
}

#[test]
fn a_ttl_that_has_not_expired_wakes_at_the_right_time() {
    let mut world = World::new(Facts { finished: Some(10), ttl: Some(50), ..Facts::default() });
    world.to(20_000);
    let wake = world.lifetimes.next_wake(world.now(), world.time());
    assert_eq!(wake, Some(Duration::from_millis(60_001)));
    assert_eq!(world.lifetimes.gauges(), LifetimeGauges { ttl_pending: 1, deadlines: Vec::new() });
}

#[test]
fn a_ttl_of_zero_deletes_at_once() {
    let mut world = World::new(Facts { ttl: Some(0), ..Facts::default() });
    world.to(10_500);
    assert!(world.next().is_none(), "it has not finished");
    assert_eq!(world.reasons(), [EventReason::ShortTTLSecondsAfterFinished.as_str()]);
    world.shows(Facts { version: 1, finished: Some(10), ttl: Some(0), ..Facts::default() });
    world.to(10_501);
    let (_, request) = world.next().expect("at once");
    assert!(matches!(request, QueueRequest::DeleteJob { .. }), "{request:?}");
}

#[test]
fn a_deadline_fails_the_job_set_first_and_then_the_job() {
    let facts = Facts { version: 7, deadline: Some(30), ..Facts::default() };
    let mut world = World::new(facts);
    let (ticket, request) = world.sends(30_000);
    assert!(is_look(&request), "{request:?}");
    world.reply(ticket, child(ChildEnd::None, "uid"));
    let (ticket, request) = world.next().expect("the JobSet is there");
    assert_eq!(fails(&request), Some(("child", 70, true)));
    assert_eq!(world.measures(), [], "nothing is stored yet");
    world.reply(ticket, Reply::Done);
    assert_eq!(world.measures(), [LifetimeMeasure::DeadlineExceeded]);
    assert!(world.next().is_none(), "its operator copies the condition");
    world.to(31_000);
    let (ticket, request) = world.next().expect("it did not");
    let QueueRequest::Fail { condition, .. } = &request else { panic!("{request:?}") };
    assert_eq!(condition.at, at(30));
    assert!(condition.message.starts_with("activeDeadlineSeconds is 30, and ended at "));
    assert_eq!(fails(&request), Some(("uid", 7, false)));
    world.reply(ticket, Reply::Done);
    world.shows(Facts { version: 8, finished: Some(30), overdue: true, ..facts });
    world.to(1_000_000);
    assert!(world.next().is_none());
    assert_eq!(world.measures().len(), 1, "one deadline");
}

#[test]
fn a_deadline_that_is_not_reached_wakes_at_it() {
    let mut world = World::new(Facts { deadline: Some(30), ..Facts::default() });
    world.to(10_000);
    let wake = world.lifetimes.next_wake(world.now(), world.time());
    assert_eq!(wake, Some(Duration::from_millis(30_001)));
    assert_eq!(world.lifetimes.gauges(), LifetimeGauges { ttl_pending: 0, deadlines: vec![at(30)] });
    world.shows(Facts { version: 1, deadline: Some(30), finished: Some(20), ..Facts::default() });
    world.to(1_000_000);
    assert!(world.next().is_none(), "it finished in time");
}

#[test]
fn with_both_the_ttl_counts_from_the_end_by_the_deadline() {
    let facts = Facts { deadline: Some(30), ttl: Some(50), ..Facts::default() };
    let mut world = World::new(facts);
    let (ticket, _) = world.sends(30_000);
    world.reply(ticket, child(ChildEnd::None, "uid"));
    let (ticket, request) = world.next().expect("the JobSet is there");
    assert!(fails(&request).is_some());
    world.reply(ticket, Reply::Done);
    world.shows(Facts { version: 8, finished: Some(31), overdue: true, ..facts });
    let (_, request) = world.sends(81_000);
    assert!(matches!(request, QueueRequest::DeleteJob { resource_version: 8, .. }), "{request:?}");
}

#[test]
fn a_clock_that_is_ahead_ends_nothing_early() {
    let mut world = World::new(Facts { finished: Some(10), ttl: Some(50), ..Facts::default() });
    world.to(59_000);
    world.time = 70_000;
    world.turn();
    assert!(world.lifetimes.asks());
    // Our estimate is eleven seconds ahead.
    world.lifetimes.heard(Duration::from_secs(70), at(59));
    assert!(world.next().is_none());
    assert!(world.lifetimes.asks() && !world.lifetimes.asks(), "it is asked once more");
    world.lifetimes.heard(Duration::from_secs(69), at(61));
    assert!(world.next().is_none(), "that request was sent before the end was due");
    world.lifetimes.heard(Duration::from_secs(71), at(60));
    assert!(world.next().is_some());
}

#[test]
fn a_job_set_that_ended_first_keeps_its_end() {
    let mut world = World::new(Facts { deadline: Some(30), ..Facts::default() });
    let (ticket, _) = world.sends(30_000);
    world.reply(ticket, child(ChildEnd::None, "uid"));
    let (ticket, request) = world.next().expect("it runs");
    assert!(fails(&request).is_some());
    // It completed between the two requests.
    world.reply(ticket, refused(409));
    world.to(31_500);
    let (ticket, request) = world.next().expect("it is read again");
    assert!(is_look(&request));
    world.reply(ticket, child(ChildEnd::Other, "uid"));
    world.to(60_000);
    assert!(world.next().is_none(), "its operator reports that it completed");
    assert_eq!(world.measures(), []);
}

#[test]
fn a_job_without_a_job_set_fails_itself_and_a_later_one_fails_too() {
    let facts = Facts { version: 7, deadline: Some(30), ..Facts::default() };
    for absent in [refused(404), child(ChildEnd::None, "another")] {
        let mut world = World::new(facts);
        let (ticket, _) = world.sends(30_000);
        world.reply(ticket, absent);
        let (ticket, request) = world.next().expect("there is no JobSet");
        assert_eq!(fails(&request), Some(("uid", 7, false)));
        world.reply(ticket, Reply::Done);
        world.shows(Facts { version: 8, finished: Some(30), overdue: true, ..facts });
        let (ticket, request) = world.sends(58_000);
        assert!(is_look(&request), "it may have been created meanwhile");
        world.reply(ticket, child(ChildEnd::None, "uid"));
        let (ticket, request) = world.next().expect("it was");
        assert_eq!(fails(&request), Some(("child", 70, true)));
        world.reply(ticket, Reply::Done);
        world.to(1_000_000);
        assert!(world.next().is_none());
        assert_eq!(world.measures(), [LifetimeMeasure::DeadlineExceeded]);
    }
}

#[test]
fn a_condition_that_the_operator_removes_is_copied_again() {
    let facts = Facts { version: 7, deadline: Some(30), ..Facts::default() };
    let mut world = World::new(facts);
    world.to(100_000);
    let condition = DeadlineCondition { at: at(30), message: "late".to_owned() };
    for version in 8..12 {
        let (ticket, request) = world.next().expect("it is past its deadline");
        assert!(is_look(&request));
        world.reply(ticket, child(ChildEnd::Deadline(condition.clone()), "uid"));
        let (ticket, request) = world.next().expect("the JobSet failed");
        let QueueRequest::Fail { row: Some(_), condition: copied, .. } = request else {
            panic!("{request:?}")
        };
        assert_eq!(copied, condition);
        world.reply(ticket, Reply::Done);
        world.shows(Facts { version, ..facts });
        assert!(world.next().is_none(), "not in a loop");
        world.to(world.time + 60_000);
    }
}

#[test]
fn a_refused_deletion_is_reported_and_tried_again_later_and_later() {
    let mut world = World::new(Facts { finished: Some(10), ttl: Some(50), ..Facts::default() });
    let (mut ticket, _) = world.sends(60_000);
    for pause in [1_000, 2_000, 4_000] {
        world.reply(ticket, refused(403));
        world.to(world.time + pause / 2);
        assert!(world.next().is_none());
        world.to(world.time + pause / 2);
        ticket = world.next().expect("another try").0;
    }
    assert_eq!(world.reasons(), [EventReason::DeletionFailed.as_str(); 3]);
    world.reply(ticket, refused(409));
    assert_eq!(world.reasons().len(), 3, "another version decides");
}

#[test]
fn each_job_is_ended_by_the_owner_of_its_namespaces_slot() {
    let facts = Facts { finished: Some(10), ttl: Some(50), ..Facts::default() };
    let slot = Slot::of(SPACE);
    let slots: Slots = [slot].into_iter().collect();
    let ownership = Ownership::none();
    let mut world = World::new(facts);
    let active_slots = ActiveSlots::of(ownership.clone()).without_slots();
    world.lifetimes = JobLifetimes::new(LIFE).with_active_slots(active_slots);
    world.show(Change::Listed(facts.object()));
    world.show(Change::Synced);
    world.to(100_000);
    assert!(world.next().is_none() && world.lifetimes.next_wake(world.now(), world.time()).is_none());
    ownership.own(slot, Some(Duration::from_secs(200)));
    let now = world.now();
    world.lifetimes.begin(now, slots);
    world.to(250_000);
    assert_eq!(ownership.may_act(slot, world.now()), MayAct::Paused);
    assert!(world.next().is_none(), "its proof has run out");
    ownership.own(slot, Some(Duration::from_secs(300)));
    world.to(250_001);
    let (_, _, right) = world.lifetimes.next_request(world.now()).expect("it is proved again");
    assert!(right.is_some() && right == ownership.right(slot));
    assert_eq!(world.lifetimes.unsettled(world.now()), slots);
    world.lifetimes.drain(slots);
    world.lifetimes.lost(slots);
    assert_eq!(world.lifetimes.gauges(), LifetimeGauges::default());
}

#[test]
fn a_look_that_falls_into_a_drain_is_sent_after_it_was_called_off() {
    let mut world =
        World::new(Facts { deadline: Some(30), finished: Some(30), overdue: true, ..Facts::default() });
    world.to(100_000);
    world.lifetimes.drain(Slots::ALL);
    world.to(128_000);
    assert!(world.next().is_none(), "its slot is drained");
    let now = world.now();
    world.lifetimes.begin(now, Slots::ALL);
    world.to(128_001);
    assert!(world.next().is_some_and(|(_, request)| is_look(&request)));
}

#[test]
fn a_request_of_unknown_outcome_may_land_for_its_lifetime() {
    let mut world = World::new(Facts { finished: Some(10), ttl: Some(50), ..Facts::default() });
    let (ticket, _) = world.sends(60_000);
    world.reply(ticket, Reply::Unknown("lost".to_owned()));
    assert!(world.lifetimes.is_settled() && !world.lifetimes.unsettled(world.now()).is_empty());
    assert_eq!(world.lifetimes.settles_at(), Some(Duration::from_secs(60) + LIFE));
    world.to(88_000);
    assert!(world.lifetimes.unsettled(world.now()).is_empty());
}

#[test]
fn after_a_start_only_recent_deadlines_are_confirmed() {
    let facts = Facts { deadline: Some(30), finished: Some(30), overdue: true, ..Facts::default() };
    let mut recent = World::new(facts);
    recent.to(100_000);
    recent.to(128_000);
    assert!(recent.next().is_some_and(|(_, request)| is_look(&request)));
    let mut old = World::new(facts);
    old.to(400_000);
    old.to(1_000_000);
    assert!(old.next().is_none());
}
