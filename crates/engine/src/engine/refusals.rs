//! Reports of failures that hold a Framework up. Only the message of the last answer says what users can do.

use framework_core::EventReason;
use framework_core::plan::Report;
use framework_message::{Key, Rejection};
use tracing::warn;

use super::Engine;
use crate::object::Reply;
use crate::retry::LASTING;

/// The name under which the failed deletes of a Framework are counted together.
pub(super) const DELETES: &str = "deletes";

impl Engine {
    /// A status write has failed, so often in a row. The API server will never take a status that is invalid
    /// or too large.
    pub(super) fn report_failed_status(&mut self, key: &Key, reply: &Reply, failures: u32) {
        let is_final = matches!(reply, Reply::Refused(Rejection { code: 413 | 422, .. }));
        let Some(answer) = answer(reply).filter(|_| is_final || failures >= LASTING) else { return };
        let note = match reply {
            Reply::Refused(_) => format!("the API server does not accept the status: {answer}"),
            _ => format!("it is not known whether the status is stored, which is tried again: {answer}"),
        };
        self.publish(key, vec![Report::warning(EventReason::StatusRefused, note)]);
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

    /// The delete of a Pod, or of the ConfigMap, has failed, so often in a row. A webhook may refuse each of
    /// 10,000 Pods for ever, so the reports become rarer.
    pub(super) fn report_failed_delete(
        &mut self,
        key: &Key,
        pod: Option<&str>,
        reply: &Reply,
        failures: u32,
    ) {
        let Some(answer) = answer(reply).filter(|_| failures >= LASTING) else { return };
        let Some(state) = self.state(key) else { return };
        if state.outgoing.fail(DELETES, true).is_power_of_two() {
            let object = pod.map_or_else(|| "the ConfigMap".to_owned(), |pod| format!("the Pod {pod}"));
            let failed = match reply {
                Reply::Refused(_) => format!("the API server does not let {object} be deleted"),
                _ => format!("it is not known whether {object} was deleted"),
            };
            let note = format!("{failed}, which is tried again: {answer}");
            self.publish(key, vec![Report::warning(EventReason::DeletionFailed, note)]);
        }
    }
}

/// The answer or error of a request that failed. There is none if the request did not leave, or if the API
/// server says that it has too much to do or starts.
fn answer(reply: &Reply) -> Option<String> {
    match reply {
        Reply::Refused(Rejection { code: 429 | 503, .. }) => None,
        Reply::Refused(Rejection { code, message, .. }) => Some(format!("{message} ({code})")),
        Reply::Unknown(text) => Some(text.clone()),
        _ => None,
    }
}
