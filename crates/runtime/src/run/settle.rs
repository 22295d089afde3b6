//! Carries out the decisions of the queues that are not requests.

use framework_core::EventReason;
use framework_core::plan::Report;
use framework_message::Now;
use framework_queueing::Outcome;
use tracing::{info, warn};

use super::Controller;
use crate::recorder::Subject;

impl Controller {
    /// Carries out an outcome of the queues.
    pub(super) fn settle(&mut self, now: Now, outcome: Outcome) {
        match outcome {
            Outcome::Admit { key, uid, admission } => self.engine.admit(now, &key, &uid, admission),
            Outcome::AdmitGrowths { key, uid, growths } => {
                self.engine.admit_growths(now, &key, &uid, growths);
            }
            Outcome::StatusStored { unit, uid, reason, note, waited } => {
                self.metrics.unit_decided(reason, waited.as_ref());
                if let Some(note) = note {
                    let report = Report::normal(EventReason::Unit(reason), note);
                    self.recorder.record(Subject::unit(&unit, &uid), report);
                }
            }
            Outcome::StaysSuspended { kind: of, job, uid, report } => {
                let (kind, reason, note) = (of.kind(), report.reason, &report.note);
                info!(kind, %job, note, "{reason}");
                self.recorder.record(Subject::job(of.api_version(), kind, &job, &uid), report);
            }
            Outcome::Lifetime { row, job, uid, report, measure } => {
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
