//! The state of one job: its request in flight, and the last one that resumed it.

use std::sync::Arc;
use std::time::Duration;

use framework_message::backoff::Failures;

/// The state of one job.
#[derive(Debug, Default)]
pub struct JobState {
    /// A request that creates its unit or resumes it is in flight.
    pub busy: bool,
    /// Failures in a row.
    pub failures: Failures,
    /// Nothing is sent before.
    pub not_before: Duration,
    /// The job that was last sent a request to be resumed, and the resourceVersion that guards it.
    pub resumed: Option<(Arc<str>, u128)>,
    /// One of those requests got no reply, and may land.
    pub unsure: bool,
    /// UID of the job whose Pod templates cannot get labels when it is resumed, and in which version; `None`:
    /// in any.
    unlabelled: Option<(Arc<str>, Option<u128>)>,
    /// UID of the job of which the API server refused a request for good, and its message.
    pub refused: Option<(Arc<str>, String)>,
    /// UID of the JobSet whose Pod templates got labels, or cannot get them.
    pub labelled: Option<Arc<str>>,
    /// The job whose first unit was last seen, and the priority in the spec of that unit. A user may have
    /// patched the priority, and a unit that is made again keeps it.
    pub priority: Option<(Arc<str>, i32)>,
    /// The job that the last Event was about, and why it stays suspended.
    pub said: Option<(Arc<str>, String)>,
}

impl JobState {
    /// The first unit of the job with that UID has this priority in its spec.
    pub fn set_priority(&mut self, uid: &Arc<str>, priority: Option<i32>) {
        self.priority = priority.map(|priority| (Arc::clone(uid), priority));
    }

    /// The priority that the last unit of the job with that UID had in its spec.
    pub fn priority_of(&self, uid: &Arc<str>) -> Option<i32> {
        self.priority.as_ref().filter(|(of, _)| of == uid).map(|(_, priority)| *priority)
    }

    /// The job with that UID stays suspended for this reason, or for none. Returns whether that is to be
    /// said.
    pub fn says(&mut self, uid: &Arc<str>, reason: Option<&str>) -> bool {
        let said = reason.map(|reason| (Arc::clone(uid), reason.to_owned()));
        let is_news = said.is_some() && self.said != said;
        self.said = said;
        is_news
    }

    /// A job is sent a request to be resumed as it is.
    pub fn resume(&mut self, uid: &Arc<str>, resource_version: u128) {
        self.unsure &= self.was_resumed(uid, resource_version);
        self.resumed = Some((Arc::clone(uid), resource_version));
    }

    /// The API server did not carry out the request that resumes the job. An earlier one may have got there.
    pub fn not_resumed(&mut self) {
        if !self.unsure {
            self.resumed = None;
        }
    }

    /// The API server refused the labels of the last request that resumes the job. An edit of the job may be
    /// the reason, so its next version may get labels, unless that is refused, too.
    pub fn refuses_labels(&mut self) {
        let Some((uid, version)) = self.resumed.clone() else { return };
        if self.is_unlabelled(&uid, version) {
            // That request had none.
            return;
        }
        let is_again = self.unlabelled.as_ref().is_some_and(|(of, _)| *of == uid);
        self.unlabelled = Some((uid, (!is_again).then_some(version)));
    }

    /// Whether the job is resumed without labels as it is.
    pub fn is_unlabelled(&self, uid: &Arc<str>, resource_version: u128) -> bool {
        let is_it = |version: &Option<u128>| version.is_none_or(|version| version == resource_version);
        self.unlabelled.as_ref().is_some_and(|(of, version)| of == uid && is_it(version))
    }

    /// The message with which the API server refused a request of the job with that UID for good.
    pub fn refusal(&self, uid: &Arc<str>) -> Option<&str> {
        self.refused.as_ref().filter(|(of, _)| of == uid).map(|(_, message)| message.as_str())
    }

    /// Whether a job was last sent a request to be resumed as it is.
    pub fn was_resumed(&self, uid: &Arc<str>, resource_version: u128) -> bool {
        self.resumed.as_ref().is_some_and(|(of, version)| of == uid && *version == resource_version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uid(uid: &str) -> Arc<str> {
        uid.into()
    }

    #[test]
    fn a_reason_is_said_once_of_each_job_and_again_after_it_was_gone() {
        let mut state = JobState::default();
        let mut says = |of: &str, reason| state.says(&uid(of), reason);
        assert!(says("a", Some("one")) && !says("a", Some("one")));
        assert!(says("a", Some("two")) && says("b", Some("two")));
        assert!(!says("b", None) && says("b", Some("two")));
    }

    #[test]
    fn a_job_was_resumed_only_in_the_version_that_guarded_the_request() {
        let state = JobState { resumed: Some((uid("a"), 7)), ..JobState::default() };
        assert!(state.was_resumed(&uid("a"), 7));
        assert!(!state.was_resumed(&uid("a"), 8) && !state.was_resumed(&uid("b"), 7));
    }
}
