//! The controller's requests for one Framework, by the audit log of the API server.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use framework_api::name::config_map_name;
use framework_testcluster::audit::{Log, Record};
use tokio::time::Instant;

/// The prefix of the controller's user agent.
const AGENT: &str = "frameworkcontroller/";
/// How long the audit log may lag behind the watch.
const LAG: Duration = Duration::from_secs(5);
const EVERY: Duration = Duration::from_millis(20);

/// The requests for one Framework.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Requests {
    /// By kind, without Events.
    counts: BTreeMap<Kind, usize>,
    /// By kind and status code of the refusal.
    refused: BTreeMap<(Kind, u16), usize>,
    events: usize,
}

/// The kind of a request, in the order in which the summary lists them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Kind {
    /// The resource's position in [`RESOURCES`].
    position: usize,
    wording: String,
}

/// The resources whose requests are counted, and their names in the summary.
const RESOURCES: [(&str, &str); 3] =
    [("frameworks", "Framework"), ("configmaps", "ConfigMap"), ("pods", "Pod")];

/// Waits until the audit log has the write that made a resourceVersion, at most for [`LAG`].
pub(crate) async fn logged(log: &Log, resource_version: u64) -> Result<()> {
    let version = resource_version.to_string();
    let deadline = Instant::now() + LAG;
    while Instant::now() < deadline {
        if log.records()?.iter().any(|record| record.resource_version() == Some(&version)) {
            break;
        }
        tokio::time::sleep(EVERY).await;
    }
    Ok(())
}

impl Requests {
    /// Counts the controller's requests for a Framework of the default namespace.
    pub(crate) fn of(framework: &str, records: &[Record]) -> Requests {
        let mut requests = Requests::default();
        let own = records.iter().filter(|record| record.user_agent.starts_with(AGENT));
        for record in own.filter(|record| record.namespace == "default" && is_for(framework, record)) {
            if record.resource == "events" {
                requests.events += 1;
                continue;
            }
            let kind = Kind::of(record);
            if record.code >= 400 {
                *requests.refused.entry((kind.clone(), record.code)).or_default() += 1;
            }
            *requests.counts.entry(kind).or_default() += 1;
        }
        requests
    }

    /// The number of requests, without Events.
    pub(crate) fn total(&self) -> usize {
        self.counts.values().sum()
    }

    /// All counts in one line, beside the fewest requests that `tasks` undisturbed Tasks need.
    pub(crate) fn describe(&self, tasks: usize) -> String {
        let counts: Vec<String> =
            self.counts.iter().map(|(kind, count)| format!("{count} {}", kind.wording)).collect();
        let counts = if counts.is_empty() { "none".into() } else { counts.join(", ") };
        let refused = self
            .refused
            .iter()
            .map(|((kind, code), count)| format!(", {count} {} refused with {code}", kind.wording));
        format!(
            "{counts}: total {}{}, and {} for Events; 2n + 11 is {} for {tasks} Tasks",
            self.total(),
            refused.collect::<String>(),
            self.events,
            2 * tasks + 11
        )
    }
}

fn is_for(framework: &str, record: &Record) -> bool {
    let named =
        |separator: char| record.name.strip_prefix(framework).is_some_and(|rest| rest.starts_with(separator));
    match record.resource.as_str() {
        "frameworks" => record.name == framework,
        "configmaps" => record.name == config_map_name(framework),
        "pods" => named('-'),
        "events" => named('.'),
        _ => false,
    }
}

impl Kind {
    fn of(record: &Record) -> Kind {
        let position = RESOURCES.iter().position(|(resource, _)| *resource == record.resource);
        let position = position.unwrap_or(RESOURCES.len());
        let name = RESOURCES.get(position).map_or("other", |(_, name)| name);
        let method = match record.verb.as_str() {
            "create" => "POST".into(),
            "update" => "PUT".into(),
            verb => verb.to_uppercase(),
        };
        let wording = match (name, record.subresource.as_str(), record.verb.as_str()) {
            ("Framework", "status", "update" | "patch") => "status writes".into(),
            (_, "", _) => format!("{name} {method}"),
            (_, subresource, _) => format!("{name}/{subresource} {method}"),
        };
        Kind { position, wording }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;

    fn record(verb: &str, resource: &str, subresource: &str, name: &str) -> Record {
        Record {
            verb: verb.into(),
            resource: resource.into(),
            subresource: subresource.into(),
            namespace: "default".into(),
            name: name.into(),
            code: 200,
            user: String::new(),
            user_agent: "frameworkcontroller/0.1.0 (incarnation x)".into(),
            request_uri: String::new(),
            received: Timestamp::UNIX_EPOCH,
            completed: Timestamp::UNIX_EPOCH,
            request_object: None,
            response_object: None,
        }
    }

    #[test]
    fn only_requests_for_its_own_objects_count_for_a_framework() {
        let records = [
            record("update", "frameworks", "status", "job"),
            record("update", "frameworks", "status", "job"),
            Record { code: 409, ..record("create", "pods", "", "job-worker-0") },
            record("create", "configmaps", "", "job-attempt"),
            record("create", "events", "", "job.17"),
            record("create", "pods", "", "jobs-worker-0"),
            record("list", "pods", "", ""),
            Record { user_agent: "kwok/0.8".into(), ..record("delete", "pods", "", "job-worker-0") },
            Record { namespace: "other".into(), ..record("create", "pods", "", "job-worker-0") },
        ];
        let requests = Requests::of("job", &records);
        assert_eq!(
            requests.describe(1),
            "2 status writes, 1 ConfigMap POST, 1 Pod POST: total 4, 1 Pod POST refused with 409, and 1 for \
             Events; 2n + 11 is 13 for 1 Tasks"
        );
    }
}
