//! Refused creates: one create finds out whether a refusal has passed, not one for each Task.
//!
//! The Pods of a TaskRole are made from one template, so what is refused to one of them is refused to all.
//! Guarantees: after a refusal, no Pod of the TaskRole is created until a delay is over; then one is. Other
//! TaskRoles are not affected.

use std::collections::BTreeMap;
use std::time::Duration;

use framework_core::Action;
use framework_message::backoff::Failures;

/// The TaskRoles of one Framework whose creates are refused for now.
#[derive(Debug, Default)]
pub struct Probes {
    refused: BTreeMap<String, Refused>,
}

#[derive(Debug, Default)]
struct Refused {
    failures: Failures,
    until: Duration,
    /// The name of the Pod whose create is in flight to find out.
    probe: Option<String>,
}

impl Probes {
    /// A create was refused, for a reason that may pass. `delay`: the delay after so many failures in a row.
    /// Returns when the next create may be sent. Creates that were in flight meanwhile do not count.
    pub fn refused(
        &mut self,
        action: &Action,
        now: Duration,
        delay: impl FnOnce(u32) -> Duration,
    ) -> Option<Duration> {
        let Action::CreatePod { name, task_role, .. } = action else { return None };
        let refused = self.refused.entry(task_role.clone()).or_default();
        let was_probe = refused.probe.take_if(|probe| probe == name).is_some();
        if refused.until == Duration::ZERO || was_probe {
            refused.until = now + delay(refused.failures.another(true));
        }
        Some(refused.until)
    }

    /// A create was accepted: creates of its TaskRole need not wait any more.
    pub fn accepted(&mut self, action: &Action) {
        if let Action::CreatePod { task_role, .. } = action {
            self.refused.remove(task_role);
        }
    }

    /// A create is sent.
    pub fn sent(&mut self, action: &Action) {
        if let Action::CreatePod { name, task_role, .. } = action
            && let Some(refused) = self.refused.get_mut(task_role)
        {
            refused.probe.get_or_insert_with(|| name.clone());
        }
    }

    /// A create has settled, or will not be known to have.
    pub fn settled(&mut self, action: &Action) {
        if let Action::CreatePod { name, task_role, .. } = action
            && let Some(refused) = self.refused.get_mut(task_role)
        {
            refused.probe.take_if(|probe| probe == name);
        }
    }

    /// Removes from these acts the creates that may not be sent now: all of a TaskRole that waits or whose
    /// probe is in flight, and all but one of the others that were refused.
    pub fn thin(&self, acts: &mut Vec<Action>, now: Duration) {
        let mut chosen = std::collections::BTreeSet::new();
        acts.retain(|action| {
            let Action::CreatePod { task_role, .. } = action else { return true };
            let Some(refused) = self.refused.get(task_role) else { return true };
            now >= refused.until && refused.probe.is_none() && chosen.insert(task_role.clone())
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use framework_core::observed::Instance;

    const SECOND: Duration = Duration::from_secs(1);

    fn create(role: &str, index: i32) -> Action {
        let instance = Instance::FrameworkAttempt { attempt_id: 0 };
        let name = format!("job-{role}-{index}");
        Action::CreatePod { name, task_role: role.to_owned(), task_index: index, instance }
    }

    fn sendable(probes: &Probes, now: Duration) -> usize {
        let mut acts: Vec<Action> = (0..100).map(|index| create("w", index)).collect();
        acts.push(create("ps", 0));
        probes.thin(&mut acts, now);
        acts.len()
    }

    #[test]
    fn after_a_refusal_one_create_at_a_time_is_sent() {
        let mut probes = Probes::default();
        assert_eq!(sendable(&probes, SECOND), 101);
        let delay = |failures: u32| SECOND * failures;
        assert_eq!(probes.refused(&create("w", 0), SECOND, delay), Some(SECOND * 2));
        assert_eq!(probes.refused(&create("w", 1), SECOND, delay), Some(SECOND * 2), "it was in flight");
        assert_eq!(sendable(&probes, SECOND), 1, "the other TaskRole");
        assert_eq!(sendable(&probes, SECOND * 2), 2);
        probes.sent(&create("w", 5));
        assert_eq!(sendable(&probes, SECOND * 3), 1, "the probe is in flight");
        assert_eq!(probes.refused(&create("w", 5), SECOND * 3, delay), Some(SECOND * 5));
        probes.sent(&create("w", 6));
        probes.settled(&create("w", 6));
        assert_eq!(sendable(&probes, SECOND * 5), 2, "nobody knows: another one");
        probes.accepted(&create("w", 7));
        assert_eq!(sendable(&probes, SECOND * 5), 101);
    }
}
