//! Reports of refusals that hold a Framework up. Only the API server's message says what users can do.

use framework_core::EventReason;
use framework_core::plan::Report;
use framework_message::{Key, Rejection};
use tracing::warn;

use super::Engine;
use crate::retry::LASTING;

/// The name under which the refused deletes of a Framework are counted together.
pub(super) const DELETES: &str = "deletes";

impl Engine {
    /// The API server has refused a status, so often in a row. It will never take one that is invalid or too
    /// large.
    pub(super) fn report_refused_status(&mut self, key: &Key, rejection: &Rejection, failures: u32) {
        let Rejection { code, message, .. } = rejection;
        let is_lasting = rejection.is_permanent() && failures >= LASTING;
        if matches!(code, 413 | 422) || is_lasting {
            let note = format!("the API server does not accept the status: {message}");
            self.publish(key, vec![Report::warning(EventReason::StatusRefused, note)]);
        }
    }

    /// The API server has accepted a status and answered with the version of before, so often in a row.
    pub(super) fn report_undone_status(&mut self, key: &Key, failures: u32) {
        warn!(framework = %key, failures, "a status write was accepted and changed nothing");
        if failures >= LASTING {
            let note = "the API server accepts the status and stores nothing of it: a webhook undoes the \
                        change, or the CRD lacks its fields";
            self.publish(key, vec![Report::warning(EventReason::StatusRefused, note.to_owned())]);
        }
    }

    /// The API server has refused to delete a Pod, or the ConfigMap, so often in a row. A webhook may refuse
    /// each of 10,000 Pods for ever, so the reports become rarer.
    pub(super) fn report_refused_delete(
        &mut self,
        key: &Key,
        pod: Option<&str>,
        rejection: &Rejection,
        failures: u32,
    ) {
        let Rejection { code, message, .. } = rejection;
        if failures < LASTING || matches!(code, 429 | 503) {
            return;
        }
        let Some(state) = self.state(key) else { return };
        if state.outgoing.fail(DELETES, true).is_power_of_two() {
            let object = pod.map_or_else(|| "the ConfigMap".to_owned(), |pod| format!("the Pod {pod}"));
            let note = format!(
                "the API server does not let {object} be deleted, which is tried again: {message} ({code})"
            );
            self.publish(key, vec![Report::warning(EventReason::DeletionFailed, note)]);
        }
    }
}
