//! The requests of one Framework: its status write, and the requests that wait, are in flight, or failed.
//!
//! Guarantees: an act is sent only if every status that is or may become the persisted one permits it (rule
//! A1). Creates that are not recorded stay below the limit (rule A7). A create's record lasts until its
//! outcome is persisted or can have no effect any more (rule A2).

use std::collections::BTreeMap;
use std::time::Duration;

use framework_api::{Framework, FrameworkStatus};
use framework_core::first_attempt;
use framework_core::observed::{Create, Instance, Objects, Outcome};
use framework_core::permit::{deletes_unrecorded, permits};
use framework_core::{Action, Defect, Policy};
use framework_message::backoff::Failures;

use crate::delayed::{Delayed, DelayedAction};
use crate::dispatch::Class;
use crate::object::Reply;
use crate::outbox::{Lookup, Outbox, Why};
use crate::persisted::Persisted;
use crate::probes::Probes;
use crate::retry::{LASTING, delay};
use crate::status_write::StatusWrite;

/// The most names whose failures are counted: a few for each of 10,000 Tasks.
const MOST_FAILURES: usize = 32_768;

/// The least time between two repetitions of deletes that have failed again and again. A webhook may refuse
/// each of 10,000 Pods for ever: one Framework spends at most an eighth of the default budget on them.
const BETWEEN_DELETES: Duration = Duration::from_millis(100);

/// The requests of one Framework.
#[derive(Debug, Default)]
pub struct Outgoing {
    /// The status write.
    pub write: StatusWrite,
    /// Requests that wait to be sent.
    pub outbox: Outbox,
    /// Acts that may not be planned again yet, and creates whose outcome is open.
    pub delayed: Delayed,
    /// Creates without a known outcome, by Pod name (`None`: the ConfigMap).
    creates: BTreeMap<Option<String>, Action>,
    /// TaskRoles whose creates are refused for now.
    probes: Probes,
    /// How often a create, delete, confirmation or label failed in a row, by the name or UID of its object.
    /// Refused deletes are also counted together.
    failures: BTreeMap<String, Failures>,
    /// The last time that is planned for the repetition of a delete.
    deletes_planned: Duration,
    /// The deletion of the Framework was asked for.
    retires: bool,
    /// Nothing is sent before this time: the API server asked for the pause, or requests cannot leave.
    paused_until: Duration,
    /// A reply reported that the Framework is gone; the watch is yet to show that.
    lost: bool,
}

impl Outgoing {
    /// Whether the persisted version is known, so that the Framework may be evaluated.
    pub fn is_settled(&self) -> bool {
        !self.lost && !self.write.is_busy()
    }

    /// Whether there is something to send in a class.
    pub fn wants(&self, class: Class, now: Duration) -> bool {
        let write = class == Class::Record && self.write.is_due(now);
        self.is_open(now) && (write || self.outbox.len(class) > 0)
    }

    /// Whether anything may be sent at all.
    pub fn is_open(&self, now: Duration) -> bool {
        now >= self.paused_until && !self.lost
    }

    /// The next time at which more requests can be sent or planned.
    pub fn next(&self, now: Duration) -> Option<Duration> {
        let reading = self.write.next().filter(|at| *at > now);
        let paused = (self.paused_until > now).then_some(self.paused_until);
        [reading, paused, self.delayed.next()].into_iter().flatten().min()
    }

    /// Nothing is sent for a while.
    pub fn pause(&mut self, until: Duration) {
        self.paused_until = self.paused_until.max(until);
    }

    /// The Framework may be gone: it is read before anything else is sent.
    pub fn doubt(&mut self) {
        self.outbox.drop_acts();
        self.write.doubt();
    }

    /// A reply reported that the Framework is gone: nothing is sent until the watch has shown its state.
    pub fn lose(&mut self) {
        self.lost = true;
        self.outbox.drop_acts();
    }

    /// Whether a reply reported that the Framework is gone.
    pub fn is_lost(&self) -> bool {
        self.lost
    }

    /// The Framework exists. Returns whether it had been lost.
    pub fn find(&mut self) -> bool {
        std::mem::replace(&mut self.lost, false)
    }

    /// Whether every status that is, or may become, the persisted one permits an act.
    pub fn permits(&self, persisted: Option<&Persisted>, action: &Action, policy: &Policy) -> bool {
        let Some(Persisted { framework, status, .. }) = persisted else { return false };
        let is_permitted = |status: &FrameworkStatus| permits(status, framework, action);
        let by_unsettled = || !self.write.is_untracked() && self.write.unsettled_statuses().all(is_permitted);
        let Some(status) = status else {
            // The first ConfigMap (rule A11).
            return first_attempt::permits(framework, action, policy) && by_unsettled();
        };
        if policy.defects.has(Defect::SendUnpermitted)
            || policy.defects.has(Defect::DeleteBeforePersist) && matches!(action, Action::DeletePod { .. })
        {
            return true;
        }
        is_permitted(status) && by_unsettled()
    }

    /// Whether a new status of this Framework keeps the permission of every create in flight.
    pub fn keeps_permits(&self, framework: &Framework, next: &FrameworkStatus, policy: &Policy) -> bool {
        policy.defects.has(Defect::SendUnpermitted)
            || self.creates.values().all(|action| permits(next, framework, action))
    }

    /// Replaces the queued acts with those of a plan. Leaves out acts that the planned status does not
    /// permit, creates that are in flight, delayed or refused for now, and a repeated deletion of the
    /// Framework.
    pub fn queue(
        &mut self,
        now: Duration,
        framework: &Framework,
        mut acts: Vec<Action>,
        next: Option<&FrameworkStatus>,
        policy: &Policy,
    ) {
        let next = next.filter(|_| !policy.defects.has(Defect::SendUnpermitted));
        let wanted = |action: &Action| {
            next.is_none_or(|next| permits(next, framework, action))
                && match action {
                    Action::DeleteFramework => !self.retires,
                    Action::CreatePod { name, .. } => !self.creates.contains_key(&Some(name.clone())),
                    Action::CreateConfigMap { .. } => !self.creates.contains_key(&None),
                    _ => true,
                }
        };
        acts.retain(wanted);
        self.probes.thin(&mut acts, now);
        self.outbox.replace(acts);
    }

    /// Leaves out what a write of an earlier owner may forbid that was not seen yet: creates, and deletes of
    /// objects that the persisted status does not record. If there are any, returns when that write can no
    /// longer land.
    pub fn hold_back_inherited(&self, persisted: &Persisted, acts: &mut Vec<Action>) -> Option<Duration> {
        let (settles_at, status) = (self.write.inherited()?, persisted.status.as_ref()?);
        let planned = acts.len();
        let creates =
            |action: &Action| matches!(action, Action::CreateConfigMap { .. } | Action::CreatePod { .. });
        acts.retain(|action| !creates(action) && !deletes_unrecorded(status, action));
        (acts.len() < planned).then_some(settles_at)
    }

    /// Records that an act is sent, so that it is not planned again.
    pub fn sent(&mut self, action: &Action, objects: &mut Objects) {
        self.probes.sent(action);
        match action {
            Action::CreateConfigMap { instance } => {
                self.creates.insert(None, action.clone());
                objects.config_map_create = Some(in_flight(instance));
            }
            Action::CreatePod { name, instance, .. } => {
                self.creates.insert(Some(name.clone()), action.clone());
                objects.pod_creates.insert(name, in_flight(instance));
            }
            Action::DeletePod { uid, force: true, .. } => {
                objects.forced_deletes.insert(uid.clone());
                objects.deletes.insert(uid.clone());
            }
            Action::DeleteConfigMap { uid } | Action::DeletePod { uid, .. } => {
                objects.deletes.insert(uid.clone());
            }
            Action::ConfirmConfigMap { uid } | Action::ConfirmPod { uid, .. } => {
                objects.confirms.insert(uid.clone());
            }
            Action::DeleteFramework => self.retires = true,
        }
    }

    /// An earlier owner of the slot may have sent a create, which may land until that moment. One that was
    /// answered has made its object, and no other one can. One of our own in flight settles by itself.
    pub fn inherit(&mut self, action: &Action, until: Duration, objects: &mut Objects) {
        let known = match action {
            Action::CreateConfigMap { instance } => objects.config_map_create.as_ref().zip(Some(instance)),
            Action::CreatePod { name, instance, .. } => objects.pod_creates.get(name).zip(Some(instance)),
            _ => None,
        };
        let pod = match action {
            Action::CreatePod { name, .. } => Some(name.clone()),
            _ => None,
        };
        let is_made = |create: &Create| matches!(create.outcome, Outcome::Acknowledged { .. });
        if self.creates.contains_key(&pod)
            || known.is_some_and(|(create, instance)| create.instance == *instance && is_made(create))
        {
            return;
        }
        self.sent(action, objects);
        self.delayed.add(until, DelayedAction::Create(pod));
    }

    /// Whether a create without a reply may have an effect after that moment.
    pub fn may_land_after(&self, end: Duration) -> bool {
        self.delayed.creates_after(end).any(|pod| self.creates.contains_key(pod))
    }

    /// A create has settled.
    pub fn settle_create(&mut self, pod: Option<&str>, outcome: Option<Outcome>, objects: &mut Objects) {
        let Some(action) = self.creates.remove(&pod.map(str::to_owned)) else { return };
        match &outcome {
            Some(Outcome::Acknowledged { .. }) => self.probes.accepted(&action),
            _ => self.probes.settled(&action),
        }
        let (Action::CreatePod { instance, .. } | Action::CreateConfigMap { instance }) = action else {
            return;
        };
        let create = outcome.map(|outcome| Create { instance, outcome });
        match (pod, create) {
            (None, create) => objects.config_map_create = create,
            (Some(name), Some(create)) => {
                objects.pod_creates.insert(name, create);
            }
            (Some(name), None) => {
                objects.pod_creates.remove(name);
            }
        }
    }

    /// A create was refused with an HTTP status, for a reason that may pass: creates of its TaskRole wait.
    /// After a delay, one of all that were refused so is sent.
    pub fn create_refused(
        &mut self,
        action: &Action,
        code: u16,
        now: Duration,
        delay: impl FnOnce(u32) -> Duration,
    ) {
        let Some(until) = self.probes.refused(action, code, now, delay) else { return };
        let mut creates = self.outbox.take_creates();
        self.probes.thin(&mut creates, now);
        self.outbox.put_creates(creates);
        self.delayed.add(until, DelayedAction::Probe);
    }

    /// A create without a reply can have no effect any more. The cache shows its effect. If it shows none,
    /// the watch may lag or the label be gone, and only a GET decides.
    fn give_up_create(&mut self, pod: Option<String>, objects: &mut Objects) {
        let shown = match &pod {
            Some(name) => objects.pods.contains_key(name),
            None => objects.config_map.is_some(),
        };
        if shown {
            self.settle_create(pod.as_deref(), None, objects);
        } else if let Some(action) = self.creates.get(&pod).cloned() {
            self.outbox.look_up(Lookup { action, why: Why::Unanswered });
        }
    }

    /// Ends the delays whose time has come. Returns whether there were any.
    pub fn release(&mut self, now: Duration, objects: &mut Objects) -> bool {
        let mut any = false;
        while let Some(delayed) = self.delayed.take(now) {
            any = true;
            match delayed {
                DelayedAction::Create(pod) => self.give_up_create(pod, objects),
                DelayedAction::Delete(uid) => drop(objects.deletes.remove(&uid)),
                DelayedAction::ForcedDelete(uid) => drop(objects.forced_deletes.remove(&uid)),
                DelayedAction::Confirm(uid) => drop(objects.confirms.remove(&uid)),
                DelayedAction::Lookup(lookup) => self.outbox.look_up(lookup),
                DelayedAction::Label(label) => self.outbox.label(label),
                DelayedAction::Retire => self.retires = false,
                DelayedAction::Probe => {}
            }
        }
        any
    }

    /// Counts a failure in a row for this name. `sent`: whether the request left.
    pub fn fail(&mut self, what: &str, sent: bool) -> u32 {
        // A name may never succeed, because its object ended by itself. A forgotten one counts from zero.
        if self.failures.len() >= MOST_FAILURES && !self.failures.contains_key(what) {
            self.failures.pop_first();
        }
        self.failures.entry(what.to_owned()).or_default().another(sent)
    }

    /// A delete of the object with this UID failed. Returns how often in a row, and when it may be repeated.
    /// Deletes that fail again and again take turns.
    pub fn delete_failed(&mut self, uid: &str, reply: &Reply, now: Duration, jitter: u64) -> (u32, Duration) {
        let failures = self.fail(uid, reply.was_sent());
        let own = now + delay(reply, failures, jitter);
        // One that did not leave costs the API server nothing.
        if failures < LASTING || !reply.was_sent() {
            return (failures, own);
        }
        self.deletes_planned = self.deletes_planned.max(now) + BETWEEN_DELETES;
        (failures, own.max(self.deletes_planned))
    }

    /// A request for this name succeeded: forgets the failures of the name.
    pub fn succeed(&mut self, what: &str) {
        self.failures.remove(what);
    }
}

/// Whether the limit of creates that a crash would lose permits another one (rule A7).
pub fn may_create(objects: &Objects, policy: &Policy) -> bool {
    policy.defects.has(Defect::UnboundedLoss) || objects.expectations() < policy.expectations_limit.max(1)
}

fn in_flight(instance: &Instance) -> Create {
    Create { instance: instance.clone(), outcome: Outcome::InFlight }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use framework_message::Rejection;

    const SECOND: Duration = Duration::from_secs(1);

    fn create() -> Action {
        Action::CreateConfigMap { instance: Instance::FrameworkAttempt { attempt_id: 0 } }
    }

    #[test]
    fn a_create_stays_known_until_it_has_settled() {
        let (mut outgoing, mut objects) = (Outgoing::default(), Objects::default());
        outgoing.sent(&create(), &mut objects);
        assert_eq!(objects.config_map_create.as_ref().unwrap().outcome, Outcome::InFlight);
        outgoing.settle_create(None, Some(Outcome::Acknowledged { uid: "map".into() }), &mut objects);
        let outcome = objects.config_map_create.take().unwrap().outcome;
        assert_eq!(outcome, Outcome::Acknowledged { uid: "map".into() });
        outgoing.settle_create(None, Some(Outcome::InFlight), &mut objects);
        assert_eq!(objects.config_map_create, None, "it has settled once");
    }

    #[test]
    fn a_create_without_a_reply_is_looked_up_in_the_end() {
        let (mut outgoing, mut objects) = (Outgoing::default(), Objects::default());
        outgoing.sent(&create(), &mut objects);
        outgoing.delayed.add(SECOND, DelayedAction::Create(None));
        assert_eq!(outgoing.next(Duration::ZERO), Some(SECOND));
        assert!(!outgoing.release(SECOND / 2, &mut objects));
        assert!(outgoing.release(SECOND, &mut objects));
        assert_eq!(outgoing.outbox.take_lookup().map(|lookup| lookup.why), Some(Why::Unanswered));
    }

    #[test]
    fn the_end_of_a_hold_settles_no_create_of_our_own() {
        let (mut outgoing, mut objects) = (Outgoing::default(), Objects::default());
        outgoing.sent(&create(), &mut objects);
        // The status could not be read for a while, and permits the create.
        outgoing.inherit(&create(), SECOND, &mut objects);
        assert!(!outgoing.release(SECOND, &mut objects), "its reply, or the end of its life, is awaited");
        assert_eq!(outgoing.outbox.take_lookup(), None);
    }

    #[test]
    fn nothing_leaves_while_it_is_paused_or_the_framework_is_lost() {
        let mut outgoing = Outgoing::default();
        let label = crate::outbox::Label { pod: None, uid: "u".into(), resource_version: 1 };
        outgoing.outbox.label(label.clone());
        assert!(outgoing.wants(Class::Record, Duration::ZERO) && !outgoing.wants(Class::Create, SECOND));
        outgoing.pause(SECOND);
        outgoing.pause(SECOND / 2);
        assert!(!outgoing.wants(Class::Record, SECOND / 2) && outgoing.wants(Class::Record, SECOND));
        assert_eq!(outgoing.next(Duration::ZERO), Some(SECOND));
        outgoing.lose();
        outgoing.outbox.label(label);
        assert!(!outgoing.wants(Class::Record, SECOND) && !outgoing.is_settled());
        assert!(outgoing.find() && outgoing.wants(Class::Record, SECOND));
    }

    #[test]
    fn failures_are_counted_by_name_until_one_works() {
        let mut outgoing = Outgoing::default();
        assert_eq!(["a", "a", "b"].map(|what| outgoing.fail(what, true)), [1, 2, 1]);
        outgoing.succeed("a");
        assert_eq!(["a", "b"].map(|what| outgoing.fail(what, true)), [1, 2]);
    }

    #[test]
    fn failures_of_objects_that_never_come_back_are_forgotten() {
        let mut outgoing = Outgoing::default();
        (0..100_000).for_each(|number| _ = outgoing.fail(&format!("{number:06}"), true));
        assert_eq!(outgoing.failures.len(), MOST_FAILURES);
        assert_eq!(outgoing.fail("099999", true), 2, "the last ones are known");
    }

    #[test]
    fn deletes_that_are_refused_again_and_again_take_turns() {
        const PODS: u32 = 3000;
        let (mut outgoing, end) = (Outgoing::default(), SECOND * 600);
        let (reason, message) = (String::new(), String::new());
        let refused = Reply::Refused(Rejection { code: 403, reason, message, retry_after: None });
        let mut due: BTreeSet<(Duration, u32)> = (0..PODS).map(|pod| (Duration::ZERO, pod)).collect();
        let mut sent = 0;
        while let Some((now, pod)) = due.pop_first().filter(|(now, _)| *now < end) {
            sent += 1;
            let (_, at) = outgoing.delete_failed(&pod.to_string(), &refused, now, 0);
            due.insert((at, pod));
        }
        // Each Pod by its own back-off four times, and then ten Pods a second.
        assert!((15_000..=4 * PODS + 6000).contains(&sent), "{sent}");
        let last = due.last().expect("all but one wait").0;
        assert!(last <= end + SECOND * 310, "each has its turn in five minutes: {last:?}");
    }

    #[test]
    fn a_few_refused_deletes_follow_their_own_back_off() {
        let mut outgoing = Outgoing::default();
        let unknown = Reply::Unknown("timed out".to_owned());
        for failures in 1..=8 {
            let own = SECOND + delay(&unknown, failures, 7);
            for uid in ["a", "b", "c"] {
                assert_eq!(outgoing.delete_failed(uid, &unknown, SECOND, 7), (failures, own));
            }
        }
        let not_sent = Reply::NotSent("connection refused".to_owned());
        for failures in 1..=5 {
            for pod in 0..1000 {
                let found = outgoing.delete_failed(&pod.to_string(), &not_sent, SECOND, 7);
                assert_eq!(found, (failures, SECOND + delay(&not_sent, failures, 7)), "an outage passes");
            }
        }
    }
}
