//! Replies to the requests that the ends of lifetimes depend on: for the API server's time, and for the
//! deletion of expired Frameworks.

use std::sync::Arc;
use std::time::Duration;

use framework_api::Time;
use framework_core::plan::Report;
use framework_core::{EventReason, lifetime};
use tracing::warn;

use super::Engine;
use super::replies::says_gone;
use crate::delayed::DelayedAction;
use crate::event::{Effect, Measure};
use crate::object::Reply;
use crate::retry::{LASTING, delay};
use framework_message::{Key, Now, Rejection, Ticket};

/// The delay before another request for the time, after a `Date` that was not late enough.
const TICK: Duration = Duration::from_millis(200);
/// The delay before an accepted deletion of a Framework is repeated.
const RETIRED: Duration = Duration::from_secs(60);

impl Engine {
    /// Records the API server's time, before anything is decided by it.
    pub(super) fn record_time(&mut self, now: Now, ticket: Ticket, server: Option<Time>) {
        if self.clock.heard(ticket, self.sending.in_flight.sent_at(ticket), server, now) {
            self.schedule_all(now);
        }
    }

    /// The request for the API server's time got its reply. Only the `Date` of the reply counts.
    pub(super) fn time_answered(&mut self, now: Now, reply: &Reply, server: Option<Time>, jitter: u64) {
        if server.is_none() {
            if !self.clock.time.is_known() && !matches!(reply, Reply::NotSent(_) | Reply::Unknown(_)) {
                warn!("the API server's response has no Date: times are taken from the local clock");
                self.clock.time.give_up(now);
                self.schedule_all(now);
            }
            let delay = delay(reply, self.clock.probe.failed(reply.was_sent()), jitter);
            return self.clock.probe.delay_until(now.steady + delay);
        }
        self.clock.probe.delay_until(now.steady + TICK);
        for key in self.clock.probe.answered() {
            let Some(state) = self.state(&key) else { continue };
            state.schedule.heard(server);
            state.schedule.mark_dirty(now.steady);
            self.schedule(now, &key);
        }
    }

    /// The deletion of an expired Framework got its reply.
    pub(super) fn retired(&mut self, now: Now, key: &Key, reply: &Reply, jitter: u64) {
        let (at, policy) = (self.clock.time.now(now), Arc::clone(&self.policy));
        let Some(state) = self.state(key) else { return };
        match reply {
            Reply::Refused(rejection) if says_gone(rejection) => self.framework_gone(key),
            Reply::Refused(_) | Reply::NotSent(_) | Reply::Unknown(_) => {
                let failures = state.outgoing.fail("retire", reply.was_sent());
                let delay = delay(reply, failures, jitter);
                state.outgoing.delayed.add(now.steady + delay, DelayedAction::Retire);
                let wait = delay.as_secs().max(1);
                let note = match reply {
                    Reply::Refused(Rejection { code, message, .. }) => format!(
                        "the API server does not let the expired Framework be deleted, which is tried again in \
                         {wait} s: {message} ({code})"
                    ),
                    Reply::Unknown(text) if failures >= LASTING => format!(
                        "it is not known whether the expired Framework was deleted, which is tried again in \
                         {wait} s: {text}"
                    ),
                    _ => return,
                };
                self.publish(key, vec![Report::warning(EventReason::DeletionFailed, note)]);
            }
            _ => {
                state.outgoing.delayed.add(now.steady + RETIRED, DelayedAction::Retire);
                state.outgoing.succeed("retire");
                let expiry = state.persisted.as_ref().and_then(|persisted| {
                    lifetime::expiry(&persisted.framework, persisted.status.as_deref()?, &policy)
                });
                if let Some(expiry) = expiry.filter(|expiry| expiry.by_ttl) {
                    let late = Duration::try_from(at.duration_since(expiry.due.timestamp()));
                    let late = late.unwrap_or(Duration::ZERO);
                    self.effects.push(Effect::Measure(Measure::TtlDeletion { late }));
                }
            }
        }
    }
}
