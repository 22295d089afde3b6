//! The state of one job: its request in flight, and the last admission.

use std::sync::Arc;
use std::time::Duration;

use framework_core::observed::Admission;
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
    /// The UID of the Framework that the last admission was for, and that admission.
    pub last_admission: Option<(Arc<str>, Admission)>,
    /// The job that was last sent a request to be resumed, and the resourceVersion that guards it.
    pub resumed: Option<(Arc<str>, u128)>,
    /// The job whose first unit was last seen, and the priority in the spec of that unit: a user may have
    /// patched it, and a unit that is made anew keeps it.
    pub priority: Option<(Arc<str>, i32)>,
    /// The same for its growths. `None` stands for no admitted growth.
    pub last_growths: Option<(Arc<str>, Vec<i64>)>,
}

impl JobState {
    /// Notes the admission of a Framework with that UID. Returns whether it has changed.
    pub fn admit(&mut self, uid: &Arc<str>, admission: &Admission) -> bool {
        let news = Some((Arc::clone(uid), admission.clone()));
        let is_news = self.last_admission != news;
        self.last_admission = news;
        is_news
    }

    /// Whether the last admission lets a Framework with that UID begin in that generation of its spec.
    pub fn was_released(&self, uid: &Arc<str>, generation: i64) -> bool {
        let released = Admission::Released { generation };
        self.last_admission.as_ref().is_some_and(|(of, last)| of == uid && *last == released)
    }

    /// The first unit of the job with that UID has this priority in its spec.
    pub fn set_priority(&mut self, uid: &Arc<str>, priority: Option<i32>) {
        self.priority = priority.map(|priority| (Arc::clone(uid), priority));
    }

    /// The priority that the last unit of the job with that UID had in its spec.
    pub fn priority_of(&self, uid: &Arc<str>) -> Option<i32> {
        self.priority.as_ref().filter(|(of, _)| of == uid).map(|(_, priority)| *priority)
    }

    /// Whether a job was last sent a request to be resumed as it is.
    pub fn was_resumed(&self, uid: &Arc<str>, resource_version: u128) -> bool {
        self.resumed.as_ref().is_some_and(|(of, version)| of == uid && *version == resource_version)
    }

    /// Whether the growths of a Framework with that UID that may begin have changed.
    pub fn is_growth_news(&self, uid: &Arc<str>, growths: &[i64]) -> bool {
        match self.last_growths.as_ref().filter(|(of, _)| of == uid) {
            Some((_, known)) => known != growths,
            None => !growths.is_empty(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uid(uid: &str) -> Arc<str> {
        uid.into()
    }

    #[test]
    fn an_admission_is_news_once_for_each_framework() {
        let mut state = JobState::default();
        let released = Admission::Released { generation: 2 };
        assert!(state.admit(&uid("a"), &released) && !state.admit(&uid("a"), &released));
        assert!(state.was_released(&uid("a"), 2));
        assert!(!state.was_released(&uid("a"), 3) && !state.was_released(&uid("b"), 2));
        assert!(state.admit(&uid("b"), &released), "another Framework of the same name");
    }

    #[test]
    fn an_empty_list_of_growths_is_no_news_of_a_new_framework() {
        let mut state = JobState::default();
        assert!(!state.is_growth_news(&uid("a"), &[]) && state.is_growth_news(&uid("a"), &[2]));
        state.last_growths = Some((uid("a"), vec![2]));
        assert!(!state.is_growth_news(&uid("a"), &[2]) && state.is_growth_news(&uid("a"), &[]));
        assert!(!state.is_growth_news(&uid("b"), &[]));
    }

    #[test]
    fn a_job_was_resumed_only_in_the_version_that_guarded_the_request() {
        let state = JobState { resumed: Some((uid("a"), 7)), ..JobState::default() };
        assert!(state.was_resumed(&uid("a"), 7));
        assert!(!state.was_resumed(&uid("a"), 8) && !state.was_resumed(&uid("b"), 7));
    }
}
