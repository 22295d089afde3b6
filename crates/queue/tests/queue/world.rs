//! A namespace whose facts read like the domain, and the result of a round in words.

use std::sync::Arc;
use std::time::Duration;

use framework_api::queue::QueuePolicy;
use framework_queue::{
    Amount, Decision, Namespace, QueueFacts, QuotaFacts, ResourceRequests, UnitFacts, UnitPhase, UnitUpdate,
};
use jiff::{SignedDuration, Timestamp};

/// A unit is overdue this long after it was overtaken.
pub const RESERVE_AFTER: Duration = Duration::from_secs(300);

/// So many seconds after the beginning.
pub fn at(seconds: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds)
}

/// `cpu 2 memory 3` in pairs.
fn amounts(text: &str) -> Vec<(&str, Amount)> {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.chunks(2).map(|pair| (pair[0], pair[1].parse().unwrap())).collect()
}

/// Reads requests such as `cpu 2 memory 3`.
pub fn requests(text: &str) -> ResourceRequests {
    amounts(text).into_iter().collect()
}

/// `cpu 2 memory 3` as the limits of a quota of which that much is used.
pub fn quota(hard: &str, used: &str) -> QuotaFacts {
    let map = |text| amounts(text).into_iter().map(|(key, amount)| (key.to_owned(), amount)).collect();
    QuotaFacts { hard: map(hard), used: map(used), ..Default::default() }
}

/// A unit that came so many seconds after the beginning and asks for something.
pub fn unit(queue: &str, seconds: i64, text: &str) -> UnitFacts {
    UnitFacts {
        grows: false,
        queue: queue.into(),
        priority: 0,
        enqueued: at(seconds),
        requests: requests(text),
        phase: UnitPhase::NEW,
    }
}

/// The same with another priority.
pub fn with_priority(priority: i32, facts: UnitFacts) -> UnitFacts {
    UnitFacts { priority, ..facts }
}

/// A namespace, and the moment of its last round.
pub struct World {
    pub namespace: Namespace,
    pub now: i64,
}

impl World {
    /// Of the queues `a` and `b` with policy Priority, and of one quota.
    pub fn new(hard: &str) -> Self {
        let mut world = Self { now: 1000, ..Self::with(hard, RESERVE_AFTER) };
        world.queue("a", QueuePolicy::Priority, 0);
        world.queue("b", QueuePolicy::Priority, 0);
        world
    }

    /// Of one quota, and without queues. A unit is overdue that long after it was overtaken.
    pub fn with(hard: &str, reserve_after: Duration) -> Self {
        let mut namespace = Namespace::new(reserve_after);
        namespace.set_quota("team", Some(quota(hard, "")));
        Self { namespace, now: 0 }
    }

    pub fn queue(&mut self, name: &str, policy: QueuePolicy, priority: i32) {
        self.namespace.set_queue(name, Some(QueueFacts { policy, priority }));
    }

    pub fn set_unit(&mut self, uid: &str, facts: UnitFacts) {
        self.namespace.set_unit(uid, Some(facts));
    }

    pub fn end(&mut self, uid: &str) {
        self.namespace.set_unit(uid, None);
    }

    /// Lets time pass, and then decides. One line a decision, such as `u1 goes`.
    pub fn round(&mut self, seconds: i64) -> Vec<String> {
        self.now += seconds;
        self.namespace.round(at(self.now)).iter().map(said).collect()
    }

    /// The UIDs of those that go, after that time, in their order.
    pub fn released(&mut self, seconds: i64) -> Vec<String> {
        self.now += seconds;
        released(&self.namespace.round(at(self.now))).iter().map(ToString::to_string).collect()
    }

    pub fn position(&self, uid: &str) -> (usize, usize, Option<Arc<str>>) {
        let position = self.namespace.position(uid).unwrap();
        (position.place, position.before, position.directly_before)
    }
}

pub fn released(decisions: &[Decision]) -> Vec<Arc<str>> {
    let goes = |decision: &&Decision| decision.update == UnitUpdate::Release;
    decisions.iter().filter(goes).map(|decision| Arc::clone(&decision.uid)).collect()
}

fn said(Decision { uid, update }: &Decision) -> String {
    match update {
        UnitUpdate::Release => format!("{uid} goes"),
        UnitUpdate::Wait(refusal) => format!("{uid} waits: {}", refusal.reason()),
        UnitUpdate::Overtaken { since } => format!("{uid} is overtaken at {}", since.as_second()),
        UnitUpdate::Reserved => format!("{uid} has capacity reserved"),
    }
}
