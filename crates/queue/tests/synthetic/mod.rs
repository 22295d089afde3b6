//! Tens of thousands of waiting units behind a quota that is full.
#![allow(dead_code, reason = "not every program that uses it uses all of it")]

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use framework_api::queue::QueuePolicy;
use framework_queue::{
    Amount, Decision, Namespace, QueueFacts, QuotaFacts, ResourceRequests, UnitFacts, UnitPhase, UnitUpdate,
};
use jiff::{SignedDuration, Timestamp};

/// How many CPUs the quota allows; as many units of one CPU run.
pub const RUNNING: usize = 1000;

/// The request of the n-th unit.
pub type Shape = fn(usize) -> ResourceRequests;

pub struct SyntheticLoad {
    pub namespace: Namespace,
    shape: Shape,
    queues: usize,
    running: VecDeque<Arc<str>>,
    came: usize,
    now: i64,
}

fn moment(seconds: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds)
}

/// A job of so many thousandths of a CPU.
fn asks(milli: usize) -> ResourceRequests {
    let cpu = format!("{milli}m").parse().unwrap();
    let memory = format!("{milli}Mi").parse().unwrap();
    [("cpu", cpu), ("memory", memory), ("pods", Amount::units(1))].into_iter().collect()
}

/// Of ten units seven are small, two medium and one large: the mix of Kueue's own performance test.
pub fn mixed(nth: usize) -> ResourceRequests {
    asks([1, 1, 5, 1, 1, 20, 1, 1, 5, 1][nth % 10] * 1000)
}

/// No two units ask the same.
pub fn all_different(nth: usize) -> ResourceRequests {
    asks(1000 + nth)
}

impl SyntheticLoad {
    /// So many units in so many queues. No round was held.
    pub fn new(queues: usize, units: usize, shape: Shape) -> Self {
        let mut namespace = Namespace::new(Duration::from_secs(300));
        let hard = [("cpu", RUNNING), ("requests.memory", RUNNING << 40), ("pods", 10 * RUNNING)];
        let hard = hard.map(|(key, units)| (key.to_owned(), Amount::units(i64::try_from(units).unwrap())));
        namespace.set_quota("team", Some(QuotaFacts { hard: hard.into(), ..Default::default() }));
        for nth in 0..queues {
            let facts = QueueFacts { policy: QueuePolicy::Priority, priority: 0 };
            namespace.set_queue(&format!("queue-{nth}"), Some(facts));
        }
        let mut load = Self { namespace, shape, queues, running: VecDeque::new(), came: 0, now: 0 };
        for nth in 0..RUNNING {
            let uid = format!("00000000-0000-4000-9000-{nth:012}");
            let mut facts = load.facts(nth, asks(1000));
            facts.phase = UnitPhase::Released { usage: asks(1000) };
            load.namespace.set_unit(&*uid, Some(facts));
            load.running.push_back(uid.into());
        }
        for _ in 0..units {
            load.come();
        }
        load
    }

    fn facts(&self, nth: usize, requests: ResourceRequests) -> UnitFacts {
        UnitFacts {
            grows: false,
            queue: format!("queue-{}", nth % self.queues).into(),
            priority: 0,
            enqueued: moment(i64::try_from(nth).unwrap()),
            requests,
            phase: UnitPhase::NEW,
        }
    }

    /// One more unit comes.
    pub fn come(&mut self) {
        let nth = self.came;
        self.came += 1;
        let uid = format!("00000000-0000-4000-8000-{nth:012}");
        let facts = self.facts(nth, (self.shape)(nth));
        self.namespace.set_unit(uid, Some(facts));
    }

    /// The one that has run for the longest time ends.
    pub fn end(&mut self) {
        let uid = self.running.pop_front().expect("somebody runs");
        self.namespace.set_unit(uid, None);
    }

    /// So many seconds pass.
    pub fn pass(&mut self, seconds: i64) {
        self.now += seconds;
    }

    pub fn round(&mut self) -> Vec<Decision> {
        let decisions = self.namespace.round(moment(self.now));
        let released = decisions.iter().filter(|decision| decision.update == UnitUpdate::Release);
        self.running.extend(released.map(|decision| Arc::clone(&decision.uid)));
        decisions
    }

    /// A round, and how many asks it held against the room.
    pub fn counted(&mut self) -> (Vec<Decision>, u64) {
        let before = self.namespace.fit_checks();
        let decisions = self.round();
        (decisions, self.namespace.fit_checks() - before)
    }
}
