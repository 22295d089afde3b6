//! Replies to status writes and reads, deletes, confirmations and labels.
//!
//! A reply for a Framework that is gone changes only the cache. A reply to a request that was sent before its
//! slot was lost changes nothing.

use std::time::Duration;

use framework_api::Time;
use framework_core::plan::Report;
use framework_core::{Action, Defect, EventReason};
use tracing::{debug, warn};

use super::Engine;
use super::refusals::DELETES;
use super::slots::slot_of;
use crate::cache::Entry;
use crate::delayed::DelayedAction;
use crate::event::Effect;
use crate::framework_state::FrameworkState;
use crate::history::NOT_TAKEN;
use crate::in_flight::Purpose;
use crate::object::{Object, Reply};
use crate::object_cache::Source;
use crate::outbox::Label;
use crate::retry::{delay, retry_after};
use framework_message::backoff::{NOT_SENT, REFUSED};
use framework_message::timeout::REPLY_TIMEOUT;
use framework_message::{Key, Now, Rejection, Ticket};

/// After a conflict, the watch shows the version that came first, mostly within milliseconds. Only then the
/// Framework is read.
const WATCH: Duration = Duration::from_millis(500);

/// Finalizers that an Event names.
const NAMED: usize = 8;

impl Engine {
    pub(super) fn replied(&mut self, now: Now, ticket: Ticket, reply: Reply, server: Option<Time>) {
        self.record_time(now, ticket, server);
        if let Some(sent) = self.clock.probe.sent(ticket) {
            self.sending.budget.ended();
            self.effects.extend(server.map(|date| Effect::TimeHeard { sent, date }));
            return self.time_answered(now, &reply, server, self.seed ^ ticket.0);
        }
        let Some(sent) = self.sending.in_flight.end(ticket) else {
            return warn!(?ticket, "a reply names no request in flight");
        };
        if !sent.follows_history {
            self.sending.budget.ended();
        }
        self.record_overload(now, &sent, &reply);
        self.record_latency(now, &sent, &reply);
        if sent.is_forgotten {
            return;
        }
        let (key, reads) = (sent.key.clone(), sent.purpose.reads());
        let jitter = self.seed ^ ticket.0;
        let current = self.state(&key).filter(|state| state.uid == sent.uid);
        let is_current = current.is_some();
        let is_untold = matches!(&reply, Reply::NotSent(reason) if reason == NOT_TAKEN);
        if let Some(state) = current.filter(|_| is_untold) {
            state.logged.clear();
        }
        match (sent.purpose, reply) {
            (Purpose::Write { .. } | Purpose::Read { .. }, Reply::Object(Object::Framework(object)))
                if !is_current && self.grants.contains(slot_of(&object, &self.policy)) =>
            {
                self.apply_framework(now, object, Source::Reply);
            }
            (Purpose::Act(Action::DeletePod { uid, .. } | Action::DeleteConfigMap { uid }), _)
                if !is_current =>
            {
                let objects = &mut self.cache.entry(&key).known.objects;
                objects.deletes.remove(&uid);
                objects.forced_deletes.remove(&uid);
            }
            _ if !is_current => {}
            (Purpose::Write { base }, reply) => self.written(now, sent.at, &key, base, reply, jitter),
            (Purpose::Read { known }, reply) => self.framework_read(now, sent.at, &key, known, reply, jitter),
            (Purpose::Quarantine, reply) => self.quarantined(now, &key, &reply, jitter),
            (Purpose::Act(action), reply) => self.acted(now, sent.at, &key, action, reply, jitter),
            (Purpose::Lookup(lookup), reply) => self.looked_up(now, &key, lookup, reply, jitter),
            (Purpose::Label(label), reply) => self.labelled(now, &key, label, reply, jitter),
        }
        if reads && let Some(entry) = self.cache.get_mut(&key) {
            entry.known.end_read();
        }
        if let Some(state) = self.state(&key) {
            state.doubt_again();
        }
        self.schedule(now, &key);
    }

    pub(super) fn state(&mut self, key: &Key) -> Option<&mut FrameworkState> {
        self.cache.get_mut(key)?.state.as_mut()
    }

    fn written(&mut self, now: Now, at: Duration, key: &Key, base: u128, reply: Reply, jitter: u64) {
        let compression = self.settings.compression;
        let overwrites = self.policy.defects.has(Defect::OverwriteOnConflict);
        let Some(state) = self.state(key) else { return };
        match reply {
            Reply::Object(Object::Framework(object)) if object.resource_version <= base => {
                let failures = state.outgoing.write.refused(true);
                state.schedule.mark_dirty(now.steady);
                self.repeat_at(now, key, REFUSED.delay(failures, jitter), true);
                self.report_undone_status(key, failures);
            }
            Reply::Object(Object::Framework(object)) => {
                let mut reports = state.outgoing.write.accepted();
                reports.extend(state.reported.accepted(object.form, &compression));
                state.schedule.wrote(now.steady);
                self.apply_framework(now, object, Source::Reply);
                self.publish(key, reports);
                self.release_one(now);
            }
            Reply::Refused(Rejection { code: 409, .. }) => {
                let newer = state.resource_version > base;
                let draft = state.outgoing.write.conflicted(base);
                if overwrites {
                    state.outgoing.write.overwrite_later(draft);
                }
                state.outgoing.write.wait_until(now.steady + WATCH);
                // If the watch was faster, it has shown the winning write already.
                if newer {
                    self.read_is_done(now, key, jitter);
                }
            }
            Reply::Refused(Rejection { code: 404, .. }) => {
                state.outgoing.write.refused(true);
                self.framework_gone(key);
            }
            Reply::Refused(rejection) => {
                let failures = state.outgoing.write.refused(true);
                let delay = REFUSED.delay(failures, jitter).max(retry_after(&rejection));
                state.schedule.mark_dirty(now.steady);
                let retry = self.repeat_at(now, key, delay, rejection.code >= 500);
                let Rejection { code, message, .. } = &rejection;
                let retry_in = retry.saturating_sub(now.steady);
                warn!(framework = %key, code, reason = message, ?retry_in, "a status write was refused");
                self.report_failed_status(key, &Reply::Refused(rejection), failures);
            }
            Reply::NotSent(reason) => {
                debug!(framework = %key, reason, "a status write was not sent");
                let delay = NOT_SENT.delay(state.outgoing.write.refused(false), jitter);
                state.outgoing.write.wait_until(now.steady + delay);
                state.schedule.mark_dirty(now.steady);
            }
            reply => {
                debug!(framework = %key, ?reply, "a status write has an unknown outcome");
                // As for a create: a process that was suspended in between may have sent it only now.
                let sent = at.max(now.steady.saturating_sub(REPLY_TIMEOUT));
                let failures = state.outgoing.write.unknown(base, sent);
                self.repeat_at(now, key, REFUSED.delay(failures, jitter), true);
                self.report_failed_status(key, &reply, failures);
            }
        }
    }

    /// The Framework was read; `known` is the version that was known when the read was sent.
    fn framework_read(&mut self, now: Now, at: Duration, key: &Key, known: u128, reply: Reply, jitter: u64) {
        let lifetime = self.settings.request_lifetime;
        // It has the name of ours, which is gone, and another replica acts for it.
        let is_of_others = matches!(&reply, Reply::Object(Object::Framework(object))
            if !self.grants.contains(slot_of(object, &self.policy)));
        let Some(state) = self.state(key) else { return };
        match reply {
            _ if is_of_others => {
                state.outgoing.write.refused(true);
                self.framework_gone(key);
            }
            Reply::Object(Object::Framework(object)) => {
                if object.uid == state.uid && object.resource_version < known {
                    // A read shows the latest version, and versions only grow.
                    let (seen, found) = (known, object.resource_version);
                    self.effects.push(Effect::StoreWentBack { seen, found });
                }
                let version = object.resource_version;
                self.apply_framework(now, object, Source::Reply);
                if let Some(state) = self.state(key) {
                    state.seen_alive(version, Source::Reply);
                    if state.is_in_doubt() {
                        state.outgoing.write.wait_until(now.steady + WATCH);
                    }
                    state.outgoing.write.outlived(at, lifetime);
                }
                self.look_again(now, key);
                self.read_is_done(now, key, jitter);
            }
            Reply::Refused(Rejection { code: 404, .. }) => {
                state.outgoing.write.refused(true);
                self.framework_gone(key);
            }
            reply => {
                let delay = delay(&reply, state.outgoing.write.refused(reply.was_sent()), jitter);
                state.outgoing.write.wait_until(now.steady + delay);
            }
        }
    }

    fn quarantined(&mut self, now: Now, key: &Key, reply: &Reply, jitter: u64) {
        let Some(state) = self.state(key) else { return };
        match reply {
            // It has changed, or is gone: the watch will show that, and another evaluation follows.
            Reply::Refused(Rejection { code: 404 | 409 | 422, .. }) => {}
            Reply::Refused(_) | Reply::NotSent(_) | Reply::Unknown(_) => {
                state.quarantine.retry();
                let delay = delay(reply, state.outgoing.fail("quarantine", reply.was_sent()), jitter);
                state.outgoing.pause(now.steady + delay);
            }
            _ => state.outgoing.succeed("quarantine"),
        }
    }

    fn read_is_done(&mut self, now: Now, key: &Key, jitter: u64) {
        let Some(state) = self.state(key) else { return };
        if let Some(failures) = state.outgoing.write.read(state.resource_version) {
            // It conflicted although nothing has changed.
            state.outgoing.write.wait_until(now.steady + REFUSED.delay(failures, jitter));
        }
        state.schedule.mark_dirty(now.steady);
        if state.outgoing.write.overwrite() {
            state.schedule.clear_dirty();
        }
    }

    fn acted(&mut self, now: Now, at: Duration, key: &Key, action: Action, reply: Reply, jitter: u64) {
        match &action {
            Action::CreateConfigMap { .. } | Action::CreatePod { .. } => {
                self.created(now, at, key, &action, reply, jitter);
            }
            Action::DeletePod { name, uid, force } => {
                if *force {
                    self.report_finalizers(key, &reply);
                }
                let hold = if *force {
                    DelayedAction::ForcedDelete(uid.clone())
                } else {
                    DelayedAction::Delete(uid.clone())
                };
                self.deleted(now, key, Some(name), uid, hold, reply, jitter);
            }
            Action::DeleteConfigMap { uid } => {
                self.deleted(now, key, None, uid, DelayedAction::Delete(uid.clone()), reply, jitter);
            }
            Action::ConfirmPod { name, uid } => self.confirmed(now, key, Some(name), uid, reply, jitter),
            Action::ConfirmConfigMap { uid } => self.confirmed(now, key, None, uid, reply, jitter),
            Action::DeleteFramework => self.retired(now, key, &reply, jitter),
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of one request and of its reply")]
    fn deleted(
        &mut self,
        now: Now,
        key: &Key,
        pod: Option<&str>,
        uid: &str,
        hold: DelayedAction,
        reply: Reply,
        jitter: u64,
    ) {
        let Some(Entry { known, state: Some(state) }) = self.cache.get_mut(key) else { return };
        match &reply {
            Reply::Refused(rejection) if says_gone(rejection) => {
                match pod {
                    Some(name) => known.pod_gone(name, uid),
                    None => known.config_map_gone(uid),
                }
                state.event(now.steady);
            }
            Reply::Refused(_) | Reply::NotSent(_) | Reply::Unknown(_) => {
                debug!(framework = %key, pod, uid, ?reply, "a delete failed and is retried");
                let (failures, at) = state.outgoing.delete_failed(uid, &reply, now.steady, jitter);
                state.outgoing.delayed.add(at, hold);
                self.report_failed_delete(key, pod, &reply, failures);
            }
            Reply::Done if pod.is_none() => {
                state.outgoing.succeed(uid);
                known.config_map_removed(uid);
                state.event(now.steady);
            }
            // Accepted: the watch shows the rest, or has shown it already.
            _ => {
                state.outgoing.succeed(uid);
                state.outgoing.succeed(DELETES);
                if !known.holds(pod, uid) {
                    known.objects.deletes.remove(uid);
                    known.objects.forced_deletes.remove(uid);
                }
                state.schedule.mark_dirty(now.steady);
            }
        }
    }

    /// Not even force ends a Pod that has finalizers: an Event names them, because only users can help.
    fn report_finalizers(&mut self, key: &Key, reply: &Reply) {
        let Reply::Object(Object::Pod(pod)) = reply else { return };
        let holders = pod.finalizers();
        if !holders.is_empty() {
            self.publish(key, vec![Report::warning(EventReason::PodHeld, held_note(&pod.name, &holders))]);
        }
    }

    fn confirmed(&mut self, now: Now, key: &Key, pod: Option<&str>, uid: &str, reply: Reply, jitter: u64) {
        let found = self.take_in(key, &reply);
        let Some(Entry { known, state: Some(state) }) = self.cache.get_mut(key) else { return };
        match (found, &reply) {
            (Some(found), _) if found == uid => {
                let delay = REFUSED.delay(state.outgoing.fail(uid, true), jitter);
                state.outgoing.delayed.add(now.steady + delay, DelayedAction::Confirm(uid.to_owned()));
            }
            (Some(_), _) | (None, Reply::Foreign(_) | Reply::Refused(Rejection { code: 404, .. })) => {
                state.outgoing.succeed(uid);
                match pod {
                    Some(name) => known.pod_gone(name, uid),
                    None => known.config_map_gone(uid),
                }
            }
            (None, reply) => {
                let delay = delay(reply, state.outgoing.fail(uid, reply.was_sent()), jitter);
                state.outgoing.delayed.add(now.steady + delay, DelayedAction::Confirm(uid.to_owned()));
            }
        }
        state.event(now.steady);
    }

    /// Takes in the object that a GET showed, and returns its UID. Restores its label, by which the watch
    /// selects it.
    pub(super) fn take_in(&mut self, key: &Key, reply: &Reply) -> Option<String> {
        let (uid, missing) = self.take_in_unlabelled(key, reply)?;
        if let (Some(missing), Some(state)) = (missing, self.state(key)) {
            state.outgoing.outbox.label(missing);
        }
        Some(uid)
    }

    /// Takes in the object that a GET or a PATCH showed. Returns its UID, and its label if it lacks it.
    fn take_in_unlabelled(&mut self, key: &Key, reply: &Reply) -> Option<(String, Option<Label>)> {
        let Some(Entry { known, state: Some(state) }) = self.cache.get_mut(key) else { return None };
        // An object that counts as gone is there: the next reply or event shows it as it is.
        let (pod, uid, resource_version, label) = match reply {
            Reply::Object(Object::Pod(pod)) if pod.key == *key => {
                known.remove_tombstone(&pod.facts.uid);
                known.apply_pod(pod.clone(), Source::Reply, 0);
                (Some(pod.name.clone()), &pod.facts.uid, pod.resource_version, pod.label)
            }
            Reply::Object(Object::ConfigMap(map)) if map.key == *key => {
                known.remove_tombstone(&map.facts.uid);
                known.apply_config_map(map.clone(), Source::Reply, 0);
                (None, &map.facts.uid, map.resource_version, map.label)
            }
            _ => return None,
        };
        let is_missing = label != Some(state.slot) && known.holds(pod.as_deref(), uid);
        let missing = is_missing.then(|| Label { pod, uid: uid.clone(), resource_version });
        Some((uid.clone(), missing))
    }

    fn labelled(&mut self, now: Now, key: &Key, label: Label, reply: Reply, jitter: u64) {
        let missing = self.take_in_unlabelled(key, &reply).and_then(|(_, missing)| missing);
        let is_back = missing.is_none();
        let label = missing.unwrap_or(label);
        let Some(Entry { known, state: Some(state) }) = self.cache.get_mut(key) else { return };
        match &reply {
            Reply::Object(Object::Pod(_)) | Reply::Object(Object::ConfigMap(_)) | Reply::Done if is_back => {
                state.outgoing.succeed(&label.uid);
            }
            Reply::Refused(Rejection { code: 404, .. }) | Reply::Foreign(_) => match &label.pod {
                Some(name) => known.pod_gone(name, &label.uid),
                None => known.config_map_gone(&label.uid),
            },
            // It has changed since: a confirmation that needs it asks again.
            Reply::Refused(Rejection { code: 409, .. }) => known.forget_unwatched(label.pod.as_deref()),
            // It failed, or a webhook has removed the label again.
            reply => {
                let delay = delay(reply, state.outgoing.fail(&label.uid, reply.was_sent()), jitter);
                state.outgoing.delayed.add(now.steady + delay, DelayedAction::Label(label));
            }
        }
        state.event(now.steady);
    }
}

/// Whether the rejection of a delete proves that the object of that UID no longer exists. A denial by a
/// webhook has none of these codes here.
pub(super) fn says_gone(rejection: &Rejection) -> bool {
    rejection.code == 404 || rejection.code == 409 && rejection.message.contains("UID")
}

/// The note about a Pod that finalizers hold: a template may give it 100,000.
pub(super) fn held_note(name: &str, finalizers: &[String]) -> String {
    let more = finalizers.len().saturating_sub(NAMED);
    let named = finalizers[..finalizers.len() - more].join(", ");
    let rest = if more == 0 { String::new() } else { format!(" and {more} more") };
    format!("the Pod {name} was deleted by force and waits for its finalizers: {named}{rest}")
}
