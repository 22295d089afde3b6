//! Carries out the effects of the queues that are not requests.

use framework_core::EventReason;
use framework_core::plan::Report;
use framework_message::Now;
use framework_queueing::QueueEffect;
use tracing::{info, warn};

use super::Controller;
use crate::recorder::Subject;

impl Controller {
    /// Carries out an effect of the queues.
    pub(super) fn settle(&mut self, now: Now, effect: QueueEffect) {
        match effect {
            QueueEffect::Admit { key, uid, admission } => self.engine.admit(now, &key, &uid, admission),
            QueueEffect::AdmitGrowths { key, uid, growths } => {
                self.engine.admit_growths(now, &key, &uid, growths);
            }
            QueueEffect::StatusStored { unit, uid, reason, note, waited } => {
                self.metrics.unit_decided(reason, waited.as_ref());
                if let Some(note) = note {
                    let report = Report::normal(EventReason::Unit(reason), note);
                    self.recorder.record(Subject::unit(&unit, &uid), report);
                }
            }
            QueueEffect::StaysSuspended { kind: of, job, uid, report } => {
                let (kind, reason, note) = (of.kind(), report.reason, &report.note);
                info!(kind, %job, note, "{reason}");
                self.recorder.record(Subject::job(of.api_version(), kind, &job, &uid), report);
            }
            QueueEffect::Lifetime { row, job, uid, report, measure } => {
                measure.into_iter().for_each(|measure| self.metrics.job_ended(measure));
                if let Some(report) = report {
                    let (kind, reason, note) = (&row.kind, report.reason, &report.note);
                    warn!(kind, %job, note, "{reason}");
                    self.recorder.record(Subject::job(&row.api_version, &row.kind, &job, &uid), report);
                }
            }
        }
    }
}
