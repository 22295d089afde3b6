//! The consequence of a refused create for its attempt.

use framework_core::Action;
use framework_core::observed::Refusal;

use framework_message::Rejection;

/// The consequence of a refused create.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalOutcome {
    /// It is tried again after a while.
    Retry,
    /// The name is taken: a GET shows by which object.
    AskHolder,
    /// The attempt ends with this refusal, once a GET shows that no object of ours exists.
    Confirm(Refusal),
}

/// Parts of messages that mark a refusal as transient although its code does not.
///
/// The status of a quota is unknown until the quota controller has counted what its limits cover. The Pod may
/// fit then.
///
/// The last one concerns the controller and not the Pod: for a moment after it has started, an API server
/// refuses all requests that need a role.
const PASSING: [&str; 4] = [
    "object provided is unrecognized",
    "exceeded quota",
    "status unknown for quota",
    "cannot create resource \"pods\"",
];

/// Whether client-go takes an error with this message for the end of a connection (`IsProbableEOF`). The
/// original does not take such a refusal for final, although a webhook may have written the message.
fn is_of_a_broken_connection(message: &str) -> bool {
    message.contains("http2: server sent GOAWAY and closed the connection")
        || message.contains("connection reset by peer")
        || message.to_lowercase().contains("use of closed network connection")
}

/// Judges the refusal of a create. The refusal of a ConfigMap is never final.
pub fn judge(action: &Action, rejection: &Rejection) -> RefusalOutcome {
    if rejection.code == 409 && rejection.reason == "AlreadyExists" {
        return RefusalOutcome::AskHolder;
    }
    let passes = PASSING.iter().any(|part| rejection.message.contains(part));
    if passes || !matches!(action, Action::CreatePod { .. }) {
        return RefusalOutcome::Retry;
    }
    // By the reason, as the original: a webhook may refuse with any code, and may give no reason.
    match (&*rejection.reason, rejection.code) {
        ("BadRequest" | "Forbidden", _) => RefusalOutcome::Confirm(Refusal::Unknown),
        ("Invalid" | "RequestEntityTooLarge", _) | (_, 413) => {
            let is_broken = is_of_a_broken_connection(&rejection.message);
            RefusalOutcome::Confirm(if is_broken { Refusal::Unknown } else { Refusal::Permanent })
        }
        _ => RefusalOutcome::Retry,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use framework_core::observed::Instance;

    fn pod() -> Action {
        let instance = Instance::FrameworkAttempt { attempt_id: 0 };
        Action::CreatePod { name: "job-w-0".into(), task_role: "w".into(), task_index: 0, instance }
    }

    fn config_map() -> Action {
        Action::CreateConfigMap { instance: Instance::FrameworkAttempt { attempt_id: 0 } }
    }

    fn refused(code: u16, reason: &str, message: &str) -> Rejection {
        Rejection { code, reason: reason.into(), message: message.into(), retry_after: None }
    }

    #[test]
    fn every_class_of_refusal_has_its_verdict() {
        use Refusal::{Permanent, Unknown};
        const GOAWAY: &str = "http2: server sent GOAWAY and closed the connection; LastStreamID=1";
        let table = [
            (409, "AlreadyExists", "exists", RefusalOutcome::AskHolder),
            (409, "Conflict", "the quota was changed", RefusalOutcome::Retry),
            (400, "BadRequest", "bad", RefusalOutcome::Confirm(Unknown)),
            (
                400,
                "BadRequest",
                "the object provided is unrecognized (must be of type Pod)",
                RefusalOutcome::Retry,
            ),
            (403, "Forbidden", "no service account", RefusalOutcome::Confirm(Unknown)),
            (403, "Forbidden", "exceeded quota: small, requested: pods=1", RefusalOutcome::Retry),
            (403, "Forbidden", "status unknown for quota: new, resources: pods", RefusalOutcome::Retry),
            (403, "Forbidden", "failed quota: small: must specify cpu", RefusalOutcome::Confirm(Unknown)),
            (
                403,
                "Forbidden",
                "pods is forbidden: User \"c\" cannot create resource \"pods\"",
                RefusalOutcome::Retry,
            ),
            (413, "RequestEntityTooLarge", "limit is 3145728", RefusalOutcome::Confirm(Permanent)),
            (413, "", "limit is 3145728", RefusalOutcome::Confirm(Permanent)),
            (422, "Invalid", "spec.containers: Required", RefusalOutcome::Confirm(Permanent)),
            (400, "Invalid", "by a webhook", RefusalOutcome::Confirm(Permanent)),
            (422, "Invalid", "read tcp 10.0.0.1: connection reset by peer", RefusalOutcome::Confirm(Unknown)),
            (422, "Invalid", GOAWAY, RefusalOutcome::Confirm(Unknown)),
            (413, "", "Use of closed network connection", RefusalOutcome::Confirm(Unknown)),
            (400, "", "admission webhook \"w\" denied the request: no", RefusalOutcome::Retry),
            (403, "the image is not signed", "by a webhook", RefusalOutcome::Retry),
            (422, "", "by a webhook", RefusalOutcome::Retry),
            (404, "NotFound", "namespaces not found", RefusalOutcome::Retry),
            (429, "TooManyRequests", "slow down", RefusalOutcome::Retry),
            (500, "InternalError", "webhook", RefusalOutcome::Retry),
            (503, "ServiceUnavailable", "", RefusalOutcome::Retry),
        ];
        for (code, reason, message, verdict) in table {
            assert_eq!(judge(&pod(), &refused(code, reason, message)), verdict, "{code} {reason} {message}");
        }
    }

    #[test]
    fn the_refusal_of_a_config_map_always_passes() {
        for (code, reason) in [(400, "BadRequest"), (403, "Forbidden"), (413, ""), (422, "Invalid")] {
            assert_eq!(judge(&config_map(), &refused(code, reason, "")), RefusalOutcome::Retry);
        }
        assert_eq!(judge(&config_map(), &refused(409, "AlreadyExists", "")), RefusalOutcome::AskHolder);
    }
}
