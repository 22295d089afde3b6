//! Many Frameworks that wait for a time: their cost while they wait, and when the time has come.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use framework_api::FrameworkStatus;
use framework_core::Action;

use super::cluster::{Cluster, generous, policy, relist};
use crate::engine::EngineSettings;
use crate::event::Event;
use crate::object::{FrameworkObject, Reply};
use crate::request::Request;
use framework_message::{Change, Key};

const SECOND: Duration = Duration::from_secs(1);
/// The number of Frameworks that wait.
const MANY: usize = 50_000;
/// Seconds from the beginning until they are due.
const TTL: u32 = 2 * 3600;
const QPS: u32 = 5_000;
/// The time from a request to its reply.
const TRAVEL: Duration = Duration::from_millis(5);

/// A Framework that completed at the beginning.
fn completed() -> FrameworkObject {
    let mut model = Cluster::new(policy());
    model.running("job", 1);
    model.exit("job-w-0", 0);
    model.deliver();
    model.live(SECOND * 3);
    let mut object = model.frameworks["job"].clone();
    let at = Cluster::unsynced(policy(), generous()).server_time();
    let (framework, status) = object.content.as_mut().unwrap();
    Arc::make_mut(framework).spec.ttl_seconds_after_finished = Some(i32::try_from(TTL).unwrap());
    let status: &mut FrameworkStatus = Arc::make_mut(status.as_mut().unwrap());
    status.completion_time = Some(at);
    object
}

/// An engine that starts at `after`, and whose LISTs show all of the Frameworks.
fn listed(settings: EngineSettings, of: &FrameworkObject, after: Duration) -> Cluster {
    let mut cluster = Cluster::unsynced(policy(), settings);
    cluster.now += after;
    for event in relist(true) {
        cluster.step(event);
    }
    for index in 0..MANY {
        let mut object = of.clone();
        let name = format!("job{index}");
        object.key = Key::new("ns", &name);
        object.uid = name.as_str().into();
        let (framework, _) = object.content.as_mut().unwrap();
        let metadata = &mut Arc::make_mut(framework).metadata;
        (metadata.name, metadata.uid) = (Some(name.clone()), Some(name));
        cluster.step(Event::Framework(Change::Listed(object)));
    }
    for event in relist(false) {
        cluster.step(event);
    }
    cluster.turn();
    cluster
}

/// Runs the engine until `end`, with a turn whenever it wants one. Its requests stay unanswered.
fn turns_until(cluster: &mut Cluster, end: Duration) -> usize {
    let mut turns = 0;
    while let Some(wake) = cluster.engine.next_wake().filter(|wake| *wake < end) {
        cluster.now = cluster.now.max(wake);
        cluster.turn();
        turns += 1;
    }
    turns
}

/// The requests that were sent until all were deleted.
#[derive(Debug, Default)]
struct Burst {
    deletes: usize,
    questions: usize,
    others: usize,
    first: Option<Duration>,
    last: Duration,
}

impl Burst {
    fn sent(&mut self, request: &Request, now: Duration) {
        match request {
            Request::AskTime => self.questions += 1,
            Request::Act { action: Action::DeleteFramework, .. } => {
                self.deletes += 1;
                self.first.get_or_insert(now);
                self.last = now;
            }
            _ => self.others += 1,
        }
    }
}

/// Answers everything, each request a moment after it was sent, until all have been deleted.
fn serve(cluster: &mut Cluster) -> Burst {
    let mut burst = Burst::default();
    let mut replies = VecDeque::new();
    while burst.deletes < MANY || !replies.is_empty() {
        cluster.turn();
        for (ticket, request) in std::mem::take(&mut cluster.open) {
            burst.sent(&request, cluster.now);
            replies.push_back((cluster.now + TRAVEL, ticket));
        }
        let reply = replies.front().map(|(at, _)| *at);
        let next = [reply, cluster.engine.next_wake()].into_iter().flatten().min();
        cluster.now = cluster.now.max(next.expect("not all are deleted, and nothing is to come"));
        while let Some((_, ticket)) = replies.pop_front_if(|(at, _)| *at <= cluster.now) {
            let server = Some(cluster.server_time());
            cluster.step(Event::Reply { ticket, reply: Reply::Done, server });
        }
    }
    burst
}

#[test]
fn fifty_thousand_timers_cost_nothing_until_they_fire() {
    let object = completed();
    let mut cluster = listed(generous(), &object, Duration::ZERO);
    let gauges = cluster.engine.gauges();
    assert_eq!((gauges.timers, gauges.ttl_pending), (MANY, MANY), "one timer each");
    let begun = cluster.now;
    cluster.log.clear();
    assert_eq!(turns_until(&mut cluster, begun + SECOND * 3599), 0, "turns in an hour");
    // Then all are looked at once, because the monotonic clock may have stood still.
    assert_eq!(turns_until(&mut cluster, begun + SECOND * (TTL - 1)), 1, "turns in the next");
    assert_eq!(cluster.log, Vec::<String>::new(), "nothing is asked for");
}

#[test]
fn fifty_thousand_due_in_one_second_take_few_questions_and_the_budget() {
    let settings = EngineSettings { qps: QPS.into(), burst: QPS, max_in_flight: 200, ..generous() };
    let (object, due) = (completed(), SECOND * (TTL + 1));
    // An engine that runs from the beginning, one that starts later, and one that starts after the TTL.
    for started in [0, TTL / 2, TTL + 100] {
        let mut cluster = listed(settings.clone(), &object, SECOND * started);
        let burst = serve(&mut cluster);
        assert_eq!((burst.deletes, burst.others), (MANY, 0));
        assert!(burst.questions <= 6, "{burst:?}");
        let (first, last) = (burst.first.unwrap(), burst.last);
        assert!(first >= due, "{first:?} is before {due:?}");
        let could = due.max(SECOND * started);
        assert!(first <= could + SECOND * 3 / 2, "{first:?} is long after {could:?}");
        assert!(
            last - first <= SECOND * (u32::try_from(MANY).unwrap() / QPS + 1),
            "{last:?} after {first:?}"
        );
    }
}
