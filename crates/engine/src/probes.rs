//! Refused creates: one create finds out whether a refusal has passed, not one for each Task.
//!
//! The Pods of a TaskRole are made from one template, so a refusal of one is mostly a refusal of all.
//! Guarantees: after a refusal, no Pod of the TaskRole is created until a delay is over; then one Pod of all
//! TaskRoles that were refused for the same reason is. These TaskRoles take turns, and so do the Tasks of
//! each, because a webhook may refuse a single Pod for ever. Other TaskRoles are not affected, unless 16 were
//! refused.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use framework_core::Action;
use framework_message::backoff::Failures;

/// From so many refused TaskRoles on, all others of the Framework wait with them. Each of a hundred would
/// find out for itself otherwise.
const MANY: usize = 16;

/// The TaskRoles of one Framework whose creates are refused for now, by the HTTP status of the refusal.
#[derive(Debug, Default)]
pub struct Probes {
    refused: BTreeMap<u16, Refused>,
}

#[derive(Debug, Default)]
struct Refused {
    /// Each with the index of its Task that was refused last.
    task_roles: BTreeMap<String, i32>,
    failures: Failures,
    until: Duration,
    /// The name of the Pod whose create is in flight to find out.
    probe: Option<String>,
    /// The TaskRole that was probed last.
    last: String,
}

impl Probes {
    /// A create was refused with an HTTP status, for a reason that may pass. `delay`: the delay after so many
    /// failures in a row. Returns when the next create may be sent. Creates that were in flight meanwhile do
    /// not count.
    pub fn refused(
        &mut self,
        action: &Action,
        code: u16,
        now: Duration,
        delay: impl FnOnce(u32) -> Duration,
    ) -> Option<Duration> {
        let Action::CreatePod { name, task_role, task_index, .. } = action else { return None };
        let was_probe = self.ended(name);
        self.refused.retain(|other, refused| {
            *other == code || refused.task_roles.remove(task_role).is_none() || !refused.task_roles.is_empty()
        });
        let refused = self.refused.entry(code).or_default();
        refused.task_roles.insert(task_role.clone(), *task_index);
        if refused.until == Duration::ZERO || was_probe {
            refused.until = now + delay(refused.failures.another(true));
        }
        Some(refused.until)
    }

    /// A create was accepted: TaskRoles that were refused together with its own need not wait any more.
    pub fn accepted(&mut self, action: &Action) {
        if let Action::CreatePod { name, task_role, .. } = action {
            let is_of = |refused: &Refused| {
                refused.task_roles.contains_key(task_role) || refused.probe.as_ref() == Some(name)
            };
            self.refused.retain(|_, refused| !is_of(refused));
        }
    }

    /// A create is sent.
    pub fn sent(&mut self, action: &Action) {
        if let Action::CreatePod { name, .. } = action
            && let Some((code, task_role, _)) = self.delays(action)
            && let Some(refused) = self.refused.get_mut(&code)
            && refused.probe.is_none()
        {
            refused.probe = Some(name.clone());
            refused.last = task_role.to_owned();
        }
    }

    /// A create has settled, or will not be known to have.
    pub fn settled(&mut self, action: &Action) {
        if let Action::CreatePod { name, .. } = action {
            self.ended(name);
        }
    }

    /// Removes from these acts the creates that may not be sent now. Of each group of TaskRoles that were
    /// refused together, it removes all creates if the group waits or its probe is in flight. Otherwise it
    /// removes all but one.
    pub fn thin(&self, acts: &mut Vec<Action>, now: Duration) {
        if self.refused.is_empty() {
            return;
        }
        let mut chosen = BTreeMap::new();
        for (index, action) in acts.iter().enumerate() {
            let Some((code, task_role, task_index)) = self.delays(action) else { continue };
            let refused = &self.refused[&code];
            if now >= refused.until && refused.probe.is_none() {
                // The TaskRole after the last one, or the first, and likewise its Task.
                let is_before = refused.task_roles.get(task_role).is_some_and(|last| task_index <= *last);
                let rank = (*task_role <= *refused.last, task_role, is_before, task_index, index);
                chosen.entry(code).and_modify(|least| *least = rank.min(*least)).or_insert(rank);
            }
        }
        let probes: BTreeSet<usize> = chosen.into_values().map(|rank| rank.4).collect();
        let mut index = 0..;
        acts.retain(|action| {
            let is_probe = index.next().is_some_and(|index| probes.contains(&index));
            is_probe || self.delays(action).is_none()
        });
    }

    /// The refusal that a create waits for, its TaskRole, and its index there.
    fn delays<'a>(&self, action: &'a Action) -> Option<(u16, &'a str, i32)> {
        let Action::CreatePod { task_role, task_index, .. } = action else { return None };
        let own = self.refused.iter().find(|(_, refused)| refused.task_roles.contains_key(task_role));
        let of_many = || self.refused.iter().find(|(_, refused)| refused.task_roles.len() >= MANY);
        own.or_else(of_many).map(|(code, _)| (*code, task_role.as_str(), *task_index))
    }

    /// A create is not in flight any more. Returns whether it was a probe.
    fn ended(&mut self, name: &String) -> bool {
        let mut probes = self.refused.values_mut().map(|refused| &mut refused.probe);
        probes.any(|probe| probe.take_if(|probe| probe == name).is_some())
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
        assert_eq!(probes.refused(&create("w", 0), 403, SECOND, delay), Some(SECOND * 2));
        let until = probes.refused(&create("w", 1), 403, SECOND, delay);
        assert_eq!(until, Some(SECOND * 2), "it was in flight");
        assert_eq!(sendable(&probes, SECOND), 1, "the other TaskRole");
        assert_eq!(sendable(&probes, SECOND * 2), 2);
        probes.sent(&create("w", 5));
        assert_eq!(sendable(&probes, SECOND * 3), 1, "the probe is in flight");
        assert_eq!(probes.refused(&create("w", 5), 403, SECOND * 3, delay), Some(SECOND * 5));
        probes.sent(&create("w", 6));
        probes.settled(&create("w", 6));
        assert_eq!(sendable(&probes, SECOND * 5), 2, "nobody knows: another one");
        probes.accepted(&create("w", 7));
        assert_eq!(sendable(&probes, SECOND * 5), 101);
    }

    /// The Pods of these TaskRoles that may be created, at most one for each.
    fn free(probes: &Probes, roles: usize, now: Duration) -> Vec<String> {
        let mut acts: Vec<Action> = (0..roles).map(|role| create(&format!("r{role:02}"), 0)).collect();
        probes.thin(&mut acts, now);
        let role = |action| match action {
            Action::CreatePod { task_role, .. } => task_role,
            other => panic!("{other:?}"),
        };
        acts.into_iter().map(role).collect()
    }

    #[test]
    fn task_roles_that_are_refused_together_are_probed_in_turn() {
        let mut probes = Probes::default();
        let delay = |_: u32| SECOND;
        for role in ["r00", "r01", "r02"] {
            probes.refused(&create(role, 0), 403, SECOND, delay);
        }
        assert_eq!(free(&probes, 4, SECOND), ["r03"]);
        let mut now = SECOND;
        for turn in ["r00", "r01", "r02", "r00"] {
            now += SECOND;
            assert_eq!(free(&probes, 3, now), [turn]);
            probes.sent(&create(turn, 0));
            assert_eq!(free(&probes, 3, now), [""; 0], "a probe is in flight");
            probes.refused(&create(turn, 0), 403, now, delay);
        }
        now += SECOND;
        probes.sent(&create("r01", 0));
        probes.refused(&create("r01", 0), 500, now, delay);
        assert_eq!(free(&probes, 3, now + SECOND), ["r01", "r02"], "one for each reason");
        probes.accepted(&create("r02", 0));
        assert_eq!(free(&probes, 3, now), ["r00", "r02"], "they need not wait any more");
    }

    #[test]
    fn a_task_that_is_always_refused_lets_the_others_be_probed() {
        let mut probes = Probes::default();
        for role in ["a", "b"] {
            probes.refused(&create(role, 0), 403, Duration::ZERO, |_| SECOND);
        }
        let turns = [("a", 1), ("b", 1), ("a", 2), ("b", 2), ("a", 0), ("b", 0), ("a", 1)];
        for (second, (role, index)) in (1..).zip(turns) {
            let now = SECOND * second;
            let mut due: Vec<Action> = (0..6).map(|n| create(["a", "b"][n / 3], n as i32 % 3)).collect();
            probes.thin(&mut due, now);
            assert_eq!(due, [create(role, index)]);
            probes.sent(&due[0]);
            probes.refused(&due[0], 403, now, |_| SECOND);
        }
    }

    #[test]
    fn after_many_refused_task_roles_the_others_wait_with_them() {
        let mut probes = Probes::default();
        let refuse = |probes: &mut Probes, role: usize| {
            probes.refused(&create(&format!("r{role:02}"), 0), 403, SECOND, |_| SECOND);
        };
        (0..MANY - 1).for_each(|role| refuse(&mut probes, role));
        assert_eq!(free(&probes, 50, SECOND).len(), 50 - (MANY - 1));
        refuse(&mut probes, MANY - 1);
        assert_eq!(free(&probes, 50, SECOND), [""; 0]);
        assert_eq!(free(&probes, 50, SECOND * 2), ["r00"]);
        probes.sent(&create("r40", 0));
        probes.accepted(&create("r40", 0));
        assert_eq!(free(&probes, 50, SECOND).len(), 50);
    }
}
