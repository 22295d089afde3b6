//! The IP addresses of a Framework: each Task of its spec with the IP of its Pod.
//!
//! A Task that a scale-down removes is missing, although it may still have an IP: the barrier waits for its
//! replacement. A Task that completed is not missing if it had an IP.

use std::net::IpAddr;

use framework_api::name::pod_name;
use serde::Deserialize;

/// The addresses of all Tasks of the spec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// The TaskRoles, in the order of the spec.
    pub roles: Vec<Role>,
}

/// A TaskRole of the spec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Role {
    /// Its name.
    pub name: String,
    /// The IPs of its Tasks, by index.
    pub ips: Vec<IpAddr>,
}

/// Some Tasks have no IP yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// How many Tasks the spec has.
    pub total: usize,
    /// The Tasks without an IP, named like their Pods.
    pub tasks: Vec<String>,
}

/// Why the addresses cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The body is not a Framework.
    #[error("cannot understand the Framework that the API server sent: {0}")]
    NoFramework(#[from] serde_json::Error),
    /// A pod IP is not an IP address.
    #[error("Task {task} has the pod IP {ip:?}, which is not valid")]
    BadIp {
        /// The Task, named like its Pod.
        task: String,
        /// The pod IP.
        ip: String,
    },
}

/// The fields of a Framework that are read; the rest is skipped.
#[derive(Deserialize)]
struct Framework {
    metadata: Metadata,
    spec: Spec,
    status: Option<Status>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: String,
    #[serde(default)]
    resource_version: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    task_roles: Option<Vec<RoleSpec>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RoleSpec {
    name: String,
    task_number: Option<i32>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    attempt_status: Attempt,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Attempt {
    task_role_statuses: Option<Vec<RoleStatus>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RoleStatus {
    name: String,
    task_statuses: Option<Vec<Task>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Task {
    #[serde(default)]
    deletion_pending: bool,
    attempt_status: TaskAttempt,
}

#[derive(Deserialize)]
struct TaskAttempt {
    #[serde(rename = "podIP")]
    pod_ip: Option<String>,
}

/// The result of reading a whole Framework.
#[derive(Debug)]
pub struct Reading {
    /// The version of the object.
    pub version: String,
    /// All addresses, or the Tasks without one.
    pub found: Result<Addresses, Missing>,
}

/// Reads a Framework whose task statuses are decompressed.
pub fn read(object: &[u8]) -> Result<Reading, Error> {
    let Framework { metadata, spec, status } = serde_json::from_slice(object)?;
    let statuses = status.and_then(|status| status.attempt_status.task_role_statuses).unwrap_or_default();
    let (mut roles, mut tasks, mut total) = (Vec::new(), Vec::new(), 0);
    for RoleSpec { name, task_number } in spec.task_roles.unwrap_or_default() {
        let known = statuses.iter().find(|status| status.name == name);
        let known = known.and_then(|status| status.task_statuses.as_deref()).unwrap_or_default();
        let mut role = Role { name, ips: Vec::new() };
        for index in 0..task_number.unwrap_or_default() {
            total += 1;
            let task = usize::try_from(index).ok().and_then(|index| known.get(index));
            match task.filter(|task| !task.deletion_pending).and_then(ip) {
                Some(ip) => role.ips.push(ip.parse().map_err(|_| Error::BadIp {
                    task: pod_name(&metadata.name, &role.name, index),
                    ip: ip.to_owned(),
                })?),
                None => tasks.push(pod_name(&metadata.name, &role.name, index)),
            }
        }
        roles.push(role);
    }
    let found = if tasks.is_empty() { Ok(Addresses { roles }) } else { Err(Missing { total, tasks }) };
    Ok(Reading { version: metadata.resource_version, found })
}

fn ip(task: &Task) -> Option<&str> {
    task.attempt_status.pod_ip.as_deref().filter(|ip| !ip.is_empty())
}

impl std::fmt::Display for Missing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        /// How many Tasks are named; the others are only counted.
        const NAMED: usize = 5;
        let Missing { total, tasks } = self;
        write!(f, "{} of {total} Tasks have no IP yet: ", tasks.len())?;
        write!(f, "{}", tasks[..tasks.len().min(NAMED)].join(", "))?;
        if tasks.len() > NAMED { f.write_str(", ...") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use std::slice::from_ref;

    fn task(ip: Value) -> Value {
        json!({"index": 0, "state": "AttemptPreparing", "attemptStatus": {"id": 0, "podIP": ip}})
    }

    fn leaving(ip: &str) -> Value {
        let mut task = task(ip.into());
        task["deletionPending"] = true.into();
        task
    }

    /// Two workers and a server, with these statuses.
    fn framework(workers: &[Value], servers: &[Value]) -> Value {
        json!({
            "metadata": {"name": "train", "resourceVersion": "7"},
            "spec": {"taskRoles": [{"name": "worker", "taskNumber": 2}, {"name": "server", "taskNumber": 1}]},
            "status": {"attemptStatus": {"taskRoleStatuses": [
                {"name": "server", "taskStatuses": servers},
                {"name": "worker", "taskStatuses": workers},
            ]}},
        })
    }

    fn found(framework: &Value) -> Result<Addresses, Missing> {
        let reading = read(framework.to_string().as_bytes()).unwrap();
        assert_eq!(reading.version, "7");
        reading.found
    }

    fn missing(workers: &[Value], servers: &[Value]) -> Vec<String> {
        found(&framework(workers, servers)).map_or_else(|missing| missing.tasks, |_| Vec::new())
    }

    #[test]
    fn all_addresses_are_found_once_each_task_of_the_spec_has_an_ip() {
        let [one, two, six] = ["10.0.0.1", "10.0.0.2", "fd00::6"].map(|ip| task(ip.into()));
        let all = framework(&[one, two], &[six]);
        let role = |name: &str, ips: &[&str]| Role {
            name: name.to_owned(),
            ips: ips.iter().map(|ip| ip.parse().unwrap()).collect(),
        };
        let roles = vec![role("worker", &["10.0.0.1", "10.0.0.2"]), role("server", &["fd00::6"])];
        assert_eq!(found(&all), Ok(Addresses { roles }));
    }

    #[test]
    fn no_ip_an_empty_one_and_no_status_are_all_missing() {
        let there = task("10.0.0.1".into());
        for lacking in [task(Value::Null), task("".into())] {
            assert_eq!(missing(&[there.clone(), lacking], from_ref(&there)), ["train-worker-1"]);
        }
        assert_eq!(missing(&[there.clone(), there.clone()], &[]), ["train-server-0"]);
        let mut fresh = framework(&[], &[]);
        fresh["status"] = Value::Null;
        let all = found(&fresh).unwrap_err();
        assert_eq!(
            all.to_string(),
            "3 of 3 Tasks have no IP yet: train-worker-0, train-worker-1, train-server-0"
        );
    }

    #[test]
    fn a_task_that_leaves_is_missing_within_the_spec_and_ignored_beyond_it() {
        let there = task("10.0.0.1".into());
        assert_eq!(missing(&[there.clone(), leaving("10.0.0.2")], from_ref(&there)), ["train-worker-1"]);
        let beyond = [there.clone(), there.clone(), leaving("10.0.0.3"), task(Value::Null)];
        assert_eq!(missing(&beyond, &[there]), [""; 0]);
    }

    #[test]
    fn a_pod_ip_that_is_not_an_ip_is_refused() {
        let harm = task("1.1.1.1; reboot".into());
        let error = read(framework(&[harm], &[]).to_string().as_bytes()).unwrap_err().to_string();
        assert_eq!(error, "Task train-worker-0 has the pod IP \"1.1.1.1; reboot\", which is not valid");
    }

    #[test]
    fn a_spec_without_tasks_misses_no_address() {
        let mut empty = framework(&[], &[]);
        empty["spec"]["taskRoles"] = json!([{"name": "worker", "taskNumber": 0}]);
        assert_eq!(found(&empty).unwrap().roles.len(), 1);
    }
}
