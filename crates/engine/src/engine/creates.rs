//! Replies to creates, and to the GETs that follow a refused one.

use std::time::Duration;

use framework_core::Action;
use framework_core::observed::{Outcome, Refusal};
use tracing::debug;

use super::Engine;
use crate::cache::Entry;
use crate::delayed::DelayedAction;
use crate::object::{Object, Reply};
use crate::outbox::{Lookup, Why};
use crate::refusal::{RefusalOutcome, judge};
use crate::refusal_text;
use crate::retry::{delay, retry_after};
use framework_message::backoff::{NOT_SENT, REFUSED};
use framework_message::timeout::REPLY_TIMEOUT;
use framework_message::{Key, Now, Rejection};

/// The name by which failures of a create are counted.
fn label(pod: Option<&str>) -> &str {
    pod.unwrap_or("ConfigMap")
}

fn pod_of(action: &Action) -> Option<&str> {
    match action {
        Action::CreatePod { name, .. } => Some(name),
        _ => None,
    }
}

/// A name that an object of an earlier Framework of the name holds is tried again so soon.
const LEFTOVER: Duration = Duration::from_secs(5);

impl Engine {
    /// A create got its reply; `at` is when it was sent.
    pub(super) fn created(
        &mut self,
        now: Now,
        at: Duration,
        key: &Key,
        action: &Action,
        reply: Reply,
        jitter: u64,
    ) {
        let lifetime = self.settings.request_lifetime;
        let pod = pod_of(action);
        let reply = match reply {
            Reply::Object(Object::PodWithout(pod, field)) => {
                self.report_unknown(key, action, &field);
                Reply::Object(Object::Pod(pod))
            }
            reply => reply,
        };
        let Some(Entry { known, state: Some(state) }) = self.cache.get_mut(key) else { return };
        let objects = &mut known.objects;
        let acknowledged = match &reply {
            Reply::Object(Object::Pod(object)) => Some(object.facts.uid.clone()),
            Reply::Object(Object::ConfigMap(object)) => Some(object.facts.uid.clone()),
            _ => None,
        };
        if let Some(uid) = acknowledged {
            state.outgoing.succeed(label(pod));
            state.outgoing.settle_create(pod, Some(Outcome::Acknowledged { uid }), objects);
            return self.pod_created(now, key, pod);
        }
        state.event(now.steady);
        match reply {
            Reply::Refused(rejection) => {
                debug!(framework = %key, pod, ?rejection, "a create was refused");
                let why = match judge(action, &rejection) {
                    RefusalOutcome::Retry => {
                        let code = rejection.code;
                        state.outgoing.create_refused(action, code, now.steady, |failures| {
                            REFUSED.delay(failures, jitter).max(retry_after(&rejection))
                        });
                        let pause = retry_after(&rejection);
                        let why = (Refusal::Transient, rejection.message);
                        return self.refuse(now, key, pod, why, pause, jitter);
                    }
                    RefusalOutcome::AskHolder => Why::Taken,
                    RefusalOutcome::Confirm(refusal) => Why::Refused(refusal, rejection.message),
                };
                state.outgoing.outbox.look_up(Lookup { action: action.clone(), why });
            }
            Reply::NotSent(reason) => {
                debug!(framework = %key, pod, reason, "a create was not sent");
                state.outgoing.settle_create(pod, None, objects);
                let delay = NOT_SENT.delay(state.outgoing.fail(label(pod), false), jitter);
                state.outgoing.pause(now.steady + delay);
            }
            reply => {
                // It may still land: until then no object under its name can be judged.
                debug!(framework = %key, pod, ?reply, "a create has an unknown outcome");
                // A process that was suspended in between may have sent it only now.
                let end = (at + lifetime).max(now.steady + lifetime.saturating_sub(REPLY_TIMEOUT));
                state.outgoing.delayed.add(end, DelayedAction::Create(pod.map(str::to_owned)));
            }
        }
    }

    /// The API server has created a Pod without a field of its template. An Event names each field once.
    fn report_unknown(&mut self, key: &Key, action: &Action, field: &str) {
        let Action::CreatePod { task_role, .. } = action else { return };
        let Some(state) = self.state(key) else { return };
        let Some(persisted) = &state.persisted else { return };
        let mut roles = persisted.framework.spec.task_roles.iter();
        let Some(position) = roles.position(|role| role.name == *task_role) else { return };
        let path = format!("spec.taskRoles[{position}].task.pod.{field}");
        if let Some(report) = state.reported.unknown(path) {
            self.publish(key, vec![report]);
        }
    }

    /// The GET of a name's holder got its reply.
    pub(super) fn looked_up(&mut self, now: Now, key: &Key, lookup: Lookup, reply: Reply, jitter: u64) {
        let pod = pod_of(&lookup.action);
        let Some(Entry { known, state: Some(state) }) = self.cache.get_mut(key) else { return };
        state.event(now.steady);
        let ours = match &reply {
            Reply::Object(Object::Pod(object)) => object.key == *key,
            Reply::Object(Object::ConfigMap(object)) => {
                object.facts.framework_uid.as_deref() == Some(&*state.uid)
            }
            _ => false,
        };
        let uid = match &reply {
            Reply::Object(Object::Pod(object)) => object.facts.uid.as_str(),
            Reply::Object(Object::ConfigMap(object)) => object.facts.uid.as_str(),
            _ => "",
        };
        if ours && (known.remove_tombstone(uid) || known.objects.gone.contains(uid)) {
            // A reply was wrong, and may be again: without a delay the name would be tried over and over.
            let message = "the name is held by an object that was reported gone";
            let why = (Refusal::Transient, message.to_owned());
            self.refuse(now, key, pod, why, Duration::ZERO, jitter);
            self.take_in(key, &reply);
            return;
        }
        if ours {
            // An object that a create without a reply left behind is never adopted. Its deletion frees the
            // name.
            state.outgoing.settle_create(pod, None, &mut known.objects);
            self.take_in(key, &reply);
            return;
        }
        let conflict = |engine: &mut Self, message: String| {
            engine.refuse(now, key, pod, (Refusal::NameConflict, message), Duration::ZERO, jitter);
        };
        match reply {
            Reply::Object(Object::Pod(object)) => {
                conflict(self, format!("the name is taken by a Pod of Framework {}", object.key));
            }
            Reply::Object(Object::ConfigMap(object)) => {
                conflict(self, object.facts.conflict());
                if object.facts.framework_uid.is_some() {
                    self.retry_soon(now, key);
                }
            }
            Reply::Foreign(holder) => conflict(self, holder),
            Reply::Refused(Rejection { code: 404, .. }) => {
                let why = match lookup.why {
                    Why::Taken => {
                        let message = "the name was taken by an object that is gone by now";
                        (Refusal::Transient, message.to_owned())
                    }
                    Why::Refused(refusal, message) => (refusal, message),
                    Why::Unanswered => return state.outgoing.settle_create(pod, None, &mut known.objects),
                };
                self.refuse(now, key, pod, why, Duration::ZERO, jitter);
            }
            reply => {
                let delay = delay(&reply, state.outgoing.fail(label(pod), reply.was_sent()), jitter);
                state.outgoing.delayed.add(now.steady + delay, DelayedAction::Lookup(lookup));
            }
        }
    }

    /// The ConfigMap of an earlier Framework of the name goes when its Pods have ended. With several replicas
    /// the watch of another one shows that.
    fn retry_soon(&mut self, now: Now, key: &Key) {
        let latest = self.clock.time.after(now, LEFTOVER);
        let known = self.cache.get_mut(key).map(|entry| &mut entry.known);
        let create = known.and_then(|known| known.objects.config_map_create.as_mut());
        if let Some(Outcome::Refused { retry_at, .. }) = create.map(|create| &mut create.outcome) {
            *retry_at = latest.min(*retry_at);
        }
    }

    /// Records that a create was refused, and why. It waits for the pause that was asked for at least.
    fn refuse(
        &mut self,
        now: Now,
        key: &Key,
        pod: Option<&str>,
        (refusal, message): (Refusal, String),
        asked: Duration,
        jitter: u64,
    ) {
        let time = self.clock.time;
        let Some(Entry { known, state: Some(state) }) = self.cache.get_mut(key) else { return };
        let delay = REFUSED.delay(state.outgoing.fail(label(pod), true), jitter).max(asked);
        let message = match pod {
            Some(pod) if refusal == Refusal::Transient => {
                refusal_text::newest(&mut known.objects.pod_creates, pod, message)
            }
            _ => message.into(),
        };
        let outcome = Outcome::Refused { refusal, message, retry_at: time.after(now, delay) };
        state.outgoing.settle_create(pod, Some(outcome), &mut known.objects);
    }
}
