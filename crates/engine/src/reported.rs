//! The Events that were published about the stored form of a Framework, so that each is published once.

use std::sync::Arc;

use framework_core::EventReason;
use framework_core::plan::Report;

use crate::compression::{Compression, LARGEST_RAW};
use crate::object::Form;

/// Unknown fields of one Framework that are reported.
const MOST_UNKNOWN: usize = 16;

/// The reports about one Framework since this program started, and those to be made.
#[derive(Debug, Default)]
pub struct Reported {
    /// Why the Framework cannot be read, as last reported.
    unreadable: Option<Arc<str>>,
    /// Fields of the spec that count as not set, to be reported.
    found_ignored: Option<String>,
    /// Fields that were last reported.
    ignored: Option<String>,
    /// Paths of fields that the API server does not know.
    unknown: Vec<String>,
    /// A status was compressed although compression is off.
    compressed: bool,
}

impl Reported {
    /// Records the fields that count as not set in the version that is persisted now.
    pub fn found_ignored(&mut self, ignored: Option<String>) {
        self.found_ignored = ignored;
    }

    /// The report that fields of the spec count as not set, unless it was made.
    pub fn ignored(&mut self) -> Option<Report> {
        let found = self.found_ignored.take().filter(|found| self.ignored.as_ref() != Some(found))?;
        self.ignored = Some(found.clone());
        Some(Report::warning(EventReason::InvalidFieldIgnored, found))
    }

    /// The report that the API server does not know the field at this path, unless it was made.
    pub fn unknown(&mut self, path: String) -> Option<Report> {
        if self.unknown.len() == MOST_UNKNOWN || self.unknown.contains(&path) {
            return None;
        }
        let note = format!("unknown field {path} is ignored: the API server has created the Pod without it");
        self.unknown.push(path);
        Some(Report::warning(EventReason::UnknownFieldIgnored, note))
    }

    /// The Framework can be read: if it cannot later, that is reported again.
    pub fn readable(&mut self) {
        self.unreadable = None;
    }

    /// The Framework cannot be read for this reason. Returns whether that is still to be reported.
    pub fn unreadable(&mut self, reason: &Arc<str>) -> bool {
        self.unreadable.replace(Arc::clone(reason)).is_none_or(|reported| reported != *reason)
    }

    /// The status that a write replaces is stored in this form.
    pub fn replaces(&mut self, form: Form) {
        self.compressed |= form.compressed;
    }

    /// A status was accepted. Returns a report if it is the first compressed status although compression is
    /// off.
    pub fn accepted(&mut self, form: Form, settings: &Compression) -> Option<Report> {
        let first = form.compressed && !std::mem::replace(&mut self.compressed, true);
        let note = || {
            format!(
                "the status would take more than {LARGEST_RAW} bytes, or not fit beside the spec: \
                 taskRoleStatuses is compressed, though largeFrameworkCompression is off"
            )
        };
        (first && settings.threshold.is_none()).then(|| Report::normal(EventReason::StatusCompressed, note()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_fields_are_reported_once_until_they_change() {
        let mut reported = Reported::default();
        let mut report = |ignored: Option<&str>| {
            reported.found_ignored(ignored.map(str::to_owned));
            reported.ignored().map(|report| report.note)
        };
        assert_eq!(report(Some("ttl")).as_deref(), Some("ttl"));
        assert_eq!([report(Some("ttl")), report(None), report(Some("ttl"))], [None, None, None]);
        assert_eq!(report(Some("deadline")).as_deref(), Some("deadline"));
    }

    #[test]
    fn each_unknown_field_is_reported_once_and_not_too_many_are() {
        let mut reported = Reported::default();
        let mut is_reported = |path: &str| reported.unknown(path.to_owned()).is_some();
        assert_eq!(
            [is_reported("a"), is_reported("a"), is_reported("b"), is_reported("a")],
            [true, false, true, false]
        );
        let count = (0..100).filter(|number| is_reported(&number.to_string())).count();
        assert_eq!(count, MOST_UNKNOWN - 2);
    }

    #[test]
    fn a_reason_is_reported_again_after_a_repair() {
        let mut reported = Reported::default();
        let reason = Arc::from("it is cut short");
        assert_eq!([reported.unreadable(&reason), reported.unreadable(&reason)], [true, false]);
        assert!(reported.unreadable(&Arc::from("it is not base64")));
        reported.readable();
        assert!(reported.unreadable(&Arc::from("it is not base64")));
    }

    #[test]
    fn compression_against_the_configuration_is_reported_once() {
        let compressed = Form { compressed: true, bytes: 9 };
        let off = Compression::default();
        let mut reported = Reported::default();
        assert_eq!(reported.accepted(Form::default(), &off), None);
        assert!(reported.accepted(compressed, &off).is_some());
        assert_eq!(reported.accepted(compressed, &off), None);
        let mut reported = Reported::default();
        reported.replaces(compressed);
        assert_eq!(reported.accepted(compressed, &off), None, "it was compressed before");
        let on = Compression { threshold: Some(1), ..off };
        assert_eq!(Reported::default().accepted(compressed, &on), None);
    }
}
