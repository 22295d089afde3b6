//! The books of one Framework: what is persisted, what is being written, and what was sent for it.
//!
//! Guarantees: metadata, spec and status come from one object version (rule A3); an act is sent only if every
//! status that is or may become the persisted one permits it (rule A1); creates that are not recorded stay
//! below the limit (rule A7); a create's record lasts until its outcome is persisted or cannot matter any
//! more (rule A2). A state is of one UID: it is dropped when that Framework is gone.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use framework_api::{Framework, FrameworkStatus, Time, name};
#[cfg(feature = "defects")]
use framework_core::Defect;
use framework_core::observed::{Admission, Create, Instance, Objects, Outcome};
use framework_core::permit::permits;
use framework_core::plan::Report;
use framework_core::{Action, Observed, Policy};
use jiff::Timestamp;

use crate::delayed::{Delayed, DelayedAction};
use crate::dispatch::Class;
use crate::object::{Form, FrameworkObject, Unreadable};
use crate::object_cache::{ObjectCache, Source};
use crate::outbox::{Lookup, Outbox, Why};
use crate::quarantine::Trouble;
use crate::server_time::ServerTime;
#[cfg(feature = "defects")]
use crate::status_write::Draft;
use crate::status_write::StatusWrite;
use framework_message::Now;
use framework_message::backoff::Failures;

/// One version of a Framework.
#[derive(Clone, Debug)]
pub struct Persisted {
    /// Metadata and spec.
    pub framework: Arc<Framework>,
    /// Its status; `None`: the controller has not seen it yet.
    pub status: Option<Arc<FrameworkStatus>>,
    /// Length of metadata and spec as the API server stores them.
    pub stored_bytes: usize,
    /// How the status is stored.
    pub form: Form,
}

/// The books of one Framework.
#[derive(Debug)]
pub struct FrameworkState {
    /// `metadata.uid`.
    pub uid: Arc<str>,
    /// For life.
    pub slot: u8,
    /// Of the newest version seen, by the watch or a reply.
    pub resource_version: u128,
    /// The LIST, or what follows it, that last showed the Framework.
    pub epoch: u64,
    /// That version; `None`: it cannot be decoded and is left alone.
    pub persisted: Option<Persisted>,
    /// Why not, then.
    pub unreadable: Option<Unreadable>,
    /// A condition is to be written that says so.
    pub quarantines: bool,
    /// What Events told, or have to tell, of an object that is not as it should be.
    pub trouble: Trouble,
    /// An Event told that a status was compressed although compression is off.
    pub told_compressed: bool,
    /// Metadata and spec as the watch last showed them.
    #[cfg(feature = "defects")]
    pub watched: Option<Arc<Framework>>,
    /// A write that conflicted and is repeated all the same.
    #[cfg(feature = "defects")]
    pub overwrite: Option<Draft>,
    /// The status write.
    pub write: StatusWrite,
    /// What waits to be sent.
    pub outbox: Outbox,
    /// What is held for a time.
    pub delayed: Delayed,
    /// Creates without a known outcome, by Pod name (`None`: the ConfigMap).
    pub creates: BTreeMap<Option<String>, Action>,
    /// How often a create, delete or confirmation failed in a row, by what it is of.
    pub failures: BTreeMap<String, Failures>,
    /// Its deletion was asked for.
    pub retires: bool,
    /// The `Date` that it was waiting for, until the next evaluation: whatever is due later has to ask again,
    /// because the API server's clock may have been set back meanwhile.
    pub server_time: Option<Time>,
    /// The latest of these.
    pub server_date: Option<Time>,
    /// What its queue said last.
    pub admission: Option<Admission>,
    /// Which growths it has released: their generations, sorted.
    pub growths: Vec<i64>,
    /// Nothing is sent before: the API server asked for it, or requests do not even leave.
    pub paused_until: Duration,
    /// A write said that the Framework is gone: the watch will say so too.
    pub lost: bool,
    /// Something happened since the last evaluation.
    pub dirty: bool,
    /// Since when something has been waiting to be evaluated.
    pub dirty_since: Duration,
    /// When it may be evaluated again: bursts are not evaluated event by event.
    pub not_before: Duration,
    /// When the last plan wants to be looked at again, on the steady clock.
    pub wake: Option<Duration>,
    /// The same on the API server's clock.
    pub due: Option<Timestamp>,
    /// When a `Date` is to be fetched for it, on the API server's clock.
    pub proof_due: Option<Time>,
}

impl FrameworkState {
    /// The books of a Framework that is seen for the first time; nothing was sent for it yet.
    pub fn open(object: FrameworkObject, epoch: u64) -> Self {
        let mut state = FrameworkState {
            slot: name::slot(&object.uid),
            uid: Arc::clone(&object.uid),
            resource_version: object.resource_version,
            epoch,
            #[cfg(feature = "defects")]
            watched: object.content.as_ref().ok().map(|(framework, _)| Arc::clone(framework)),
            persisted: None,
            unreadable: None,
            quarantines: false,
            trouble: Trouble::default(),
            told_compressed: false,
            #[cfg(feature = "defects")]
            overwrite: None,
            write: StatusWrite::default(),
            outbox: Outbox::default(),
            delayed: Delayed::default(),
            creates: BTreeMap::new(),
            failures: BTreeMap::new(),
            retires: false,
            server_time: None,
            server_date: None,
            admission: None,
            growths: Vec::new(),
            paused_until: Duration::ZERO,
            lost: false,
            dirty: false,
            dirty_since: Duration::ZERO,
            not_before: Duration::ZERO,
            wake: None,
            due: None,
            proof_due: None,
        };
        state.take_in(object);
        state
    }

    /// Something happened: the Framework is to be evaluated.
    pub fn event(&mut self, now: Duration) {
        self.write.event(now);
        self.mark_dirty(now);
    }

    /// The Framework is to be evaluated, though nothing happened to it.
    pub fn mark_dirty(&mut self, now: Duration) {
        if !self.dirty {
            self.dirty = true;
            self.dirty_since = now;
        }
    }

    /// Whether it can be evaluated: what is persisted is known, and can be read.
    pub fn is_evaluable(&self) -> bool {
        !self.lost && !self.write.is_busy() && self.persisted.is_some()
    }

    /// The persisted status.
    pub fn status(&self) -> Option<&Arc<FrameworkStatus>> {
        self.persisted.as_ref()?.status.as_ref()
    }

    /// How many bytes the status takes as it is stored.
    pub fn status_bytes(&self) -> usize {
        self.persisted.as_ref().map_or(0, |persisted| persisted.form.bytes)
    }

    /// How many Tasks the status has, or will have.
    pub fn tasks(&self) -> usize {
        self.persisted.as_ref().map_or(0, |persisted| match &persisted.status {
            Some(status) => status.task_roles().iter().map(|role| role.task_statuses.len()).sum(),
            None => persisted.framework.spec.task_number(),
        })
    }

    /// Whether the last plan wants to be looked at again by now.
    pub fn is_due(&self, now: Now, time: &ServerTime) -> bool {
        self.wake.is_some_and(|wake| wake <= now.steady) || self.due.is_some_and(|due| due <= time.now(now))
    }

    /// When it is to be looked at again: what is already due to be sent needs no look. `time`: as far as
    /// anything may be decided.
    pub fn next(&self, now: Now, time: Option<&ServerTime>) -> Option<Duration> {
        let evaluation = time.filter(|_| self.is_evaluable()).and_then(|time| {
            let dirty = self.dirty.then(|| self.not_before.max(self.dirty_since));
            let due = self.due.map(|due| time.steady(now, due));
            let proof = self.proof_due.map(|due| time.earliest(now, due.timestamp()));
            [dirty, self.wake, due, proof].into_iter().flatten().min()
        });
        let now = now.steady;
        let reading = self.write.next().filter(|at| *at > now);
        let paused = (self.paused_until > now).then_some(self.paused_until);
        [evaluation, reading, paused, self.delayed.next()].into_iter().flatten().min()
    }

    /// Whether there is something to send in a class.
    pub fn wants(&self, class: Class, now: Duration) -> bool {
        let write = class == Class::Record && (self.write.is_due(now) || self.quarantines);
        now >= self.paused_until && !self.lost && (write || self.outbox.len(class) > 0)
    }

    /// Nothing is sent for a while.
    pub fn pause(&mut self, until: Duration) {
        self.paused_until = self.paused_until.max(until);
    }

    /// Another version of the same Framework is persisted. Says what to publish, if a write of ours without a
    /// reply turns out to have come through.
    pub fn advance(&mut self, object: FrameworkObject, source: Source, policy: &Policy) -> Vec<Report> {
        self.resource_version = object.resource_version;
        self.lost = false;
        self.take_in(object);
        #[cfg(feature = "defects")]
        if let (Some(persisted), Some(watched)) = (&mut self.persisted, &self.watched)
            && source == Source::Reply
            && policy.defects.has(Defect::MixVersions)
        {
            persisted.framework = Arc::clone(watched);
        }
        #[cfg(feature = "defects")]
        if source == Source::Watch {
            self.watched = self.persisted.as_ref().map(|persisted| Arc::clone(&persisted.framework));
        }
        let _ = (source, policy);
        if self.persisted.is_none() {
            self.outbox.clear();
            self.write.withdraw_unsent();
        }
        self.write.outdate();
        if self.write.is_unread() {
            self.write.read();
        }
        let status = self.persisted.as_ref().and_then(|persisted| persisted.status.as_deref());
        self.write.settle(status)
    }

    /// What is observed of the Framework, with these objects of it; `None` if it cannot be read.
    pub fn observed<'a>(&'a self, objects: &'a Objects) -> Option<Observed<'a>> {
        let Persisted { framework, status, stored_bytes, .. } = self.persisted.as_ref()?;
        Some(Observed {
            framework,
            stored_bytes: *stored_bytes,
            status: status.as_deref(),
            server_date: self.server_date,
            admission: self.admission.as_ref(),
            growths: &self.growths,
            objects,
        })
    }

    /// Whether every status that is, or may become, the persisted one permits an act.
    pub fn permits(&self, action: &Action, policy: &Policy) -> bool {
        let Some(Persisted { framework, status: Some(status), .. }) = &self.persisted else { return false };
        #[cfg(feature = "defects")]
        if policy.defects.has(Defect::SendUnpermitted)
            || policy.defects.has(Defect::DeleteBeforePersist) && matches!(action, Action::DeletePod { .. })
        {
            return true;
        }
        let _ = policy;
        permits(status, framework, action)
            && self.write.unsettled_statuses().all(|status| permits(status, framework, action))
    }

    /// Whether a new status keeps the permission of everything that is on its way.
    pub fn keeps_permits(&self, next: &FrameworkStatus, policy: &Policy) -> bool {
        let Some(Persisted { framework, .. }) = &self.persisted else { return false };
        #[cfg(feature = "defects")]
        if policy.defects.has(Defect::SendUnpermitted) {
            return true;
        }
        let _ = policy;
        self.creates.values().all(|action| permits(next, framework, action))
    }

    /// Queues the acts of a plan instead of those queued before, but for what the planned status does not
    /// permit, and what is on its way or held.
    pub fn queue(&mut self, acts: Vec<Action>, next: Option<&FrameworkStatus>, policy: &Policy) {
        let Some(Persisted { framework, .. }) = &self.persisted else { return };
        #[cfg(feature = "defects")]
        let next = next.filter(|_| !policy.defects.has(Defect::SendUnpermitted));
        let _ = policy;
        let wanted = |action: &Action| {
            next.is_none_or(|next| permits(next, framework, action))
                && match action {
                    Action::DeleteFramework => !self.retires,
                    Action::CreatePod { name, .. } => !self.creates.contains_key(&Some(name.clone())),
                    Action::CreateConfigMap { .. } => !self.creates.contains_key(&None),
                    _ => true,
                }
        };
        self.outbox.replace(acts.into_iter().filter(wanted));
    }

    /// Takes note that an act is sent, so that it is not planned again.
    pub fn sent(&mut self, action: &Action, objects: &mut Objects) {
        match action {
            Action::CreateConfigMap { instance } => {
                self.creates.insert(None, action.clone());
                objects.config_map_create = Some(in_flight(instance));
            }
            Action::CreatePod { name, instance, .. } => {
                self.creates.insert(Some(name.clone()), action.clone());
                objects.pod_creates.insert(name.clone(), in_flight(instance));
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

    /// Whether the limit of creates that a crash would lose lets another one go (rule A7).
    pub fn may_create(&self, objects: &Objects, policy: &Policy) -> bool {
        #[cfg(feature = "defects")]
        if policy.defects.has(Defect::UnboundedLoss) {
            return true;
        }
        objects.unrecorded_creates() < policy.unrecorded_creates_limit.max(1)
    }

    /// A create has settled.
    pub fn settle_create(&mut self, pod: Option<&str>, outcome: Option<Outcome>, objects: &mut Objects) {
        let Some(action) = self.creates.remove(&pod.map(str::to_owned)) else { return };
        let (Action::CreatePod { instance, .. } | Action::CreateConfigMap { instance }) = action else {
            return;
        };
        let create = outcome.map(|outcome| Create { instance, outcome });
        match (pod, create) {
            (None, create) => objects.config_map_create = create,
            (Some(name), Some(create)) => {
                objects.pod_creates.insert(name.to_owned(), create);
            }
            (Some(name), None) => {
                objects.pod_creates.remove(name);
            }
        }
    }

    /// A create without a reply can have no effect any more. What effect it had the cache shows; if it shows
    /// none, the watch may lag or the label be gone, and only a GET tells.
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

    /// Ends the holds whose time has come.
    pub fn release(&mut self, now: Duration, known: &mut ObjectCache) {
        while let Some(hold) = self.delayed.take(now) {
            self.mark_dirty(now);
            let objects = &mut known.objects;
            match hold {
                DelayedAction::Create(pod) => self.give_up_create(pod, objects),
                DelayedAction::Delete(uid) => drop(objects.deletes.remove(&uid)),
                DelayedAction::ForcedDelete(uid) => drop(objects.forced_deletes.remove(&uid)),
                DelayedAction::Confirm(uid) => drop(objects.confirms.remove(&uid)),
                DelayedAction::Lookup(lookup) => self.outbox.look_up(lookup),
                DelayedAction::Label(label) => self.outbox.label(label),
                DelayedAction::Retire => self.retires = false,
            }
        }
    }

    /// Counts a failure in a row of what is named so and was sent or was not.
    pub fn fail(&mut self, what: &str, sent: bool) -> u32 {
        self.failures.entry(what.to_owned()).or_default().another(sent)
    }
}

fn in_flight(instance: &Instance) -> Create {
    Create { instance: instance.clone(), outcome: Outcome::InFlight }
}
