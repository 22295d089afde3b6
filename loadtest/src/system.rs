//! The systems that run jobs: a controller of Frameworks, and those that it is compared with.

use framework_audit::Record;
use serde::{Deserialize, Serialize};

use crate::scenario::{Group, Scenario};

/// The ConfigMap by which replicas share the slots. Reads and writes of it grow with time, not with the work.
pub const SLOT_MAP: &str = "frameworkcontroller-slots";

/// A system that runs jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
pub enum System {
    /// A controller of Frameworks.
    Framework,
    /// The controller of `batch/v1` Jobs in kube-controller-manager.
    Job,
    /// A controller of Frameworks that releases QueueUnits without Pods, which the load test creates.
    #[value(skip)]
    Queue,
    /// No controller: the load test sends the 2n + 11 requests that running a Framework takes.
    Floor,
}

/// The user agent of the floor client.
pub const FLOOR_AGENT: &str = "loadtest-floor";

impl System {
    /// Its default name in the report.
    pub fn name(self) -> &'static str {
        match self {
            System::Framework => "frameworkcontroller",
            System::Job => "batch/v1 Job",
            System::Queue => "queues of frameworkcontroller",
            System::Floor => "floor client",
        }
    }

    /// Whether the system itself made this request on a resource of its work.
    pub fn is_own(self, record: &Record) -> bool {
        let agent = record.user_agent.as_str();
        let of_work = match self {
            System::Framework | System::Queue => agent.starts_with("frameworkcontroller/"),
            System::Job => agent.starts_with("kube-controller-manager/") && agent.ends_with("job-controller"),
            System::Floor => {
                agent.starts_with(FLOOR_AGENT)
                    // Users create Frameworks, not the system.
                    && (record.verb != "create" || record.resource != "frameworks")
            }
        };
        of_work && self.counts(&record.resource) && record.verb != "watch" && record.name != SLOT_MAP
    }

    /// Whether requests on this resource are part of the work.
    pub fn counts(self, resource: &str) -> bool {
        let counted: &[&str] = match self {
            System::Framework | System::Floor => &["frameworks", "configmaps", "pods"],
            System::Job => &["jobs", "pods"],
            System::Queue => &["queueunits"],
        };
        counted.contains(&resource)
    }

    /// The floor of the scenario; `None` if it is not known for this system.
    pub fn floor(self, scenario: &Scenario) -> Option<Floor> {
        match self {
            System::Job => None,
            System::Framework | System::Floor | System::Queue => {
                let floors = scenario.groups.iter().map(|group| {
                    let one = Floor::of(group)?;
                    Some([one.full, one.strict, one.least].map(|each| each * group.jobs))
                });
                let mut sum = Floor::default();
                for floor in floors {
                    let [full, strict, least] = floor?;
                    sum.full += full;
                    sum.strict += strict;
                    sum.least += least;
                }
                Some(sum)
            }
        }
    }
}

/// The least number of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Floor {
    /// With the writes that record created objects and show Tasks running.
    pub full: usize,
    /// Without those writes.
    pub strict: usize,
    /// And without the write that announces the creation of the ConfigMap.
    pub least: usize,
}

impl Floor {
    /// The floor of one job of a group; `None` if it depends on the order of events.
    ///
    /// An attempt of n Tasks takes POST and DELETE of each Pod and of the ConfigMap and nine status writes.
    /// Each round of retries takes three writes more, and one that records the new Pods.
    pub fn of(group: &Group) -> Option<Floor> {
        if group.unit.is_some() {
            // One status write for Enqueued, one for Dequeued.
            return Some(Floor { full: 2, strict: 2, least: 2 });
        }
        if group.expire_at_seconds.is_some() {
            // One status write that accepts it, and its deletion.
            return Some(Floor { full: 2, strict: 2, least: 2 });
        }
        if !group.rescale.is_empty() {
            return None;
        }
        let pods = group.pods.unwrap_or_else(|| group.tasks());
        let rounds = group.task_roles.iter().filter(|role| role.exit_code != 0).map(|role| role.retries);
        let rounds = usize::try_from(rounds.max().unwrap_or(0)).unwrap_or(0);
        let expires = usize::from(group.ttl_seconds_after_finished.is_some());
        let base = 2 * pods + expires;
        let (full, retries) = (base + 11 + 4 * rounds, 3 * rounds);
        Some(Floor { full, strict: base + 8 + retries, least: base + 7 + retries })
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
        assert_eq!(floor(tasks), Some(Floor { full: 510, strict: 480, least: 470 }));
        let retried = "pods: 60, taskRoles: [{name: w, taskNumber: 20, exitCode: 1, retries: 2}]";
        assert_eq!(floor(retried), Some(Floor { full: 1390, strict: 1340, least: 1330 }), "120 for the Pods");
        assert_eq!(floor(&format!("{tasks}, rescale: [{{afterSeconds: 1, taskNumber: 3}}]")), None);
        let expiring = Floor { full: 20, strict: 20, least: 20 };
        assert_eq!(floor(&format!("{tasks}, expireAtSeconds: 9")), Some(expiring));
    }
}
