//! The one status write of a Framework: gathered, sent, and settled before the next one.
//!
//! Guarantees: at most one write is in flight. While a write is in flight, or its outcome is not known, the
//! Framework is not evaluated. Every status that is, or may become, the persisted one is in
//! [`StatusWrite::unsettled_statuses`], and an act needs the permission of all of them (rule A1).

use std::sync::Arc;
use std::time::Duration;

use framework_api::FrameworkStatus;
use framework_core::Urgency;
use framework_core::plan::Report;

use crate::history::{self, Line};
use crate::windows::{StatusSize, Windows};
use framework_message::backoff::Failures;

/// A status to be written, and the reports for users once it is persisted.
#[derive(Clone, Debug)]
pub struct Draft {
    /// The status.
    pub status: Arc<FrameworkStatus>,
    /// The reports to publish once it is persisted.
    pub reports: Vec<Report>,
    /// Lines of the history about the replaced objects: they are written before the write leaves.
    pub history: Vec<Line>,
}

/// A write that may have had its effect, or may yet have it.
#[derive(Debug)]
struct Possible {
    draft: Draft,
    sent: Duration,
}

/// A write that conflicted or got no reply.
#[derive(Clone, Copy, Debug)]
struct Failed {
    /// The version that it was computed from.
    base: u128,
    /// Whether it was counted as a failure.
    counted: bool,
}

/// So many writes of unknown outcome are remembered. They keep their statuses, which may be large.
const MOST_POSSIBLE: usize = 4;

#[derive(Debug, Default)]
enum WriteStage {
    /// Nothing to write, or changes gather.
    #[default]
    Idle,
    /// To be sent as soon as the budget allows.
    Due(Draft),
    InFlight(Draft),
    /// The Framework is to be read: the write conflicted, or no reply came.
    Unread,
    Reading,
}

/// The status write of one Framework.
#[derive(Debug, Default)]
pub struct StatusWrite {
    stage: WriteStage,
    /// Writes with unknown outcome, sent for the persisted resourceVersion: one of them may yet be persisted.
    possible: Vec<Possible>,
    /// When the newest one was sent of those that are not in that list any more.
    untracked: Option<Duration>,
    /// Until then a write of an earlier owner may be persisted, which may record its creates.
    inherited: Option<Duration>,
    /// The last write, if it conflicted or got no reply, until the Framework is read.
    failed: Option<Failed>,
    first_change: Option<Duration>,
    /// The urgency of the changes that gather.
    urgency: Urgency,
    last_event: Duration,
    last_sent: Option<Duration>,
    not_before: Duration,
    /// No write is sent before: the one before took much history.
    after_history: Duration,
    failures: Failures,
    /// See [`StatusWrite::overwrite_later`].
    overwrite: Option<Box<Draft>>,
}

impl StatusWrite {
    /// An event concerns the Framework: more may follow.
    pub fn event(&mut self, now: Duration) {
        self.last_event = now;
    }

    /// Whether the Framework may not be evaluated, because its persisted version is being changed or is
    /// unknown.
    pub fn is_busy(&self) -> bool {
        matches!(self.stage, WriteStage::InFlight(_) | WriteStage::Unread | WriteStage::Reading)
    }

    /// Whether there is something to send.
    pub fn is_due(&self, now: Duration) -> bool {
        match self.stage {
            WriteStage::Due(_) => true,
            WriteStage::Unread => now >= self.not_before,
            _ => false,
        }
    }

    /// There is nothing to write (any more).
    pub fn withdraw(&mut self) {
        self.stage = WriteStage::Idle;
        self.first_change = None;
        self.urgency = Urgency::Record;
    }

    /// Withdraws a write that is not sent yet.
    pub fn withdraw_unsent(&mut self) {
        if matches!(self.stage, WriteStage::Due(_)) {
            self.withdraw();
        }
    }

    /// The persisted version is not the one that the unsent write was computed from. The write is computed
    /// again, and its waiting time counts.
    pub fn outdate(&mut self) {
        if matches!(self.stage, WriteStage::Due(_)) {
            self.stage = WriteStage::Idle;
        }
    }

    /// Makes the write due if its time has come; otherwise returns when to evaluate again. `size`: of the
    /// status as it is stored now.
    pub fn propose(
        &mut self,
        draft: Draft,
        urgency: Urgency,
        size: StatusSize,
        windows: &Windows,
        now: Duration,
    ) -> Option<Duration> {
        self.urgency = urgency;
        let due = self.due(size, windows, now);
        if due > now {
            self.stage = WriteStage::Idle;
            return Some(due);
        }
        self.stage = WriteStage::Due(draft);
        None
    }

    /// A deferrable change happened: it joins the changes that gather. Returns when to evaluate, unless the
    /// gathered changes were evaluated already and their write is due or sent.
    pub fn join(&mut self, size: StatusSize, windows: &Windows, now: Duration) -> Option<Duration> {
        if !matches!(self.stage, WriteStage::Idle) {
            return None;
        }
        self.last_event = now;
        self.urgency = self.urgency.max(Urgency::Record);
        Some(self.due(size, windows, now))
    }

    fn due(&mut self, size: StatusSize, windows: &Windows, now: Duration) -> Duration {
        let first = *self.first_change.get_or_insert(now);
        let gathered = windows.gathered(self.urgency, first, self.last_event);
        let spaced = self.last_sent.map_or(Duration::ZERO, |sent| sent + windows.between(size));
        gathered.max(spaced).max(self.not_before).max(self.after_history)
    }

    /// An act in flight would lose its permission: the write waits until that act has settled.
    pub fn hold_back(&mut self, now: Duration) {
        self.first_change.get_or_insert(now);
        self.urgency = Urgency::Now;
        self.stage = WriteStage::Idle;
    }

    /// The statuses whose permission an act needs, beside the permission of the persisted one.
    pub fn unsettled_statuses(&self) -> impl Iterator<Item = &FrameworkStatus> {
        let staged = match &self.stage {
            WriteStage::Due(draft) | WriteStage::InFlight(draft) => Some(draft),
            WriteStage::Idle | WriteStage::Unread | WriteStage::Reading => None,
        };
        self.possible.iter().map(|possible| &possible.draft).chain(staged).map(|draft| &*draft.status)
    }

    /// Until when a write of unknown outcome that lives so long may be applied.
    pub fn lands_until(&self, lifetime: Duration) -> Option<Duration> {
        let sent = self.possible.iter().map(|possible| possible.sent).chain(self.untracked);
        sent.max().map(|sent| sent + lifetime)
    }

    /// An earlier owner may have sent a write, which may have its effect until then.
    pub fn inherit(&mut self, until: Duration) {
        self.inherited = Some(until);
    }

    /// Until when a write of an earlier owner may have its effect; after that time a read shows whether it
    /// had one.
    pub fn inherited(&self) -> Option<Duration> {
        self.inherited
    }

    /// Whether a status that may become the persisted one is not remembered: no act is permitted.
    pub fn is_untracked(&self) -> bool {
        self.untracked.is_some()
    }

    /// The write is sent, if it is due. Returns its status.
    pub fn send(&mut self, now: Duration) -> Option<Arc<FrameworkStatus>> {
        match std::mem::take(&mut self.stage) {
            WriteStage::Due(draft) => {
                let status = Arc::clone(&draft.status);
                self.stage = WriteStage::InFlight(draft);
                self.first_change = None;
                self.urgency = Urgency::Record;
                self.last_sent = Some(now);
                Some(status)
            }
            other => {
                self.stage = other;
                None
            }
        }
    }

    /// The lines of the history that are written before the write that is being sent leaves.
    pub fn take_history(&mut self) -> Vec<Line> {
        match &mut self.stage {
            WriteStage::InFlight(draft) => std::mem::take(&mut draft.history),
            _ => Vec::new(),
        }
    }

    /// These lines of the history are written now: after many of them the next write waits.
    pub fn write_history(&mut self, now: Duration, lines: &[Line]) {
        self.after_history = self.after_history.max(now + history::pause_after(lines));
    }

    /// The read is sent.
    pub fn send_read(&mut self) {
        self.stage = WriteStage::Reading;
    }

    /// The write was accepted. Returns the reports to publish.
    pub fn accepted(&mut self) -> Vec<Report> {
        self.failures = Failures::default();
        match std::mem::take(&mut self.stage) {
            WriteStage::InFlight(draft) => draft.reports,
            _ => Vec::new(),
        }
    }

    /// The write or the read had no effect. `sent`: whether it left. The next write waits. Returns the number
    /// of failures in a row.
    pub fn refused(&mut self, sent: bool) -> u32 {
        self.stage =
            if matches!(self.stage, WriteStage::Reading) { WriteStage::Unread } else { WriteStage::Idle };
        self.failures.another(sent)
    }

    /// Nothing is sent before `at`.
    pub fn wait_until(&mut self, at: Duration) {
        self.not_before = self.not_before.max(at);
    }

    /// Nothing is sent before `at`, and it need not wait longer either.
    pub fn wait_only_until(&mut self, at: Duration) {
        self.not_before = self.not_before.min(at);
    }

    /// Whether the next request waits, because the one before failed.
    pub fn waits(&self, now: Duration) -> bool {
        now < self.not_before
    }

    /// Whether a write or a read has failed since a write was accepted, or another version was shown.
    pub fn is_failing(&self) -> bool {
        self.failures.count() > 0
    }

    /// Another write came first: the Framework is to be read, unless the watch shows a newer version. Returns
    /// the rejected draft. `base`: the version that it was computed from.
    pub fn conflicted(&mut self, base: u128) -> Option<Draft> {
        self.failed = Some(Failed { base, counted: false });
        match std::mem::replace(&mut self.stage, WriteStage::Unread) {
            WriteStage::InFlight(draft) => Some(draft),
            _ => None,
        }
    }

    /// No reply came: the write, which was sent at `sent` for the version `base`, may have had its effect, or
    /// may yet have it. The read waits, because the watch may show the result. Returns the number of failures
    /// in a row.
    pub fn unknown(&mut self, base: u128, sent: Duration) -> u32 {
        if let WriteStage::InFlight(draft) = std::mem::replace(&mut self.stage, WriteStage::Unread) {
            self.possible.push(Possible { draft, sent });
        }
        if self.possible.len() > MOST_POSSIBLE {
            self.untracked = Some(self.possible.remove(0).sent);
        }
        self.failed = Some(Failed { base, counted: true });
        self.failures.another(true)
    }

    /// The Framework was read at this version, or the watch showed it. If it is newer than the version of the
    /// failed write, the next write need not wait. Otherwise returns the number of failures in a row, if this
    /// one is not counted yet.
    pub fn read(&mut self, version: u128) -> Option<u32> {
        if !matches!(self.stage, WriteStage::Unread | WriteStage::Reading) {
            return None;
        }
        self.stage = WriteStage::Idle;
        let Failed { base, counted } = self.failed.take()?;
        if version > base {
            self.failures = Failures::default();
            self.not_before = Duration::ZERO;
            return None;
        }
        (!counted).then(|| self.failures.another(true))
    }

    /// A read that was sent at `sent` shows the version that was known. So writes without a reply that were
    /// sent more than a `lifetime` before it have had no effect, and can no longer have one.
    pub fn outlived(&mut self, sent: Duration, lifetime: Duration) {
        self.possible.retain(|possible| possible.sent + lifetime > sent);
        self.untracked = self.untracked.filter(|untracked| *untracked + lifetime > sent);
        self.inherited = self.inherited.filter(|until| *until > sent);
    }

    /// The Framework may be gone: it is read before anything else is sent. A request in flight settles
    /// first.
    pub fn doubt(&mut self) {
        if matches!(self.stage, WriteStage::Idle | WriteStage::Due(_)) {
            self.stage = WriteStage::Unread;
        }
    }

    /// Whether a read waits to be sent.
    pub fn is_unread(&self) -> bool {
        matches!(self.stage, WriteStage::Unread)
    }

    /// Another resourceVersion is persisted: no write for the one before can have an effect any more. If a
    /// write of ours without a reply was accepted, returns the reports to publish.
    pub fn settle(&mut self, persisted: Option<&FrameworkStatus>) -> Vec<Report> {
        self.untracked = None;
        self.inherited = None;
        let possible = std::mem::take(&mut self.possible).into_iter().map(|possible| possible.draft);
        let ours = possible.rev().find(|draft| Some(&*draft.status) == persisted);
        ours.map(|draft| draft.reports).unwrap_or_default()
    }

    /// Keeps a rejected draft, to write it over the winning one. Only a test that switches a rule off does
    /// that.
    pub fn overwrite_later(&mut self, draft: Option<Draft>) {
        self.overwrite = draft.map(Box::new);
    }

    /// Makes a kept write due, even if another version is persisted. Returns whether there was one.
    pub fn overwrite(&mut self) -> bool {
        let Some(draft) = self.overwrite.take() else { return false };
        self.stage = WriteStage::Due(*draft);
        true
    }

    /// The next time at which a request can be sent.
    pub fn next(&self) -> Option<Duration> {
        matches!(self.stage, WriteStage::Unread).then_some(self.not_before)
    }
}

#[cfg(test)]
mod tests;
