//! The state of one Framework: its persisted version, the times of its evaluation, and its requests.
//!
//! Guarantees: metadata, spec and status come from one object version (rule A3). A state is of one UID: it is
//! dropped when that Framework is gone.

use std::sync::Arc;
use std::time::Duration;

use framework_api::name::SLOT_LABEL;
use framework_api::{ExecutionType, FrameworkStatus};
use framework_core::observed::{Admission, Objects};
use framework_core::plan::Report;
use framework_core::snapshot::Trigger;
use framework_core::{Action, Defect, Observed, Policy, queue};
use framework_message::{Key, Now, Slot};
use tracing::warn;

use crate::dispatch::Class;
use crate::history::{Gap, Line};
use crate::logged_lines::LoggedLines;
use crate::object::{FrameworkObject, Unreadable};
use crate::object_cache::{ObjectCache, Source};
use crate::outgoing::Outgoing;
use crate::persisted::Persisted;
use crate::quarantine::Quarantine;
use crate::reported::Reported;
use crate::schedule::Schedule;
use crate::server_time::ServerTime;
use crate::windows::StatusSize;

/// The state of one Framework.
#[derive(Debug)]
pub struct FrameworkState {
    /// `metadata.uid`.
    pub uid: Arc<str>,
    /// Constant for the life of the Framework.
    pub slot: Slot,
    /// The resourceVersion of the newest version seen, by the watch or a reply.
    pub resource_version: u128,
    /// The number of the LIST, or of the watch after it, that last showed the Framework; 0: the watch shows
    /// it no more, or is yet to show it.
    pub list_number: u64,
    /// The content of the newest version; `None`: it cannot be decoded, and the Framework is left alone.
    pub persisted: Option<Persisted>,
    /// The reason why the newest version cannot be decoded, if it cannot.
    pub quarantine: Quarantine,
    /// The Events that were published about the stored form of the Framework.
    pub reported: Reported,
    /// The logged lines of the history about the newest version.
    pub logged: LoggedLines,
    /// When the Framework is evaluated.
    pub schedule: Schedule,
    /// The requests for the Framework.
    pub outgoing: Outgoing,
    /// The last answer of the queue of the Framework.
    pub admission: Option<Admission>,
    /// The growths that the queue has released: their generations, sorted.
    pub growths: Vec<i64>,
    doubt: Option<Doubt>,
    /// When it is read again, because the watch does not select it.
    looked_at: Option<Duration>,
}

/// The watch no longer shows a Framework, which may have lost the label of its slot instead of being deleted.
#[derive(Debug)]
struct Doubt {
    /// A version from this one on shows that the Framework lives.
    version: u128,
    /// Whether a read was sent since then. A reply to an earlier request may be older than its end.
    is_asked: bool,
    /// The line of the history in case the Framework is gone.
    last: Line,
}

impl FrameworkState {
    /// The state of a Framework that is seen for the first time. No request was sent for it yet.
    pub fn open(object: FrameworkObject, slot: Slot, list_number: u64) -> Self {
        let mut state = FrameworkState {
            slot,
            uid: Arc::clone(&object.uid),
            resource_version: object.resource_version,
            list_number,
            persisted: None,
            quarantine: Quarantine::default(),
            reported: Reported::default(),
            logged: LoggedLines::default(),
            schedule: Schedule::default(),
            outgoing: Outgoing::default(),
            admission: None,
            growths: Vec::new(),
            doubt: None,
            looked_at: None,
        };
        state.take_in(object);
        state
    }

    /// Whether the Framework has the label by which the owner of its slot selects it.
    pub fn is_labelled(&self) -> bool {
        let labels =
            self.persisted.as_ref().and_then(|persisted| persisted.framework.metadata.labels.as_ref());
        labels.and_then(|labels| labels.get(SLOT_LABEL)).is_some_and(|label| *label == self.slot.to_string())
    }

    /// An event concerns the Framework: it is to be evaluated.
    pub fn event(&mut self, now: Duration) {
        self.outgoing.write.event(now);
        self.schedule.mark_dirty(now);
    }

    /// The watch no longer shows it, which may have another reason than its deletion: it is read before
    /// anything else is sent for it (rule A6). `version`: the first one that shows that it lives; 0: any one.
    pub fn doubt(&mut self, version: u128, last: Line) {
        self.list_number = 0;
        self.doubt = Some(Doubt { version, is_asked: false, last });
        self.outgoing.doubt();
    }

    /// A read of it is sent.
    pub fn send_read(&mut self) {
        self.outgoing.write.send_read();
        if let Some(doubt) = &mut self.doubt {
            doubt.is_asked = true;
        }
    }

    /// The watch, or a read, has shown it with this version, which ends the doubt unless it is older.
    pub fn seen_alive(&mut self, version: u128, source: Source) {
        let is_watch = source == Source::Watch;
        self.doubt.take_if(|doubt| doubt.version <= version && (is_watch || doubt.is_asked));
    }

    /// Whether the watch, if it selects by label, does not show it, and will not show its end.
    pub fn is_unwatched(&self) -> bool {
        self.list_number == 0 && !self.is_labelled()
    }

    /// It is read again at that moment, unless the watch shows it before.
    pub fn look_at(&mut self, at: Duration) {
        self.looked_at = Some(at);
    }

    /// Whether it may be gone.
    pub fn is_in_doubt(&self) -> bool {
        self.doubt.is_some()
    }

    /// A request has ended. If it has not shown whether the Framework lives, a read follows.
    pub fn doubt_again(&mut self) {
        if self.is_in_doubt() {
            self.outgoing.doubt();
        }
    }

    /// A reply says that it does not exist. Returns its last line, if the watch has shown its end already.
    pub fn take_last_line(&mut self) -> Option<Line> {
        self.doubt.take().map(|doubt| doubt.last)
    }

    /// Whether it can be evaluated: its persisted version is known, and can be read.
    pub fn is_evaluable(&self) -> bool {
        self.outgoing.is_settled() && self.persisted.is_some()
    }

    /// The persisted status.
    pub fn status(&self) -> Option<&Arc<FrameworkStatus>> {
        self.persisted.as_ref()?.status.as_ref()
    }

    /// The size of the status as it is stored.
    pub fn status_size(&self) -> StatusSize {
        self.persisted.as_ref().map_or_else(StatusSize::default, |persisted| StatusSize {
            bytes: persisted.form.bytes,
            tasks: persisted.tasks(),
        })
    }

    /// When it is to be looked at again; requests that are due already are not considered. `time`: the API
    /// server's clock, if anything may be decided.
    pub fn next(&self, now: Now, time: Option<&ServerTime>) -> Option<Duration> {
        let evaluation = time.filter(|_| self.is_evaluable()).and_then(|time| self.schedule.next(now, time));
        evaluation.into_iter().chain(self.outgoing.next(now.steady)).chain(self.looked_at).min()
    }

    /// Whether there is something to send in a class. While it may be gone, only the read of it is sent.
    pub fn wants(&self, class: Class, now: Duration) -> bool {
        let quarantine = class == Class::Record && self.quarantine.is_due() && self.outgoing.is_open(now);
        let waits = self.is_in_doubt() && !self.outgoing.write.is_due(now);
        quarantine || !waits && self.outgoing.wants(class, now)
    }

    /// Another version of the same Framework is persisted. Returns the reports to publish, if it shows that a
    /// write of ours without a reply was accepted.
    pub fn advance(&mut self, object: FrameworkObject, source: Source, policy: &Policy) -> Vec<Report> {
        self.resource_version = object.resource_version;
        self.seen_alive(object.resource_version, source);
        self.outgoing.find();
        let before = self.persisted.as_ref().map(|persisted| Arc::clone(&persisted.framework));
        self.take_in(object);
        if source == Source::Reply
            && policy.defects.has(Defect::MixVersions)
            && let (Some(persisted), Some(before)) = (&mut self.persisted, before)
        {
            persisted.framework = before;
        }
        let spec = self.persisted.as_ref().map(|persisted| &persisted.framework.spec);
        if spec.is_some_and(|spec| spec.execution_type == ExecutionType::Stop) {
            // A large Framework is evaluated up to a second later, and its Pods would be deleted then.
            drop(self.outgoing.outbox.take_creates());
        }
        let write = &mut self.outgoing.write;
        if self.persisted.is_none() {
            self.outgoing.outbox.drop_acts();
            write.withdraw_unsent();
        }
        write.outdate();
        if write.is_unread() {
            write.read(self.resource_version);
        }
        let status = self.persisted.as_ref().and_then(|persisted| persisted.status.as_deref());
        write.settle(status)
    }

    /// Takes in the version that is persisted now, or the reason why it cannot be read.
    fn take_in(&mut self, object: FrameworkObject) {
        let FrameworkObject { stored_bytes, form, content, key, ignored, .. } = object;
        self.reported.found_ignored(ignored);
        let unreadable = match content {
            Ok((framework, status)) => {
                debug_assert!(
                    status.as_ref().is_none_or(|status| {
                        status.attempt_status.task_role_statuses_compressed.is_none()
                    }),
                    "what reaches the engine is not compressed"
                );
                self.reported.readable();
                self.persisted = Some(Persisted { framework, status, stored_bytes, form });
                None
            }
            Err(unreadable) => {
                let reason = &unreadable.reason;
                warn!(framework = %key, %reason, "the Framework cannot be read and is left alone");
                self.persisted = None;
                Some(unreadable)
            }
        };
        self.quarantine = Quarantine::of(unreadable);
    }

    /// Its version counts as one that cannot be read, for this reason.
    pub fn leave_alone(&mut self, reason: &str) {
        let Some(Persisted { framework, status, .. }) = self.persisted.take() else { return };
        self.outgoing.outbox.drop_acts();
        self.outgoing.write.withdraw_unsent();
        let conditions = status.map(|status| status.conditions.clone());
        let unreadable = Unreadable { framework: Some(framework), conditions, ..Unreadable::from(reason) };
        self.quarantine = Quarantine::of(Some(unreadable));
    }

    /// The Framework as the core observes it, with these objects; `None` if it cannot be read.
    pub fn observed<'a>(&'a self, objects: &'a Objects) -> Option<Observed<'a>> {
        let Persisted { framework, status, stored_bytes, .. } = self.persisted.as_ref()?;
        Some(Observed {
            framework,
            stored_bytes: *stored_bytes,
            status: status.as_deref(),
            server_date: self.schedule.server_date(),
            admission: self.admission.as_ref(),
            growths: &self.growths,
            objects,
        })
    }

    /// Whether every status that is, or may become, the persisted one permits an act.
    pub fn permits(&self, action: &Action, policy: &Policy) -> bool {
        self.outgoing.permits(self.persisted.as_ref(), action, policy)
    }

    /// Whether its queue still holds back the attempt that an act begins. Since the act was planned, the spec
    /// may have changed to ask for more than was released.
    pub fn is_held_back(&self, action: &Action, objects: &Objects, policy: &Policy) -> bool {
        let begins = matches!(action, Action::CreateConfigMap { .. });
        let observed = self.observed(objects).filter(|_| begins);
        observed.is_some_and(|o| o.status.is_some_and(|status| queue::waits(status, &o, policy)))
    }

    /// Ends the delays whose time has come.
    pub fn release(&mut self, now: Duration, key: &Key, known: &mut ObjectCache) {
        if self.looked_at.take_if(|at| *at <= now).is_some() && self.is_unwatched() {
            let line = self.last_line(key, Some(Gap::FinalStateUnknown));
            self.doubt(0, line);
        }
        if self.outgoing.release(now, &mut known.objects) {
            self.schedule.mark_dirty(now);
        }
    }

    /// The line about the end of the Framework, as it is persisted.
    pub fn last_line(&self, key: &Key, gap: Option<Gap>) -> Line {
        match &self.persisted {
            Some(Persisted { framework, status, .. }) => Line::Framework {
                trigger: Trigger::OnFrameworkDeletion,
                framework: Arc::clone(framework),
                status: status.clone(),
                gap,
            },
            None => Line::Unreadable {
                key: key.clone(),
                uid: Arc::clone(&self.uid),
                resource_version: self.resource_version,
            },
        }
    }
}
