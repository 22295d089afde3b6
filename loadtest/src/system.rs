//! Who does the work: the controller of Frameworks, or what it is compared with.

use framework_audit::Record;
use serde::{Deserialize, Serialize};

use crate::scenario::{Group, Scenario};

/// A system that runs jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
pub enum System {
    /// A controller of Frameworks, this one or another.
    Framework,
    /// Kubernetes' own controller of `batch/v1` Jobs.
    Job,
    /// A controller of Frameworks that releases QueueUnits, made by this program for jobs without Pods.
    #[value(skip)]
    Queue,
    /// No controller: this program sends the least that running a Framework takes, 2n + 11 requests.
    Floor,
}

/// What the floor client calls itself in its requests.
pub const FLOOR_AGENT: &str = "loadtest-floor";

impl System {
    /// What the report calls it, unless it is told a name.
    pub fn name(self) -> &'static str {
        match self {
            System::Framework => "frameworkcontroller",
            System::Job => "batch/v1 Job",
            System::Queue => "queues of frameworkcontroller",
            System::Floor => "floor client",
        }
    }

    /// Whether this request is one of those that the system does its work with.
    pub fn is_own(self, record: &Record) -> bool {
        let agent = record.user_agent.as_str();
        let of_work = match self {
            System::Framework | System::Queue => agent.starts_with("frameworkcontroller/"),
            System::Job => agent.starts_with("kube-controller-manager/") && agent.ends_with("job-controller"),
            System::Floor => {
                agent.starts_with(FLOOR_AGENT)
                    // Frameworks are created as a user would.
                    && (record.verb != "create" || record.resource != "frameworks")
            }
        };
        of_work && self.counts(&record.resource) && record.verb != "watch"
    }

    /// Whether the work is done with requests on this resource.
    pub fn counts(self, resource: &str) -> bool {
        let counted: &[&str] = match self {
            System::Framework | System::Floor => &["frameworks", "configmaps", "pods"],
            System::Job => &["jobs", "pods"],
            System::Queue => &["queueunits"],
        };
        counted.contains(&resource)
    }

    /// The least number of requests that the scenario takes; `None`: it is not known for this system.
    pub fn floor(self, scenario: &Scenario) -> Option<Floor> {
        match self {
            System::Job => None,
            System::Framework | System::Floor | System::Queue => {
                let floors = scenario.groups.iter().map(|group| {
                    let one = Floor::of(group)?;
                    Some(Floor { worth: one.worth * group.jobs, strict: one.strict * group.jobs })
                });
                let mut sum = Floor { worth: 0, strict: 0 };
                for floor in floors {
                    let floor = floor?;
                    sum = Floor { worth: sum.worth + floor.worth, strict: sum.strict + floor.strict };
                }
                Some(sum)
            }
        }
    }
}

/// The least number of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Floor {
    /// With those that are worth it: an object is recorded once it exists, and Tasks are shown running.
    pub worth: usize,
    /// Without them.
    pub strict: usize,
}

impl Floor {
    /// For one job of a group; `None`: what it takes depends on when what happens.
    ///
    /// An attempt of n Tasks takes POST and DELETE of each Pod and of the ConfigMap and nine status writes.
    /// Each round of retries takes three writes more, and one that records the new Pods.
    pub fn of(group: &Group) -> Option<Floor> {
        if group.unit.is_some() {
            // It is Enqueued, and Dequeued.
            return Some(Floor { worth: 2, strict: 2 });
        }
        if group.expire_at_seconds.is_some() {
            // That it is held, and its deletion.
            return Some(Floor { worth: 2, strict: 2 });
        }
        if !group.rescale.is_empty() {
            return None;
        }
        let pods = group.pods.unwrap_or_else(|| group.tasks());
        let rounds = group.task_roles.iter().filter(|role| role.exit_code != 0).map(|role| role.retries);
        let rounds = usize::try_from(rounds.max().unwrap_or(0)).unwrap_or(0);
        let expires = usize::from(group.ttl_seconds_after_finished.is_some());
        let base = 2 * pods + expires;
        Some(Floor { worth: base + 11 + 4 * rounds, strict: base + 8 + 3 * rounds })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floor(group: &str) -> Option<Floor> {
        let text = format!("description: d\ngroups: [{{name: a, jobs: 10, {group}}}]");
        System::Framework.floor(&Scenario::parse(&text).unwrap())
    }

    #[test]
    fn the_floor_is_that_of_all_jobs() {
        let tasks = "taskRoles: [{name: w, taskNumber: 20}]";
        assert_eq!(floor(tasks), Some(Floor { worth: 510, strict: 480 }));
        let retried = "pods: 60, taskRoles: [{name: w, taskNumber: 20, exitCode: 1, retries: 2}]";
        assert_eq!(floor(retried), Some(Floor { worth: 10 * (120 + 11 + 8), strict: 10 * (120 + 8 + 6) }));
        assert_eq!(floor(&format!("{tasks}, rescale: [{{afterSeconds: 1, taskNumber: 3}}]")), None);
        assert_eq!(floor(&format!("{tasks}, expireAtSeconds: 9")), Some(Floor { worth: 20, strict: 20 }));
    }
}
