//! Whether the controller is alive and ready: a few flags that its loop sets and probes read.
//!
//! Readiness ends with a stop only. A replica whose share of the slots changes lists the new part and acts
//! for the rest. If it were not ready meanwhile, each move would hold up a rolling update and count against
//! the disruption budget.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use framework_message::Now;

use crate::clock::Clock;

/// How long one turn of the loop may take before the controller counts as stuck.
const STUCK: Duration = Duration::from_secs(60);
const IDLE: u64 = u64::MAX;

/// A kind whose first LIST is awaited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Synced {
    /// Of Frameworks.
    Frameworks,
    /// Of ConfigMaps.
    ConfigMaps,
    /// Of Pods.
    Pods,
    /// Of ConfigMaps with the label of a queue.
    ConfigMapsInQueues,
    /// Of Jobs.
    Jobs,
    /// Of Pods with the label of a queue.
    PodsInQueues,
    /// Of QueueUnits.
    QueueUnits,
    /// Of Queues.
    Queues,
    /// Of ResourceQuotas.
    ResourceQuotas,
    /// Of PriorityClasses.
    PriorityClasses,
}

impl Synced {
    /// All kinds, in the order in which they are listed. Jobs of other kinds are missing: not every
    /// cluster has them.
    const ALL: [Synced; 10] = [
        Synced::Frameworks,
        Synced::ConfigMaps,
        Synced::Pods,
        Synced::ConfigMapsInQueues,
        Synced::Jobs,
        Synced::PodsInQueues,
        Synced::QueueUnits,
        Synced::Queues,
        Synced::ResourceQuotas,
        Synced::PriorityClasses,
    ];

    fn name(self) -> &'static str {
        match self {
            Synced::Frameworks => "frameworks",
            Synced::ConfigMaps => "configmaps",
            Synced::Pods => "pods",
            Synced::ConfigMapsInQueues => "configmaps in queues",
            Synced::Jobs => "jobs",
            Synced::PodsInQueues => "pods in queues",
            Synced::QueueUnits => "queueunits",
            Synced::Queues => "queues",
            Synced::ResourceQuotas => "resourcequotas",
            Synced::PriorityClasses => "priorityclasses",
        }
    }

    fn is_of_queueing(self) -> bool {
        !matches!(self, Synced::Frameworks | Synced::ConfigMaps | Synced::Pods)
    }
}

/// The flags.
#[derive(Debug)]
pub struct Health {
    clock: Clock,
    synced: [AtomicBool; Synced::ALL.len()],
    /// Whether the kinds of queueing are awaited, too.
    queueing: AtomicBool,
    /// Whether this replica waits for its slots.
    awaits_slots: AtomicBool,
    stopping: AtomicBool,
    /// The reason why the start-up checks wait.
    waiting: Mutex<Option<String>>,
    /// When, in milliseconds of the monotonic clock, the turn that is under way began.
    turn: AtomicU64,
}

impl Health {
    /// Alive, and not ready.
    pub fn new(clock: Clock) -> Self {
        Health {
            clock,
            synced: Default::default(),
            queueing: AtomicBool::new(false),
            awaits_slots: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            waiting: Mutex::new(None),
            turn: AtomicU64::new(IDLE),
        }
    }

    /// The time on the clock of its turns.
    pub fn now(&self) -> Now {
        self.clock.now()
    }

    /// The kinds of queueing are watched: without their LISTs nothing is released from a queue.
    pub fn await_queueing(&self) {
        self.queueing.store(true, Ordering::Release);
    }

    /// Replicas share the slots: this one is not ready before it has its part.
    pub fn await_slots(&self) {
        self.awaits_slots.store(true, Ordering::Release);
    }

    /// The slots are awaited no longer. Without slots, nothing is listed of the kinds that need slots: these
    /// are not awaited either, now and later.
    pub fn set_slots_taken(&self, has_slots: bool) {
        if !has_slots {
            [Synced::Frameworks, Synced::ConfigMaps, Synced::Pods, Synced::QueueUnits]
                .into_iter()
                .for_each(|kind| self.set_synced(kind));
        }
        self.awaits_slots.store(false, Ordering::Release);
    }

    /// A LIST of that kind is complete.
    pub fn set_synced(&self, kind: Synced) {
        self.synced[kind as usize].store(true, Ordering::Release);
    }

    /// The start-up checks wait for this reason; `None`: no longer.
    pub fn set_waiting(&self, reason: Option<String>) {
        *self.waiting.lock().unwrap_or_else(PoisonError::into_inner) = reason;
    }

    /// The controller is stopping.
    pub fn set_stopping(&self) {
        self.stopping.store(true, Ordering::Release);
    }

    /// A turn of the loop begins.
    pub fn turn_begins(&self) {
        self.turn.store(self.millis(), Ordering::Release);
    }

    /// The turn has ended.
    pub fn turn_ends(&self) {
        self.turn.store(IDLE, Ordering::Release);
    }

    /// Why the controller is not ready; `None`: it is.
    pub fn not_ready(&self) -> Option<String> {
        if self.stopping.load(Ordering::Acquire) {
            return Some("stopping".to_owned());
        }
        if let Some(reason) = &*self.waiting.lock().unwrap_or_else(PoisonError::into_inner) {
            return Some(reason.clone());
        }
        let queueing = self.queueing.load(Ordering::Acquire);
        let missing: Vec<&str> = Synced::ALL
            .into_iter()
            .filter(|kind| queueing || !kind.is_of_queueing())
            .filter(|kind| !self.synced[*kind as usize].load(Ordering::Acquire))
            .map(Synced::name)
            .collect();
        let waits = self.awaits_slots.load(Ordering::Acquire).then(|| "waiting for its slots".to_owned());
        let lists = (!missing.is_empty()).then(|| format!("not listed yet: {}", missing.join(", ")));
        let reasons: Vec<_> = waits.into_iter().chain(lists).collect();
        (!reasons.is_empty()).then(|| reasons.join("; "))
    }

    /// Why the controller is not alive; `None`: it is.
    pub fn not_alive(&self) -> Option<String> {
        let began = self.turn.load(Ordering::Acquire);
        let for_long = began != IDLE && self.millis().saturating_sub(began) > STUCK.as_millis() as u64;
        for_long.then(|| format!("an iteration of the event loop takes more than {} s", STUCK.as_secs()))
    }

    fn millis(&self) -> u64 {
        u64::try_from(self.clock.now().steady.as_millis()).unwrap_or(IDLE - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_turn_that_takes_too_long_is_not_alive() {
        let health = Health::new(Clock::simulated(jiff::Timestamp::UNIX_EPOCH));
        health.turn_begins();
        tokio::time::sleep(STUCK).await;
        assert_eq!(health.not_alive(), None);
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert!(health.not_alive().is_some());
        health.turn_ends();
        tokio::time::sleep(STUCK * 2).await;
        assert_eq!(health.not_alive(), None, "waiting is no turn");
    }

    #[tokio::test]
    async fn kinds_that_are_not_listed_yet_are_named() {
        let health = Health::new(Clock::system());
        health.set_synced(Synced::ConfigMaps);
        assert_eq!(health.not_ready().unwrap(), "not listed yet: frameworks, pods");
        health.set_synced(Synced::Frameworks);
        health.set_synced(Synced::Pods);
        assert_eq!(health.not_ready(), None);
        health.set_waiting(Some("no API server".to_owned()));
        assert_eq!(health.not_ready().unwrap(), "no API server");
        health.set_stopping();
        assert_eq!(health.not_ready().unwrap(), "stopping");
    }

    #[test]
    fn the_kinds_of_queueing_are_awaited_if_they_are_watched() {
        let health = Health::new(Clock::system());
        for kind in [Synced::Frameworks, Synced::ConfigMaps, Synced::Pods] {
            health.set_synced(kind);
        }
        assert_eq!(health.not_ready(), None);
        health.await_queueing();
        for kind in Synced::ALL.into_iter().filter(|kind| *kind != Synced::ResourceQuotas) {
            health.set_synced(kind);
        }
        assert_eq!(health.not_ready().unwrap(), "not listed yet: resourcequotas");
        health.set_synced(Synced::ResourceQuotas);
        assert_eq!(health.not_ready(), None);
    }

    #[test]
    fn a_replica_is_ready_once_it_has_its_share_and_every_kind_is_listed() {
        let health = Health::new(Clock::system());
        health.await_slots();
        for kind in [Synced::Frameworks, Synced::ConfigMaps, Synced::Pods] {
            assert!(health.not_ready().unwrap().starts_with("waiting for its slots; not listed yet: "));
            health.set_synced(kind);
        }
        assert_eq!(health.not_ready().unwrap(), "waiting for its slots");
        health.set_slots_taken(true);
        assert_eq!(health.not_ready(), None);
    }

    #[test]
    fn a_replica_that_gets_no_slots_is_ready_without_their_lists() {
        let health = Health::new(Clock::system());
        health.await_slots();
        health.await_queueing();
        health.set_slots_taken(false);
        let missing = "configmaps in queues, jobs, pods in queues, queues, resourcequotas, priorityclasses";
        assert_eq!(health.not_ready().unwrap(), format!("not listed yet: {missing}"));
        Synced::ALL.into_iter().filter(|kind| kind.is_of_queueing()).for_each(|kind| health.set_synced(kind));
        assert_eq!(health.not_ready(), None);
    }
}
