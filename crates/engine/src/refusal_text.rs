//! The text of a refusal that may pass: one for all creates of a TaskRole that are refused for now.
//!
//! They are tried again in turn, see `probes`, and the condition of the Framework shows the text of the first
//! one. So it says the newest refusal of that TaskRole. A text that differs in numbers only is not new: the
//! index of a Pod, or the use of a quota that others have. Otherwise every turn would write the status.

use std::sync::Arc;

use framework_core::observed::{Create, Outcome, Refusal};
use framework_core::pod_map::{PodMap, PodName, Siblings};
use framework_core::summary::is_same_but_for_numbers;

/// The create of this Pod is refused for now, with this text. Returns the text of its TaskRole from now on,
/// which the other refused creates of that TaskRole have already.
pub fn newest(creates: &mut PodMap<Create>, pod: &str, text: String) -> Arc<str> {
    let stem = PodName::new(pod).stem;
    let siblings = creates.siblings_mut(stem).into_iter().flat_map(Siblings::values_mut);
    let mut others = siblings.filter_map(|create| match &mut create.outcome {
        Outcome::Refused { refusal: Refusal::Transient, message, .. } => Some(message),
        _ => None,
    });
    let Some(first) = others.next() else { return text.into() };
    if is_same_but_for_numbers(first, &text) {
        return Arc::clone(first);
    }
    let newest: Arc<str> = text.into();
    *first = Arc::clone(&newest);
    others.for_each(|other| *other = Arc::clone(&newest));
    newest
}

#[cfg(test)]
mod tests {
    use super::*;
    use framework_core::observed::Instance;
    use jiff::Timestamp;

    fn create(outcome: Outcome) -> Create {
        Create { instance: Instance::FrameworkAttempt { attempt_id: 0 }, outcome }
    }

    fn refused(refusal: Refusal, text: &str) -> Create {
        create(Outcome::Refused { refusal, message: text.into(), retry_at: Timestamp::UNIX_EPOCH })
    }

    fn text<'a>(creates: &'a PodMap<Create>, pod: &str) -> Option<&'a Arc<str>> {
        match &creates.get(pod)?.outcome {
            Outcome::Refused { message, .. } => Some(message),
            _ => None,
        }
    }

    #[test]
    fn all_refused_creates_of_a_task_role_have_the_newest_text() {
        let mut creates: PodMap<Create> = [
            ("job-w-0", refused(Refusal::Transient, "small")),
            ("job-w-1", create(Outcome::InFlight)),
            ("job-w-2", refused(Refusal::Transient, "small")),
            ("job-w-3", refused(Refusal::NameConflict, "taken")),
            ("job-ps-0", refused(Refusal::Transient, "small")),
        ]
        .into_iter()
        .collect();
        let newest = newest(&mut creates, "job-w-1", "large".to_owned());
        assert_eq!(&*newest, "large");
        for pod in ["job-w-0", "job-w-2"] {
            assert!(text(&creates, pod).is_some_and(|text| Arc::ptr_eq(text, &newest)), "{pod}: {creates:?}");
        }
        assert_eq!(text(&creates, "job-w-1"), None);
        let others = ["job-w-3", "job-ps-0"].map(|pod| text(&creates, pod).map(|text| &**text));
        assert_eq!(others, [Some("taken"), Some("small")]);
    }

    #[test]
    fn a_text_that_differs_in_numbers_only_is_not_new() {
        for (before, after, is_same) in [
            ("no", "no", true),
            ("pods \"job-w-0\" is forbidden", "pods \"job-w-12\" is forbidden", true),
            ("job-w-0: exceeded quota: used: pods=9", "job-w-2: exceeded quota: used: pods=12", true),
            ("job-w-0", "job-w-0 is forbidden", false),
            ("exceeded quota: used: pods=9", "exceeded quota: used: memory=9", false),
        ] {
            let mut creates: PodMap<Create> =
                [("job-w-0", refused(Refusal::Transient, before))].into_iter().collect();
            let newest = newest(&mut creates, "job-w-2", after.to_owned());
            assert_eq!(&*newest, if is_same { before } else { after });
            assert!(text(&creates, "job-w-0").is_some_and(|text| Arc::ptr_eq(text, &newest)), "{after}");
        }
    }
}
