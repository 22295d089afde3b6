//! The requests that the API server received, from its audit log.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use framework_audit::{Log, Mark, Record};
use jiff::Timestamp;

use crate::fake_nodes::FakeNodes;
use crate::report::{RequestRow, Requests, Series};
use crate::scenario::Scenario;
use crate::system::{SLOT_MAP, System};

/// The audit log from the start of a run on.
#[derive(Debug)]
pub struct RunLog {
    log: Log,
    mark: Mark,
    /// The file at the start.
    file: fs::Metadata,
}

impl RunLog {
    /// The log in this file from now on. An error if there is no file: the API server has answered requests.
    pub fn begin(path: &Path) -> Result<RunLog> {
        let log = Log::new(path.to_owned());
        let mark = log.mark()?;
        Ok(RunLog { log, mark, file: metadata(path)? })
    }

    /// The requests so far. An error if the log cannot have all requests of the run. Without them, each count
    /// would be 0, which meets levels. `start` is the start of the run.
    pub fn counted(&self, start: Timestamp, system: System) -> Result<Counted> {
        let path = self.log.path();
        let now = metadata(path)?;
        let is_same = (now.dev(), now.ino()) == (self.file.dev(), self.file.ino());
        ensure!(
            is_same && now.len() >= self.file.len(),
            "--audit-log: {} was replaced or truncated during the run: give a log that is not rotated",
            path.display()
        );
        let counted = Counted::read(&self.log, self.mark, start, system)?;
        let is_followed = counted.by_second.keys().any(|client| client.starts_with("loadtest"));
        for (client, is_there) in [("the load test", is_followed), (system.name(), counted.own > 0)] {
            ensure!(
                is_there,
                "--audit-log: {} has no request of {client} since the start of the run: give the log of the \
                 API server that {client} uses",
                path.display()
            );
        }
        Ok(counted)
    }
}

fn metadata(path: &Path) -> Result<fs::Metadata> {
    fs::metadata(path).with_context(|| format!("--audit-log: reading {}", path.display()))
}

/// The requests of one run, counted.
#[derive(Debug)]
pub struct Counted {
    rows: BTreeMap<(String, String, String, u16), usize>,
    own: usize,
    refused: usize,
    reads: usize,
    /// The system's accepted creations of Pods.
    pub pods: usize,
    /// Requests by second since the start and by client.
    by_second: BTreeMap<String, BTreeMap<i64, usize>>,
    /// The reports of fake nodes on the Pods.
    pub nodes: FakeNodes,
}

impl Counted {
    /// Reads the log after `mark`. `start` is the start of the run.
    fn read(log: &Log, mark: Mark, start: Timestamp, system: System) -> Result<Counted> {
        let (rows, by_second, nodes) = Default::default();
        let (own, refused, reads, pods) = (0, 0, 0, 0);
        let mut counted = Counted { rows, own, refused, reads, pods, by_second, nodes };
        log.each_since(mark, |record| counted.take(&record, start, system))?;
        Ok(counted)
    }

    fn take(&mut self, record: &Record, start: Timestamp, system: System) {
        let client = record.user_agent.split(['/', ' ']).next().unwrap_or_default().to_owned();
        let second = record.received.duration_since(start).as_secs();
        *self.by_second.entry(client.clone()).or_default().entry(second).or_default() += 1;
        let resource = match record.subresource.as_str() {
            _ if record.name == SLOT_MAP => "configmaps (slot map)".to_owned(),
            "" => record.resource.clone(),
            subresource => format!("{}/{subresource}", record.resource),
        };
        let is_pod_creation = record.verb == "create" && resource == "pods" && record.code < 300;
        if is_pod_creation {
            self.nodes.stored(record);
        }
        if client == "kwok" && record.verb == "patch" && resource == "pods/status" && record.code < 300 {
            self.nodes.reported(record);
        }
        if system.is_own(record) {
            self.own += 1;
            self.pods += usize::from(is_pod_creation);
            self.refused += usize::from(record.code >= 400);
            self.reads += usize::from(["get", "list"].contains(&record.verb.as_str()));
        }
        *self.rows.entry((client, record.verb.clone(), resource, record.code)).or_default() += 1;
    }

    /// The controller's own count of requests, minus those in the log.
    pub fn difference(&self, controller_count: usize) -> i64 {
        i64::try_from(controller_count).unwrap_or(i64::MAX) - i64::try_from(self.own).unwrap_or(i64::MAX)
    }

    /// The counts for the report.
    pub fn report(&self, scenario: &Scenario, system: System, controller_count: Option<usize>) -> Requests {
        let floor = system.floor(scenario);
        let against = |floor: usize| (self.own > 0).then(|| floor as f64 / self.own as f64);
        let rows = self.rows.iter().map(|((client, verb, resource, code), count)| RequestRow {
            client: client.clone(),
            verb: verb.clone(),
            resource: resource.clone(),
            code: *code,
            count: *count,
        });
        Requests {
            source: "audit log".into(),
            rows: rows.collect(),
            own: self.own,
            floor: floor.map(|floor| floor.full),
            write_efficiency: floor.and_then(|floor| against(floor.full)),
            write_efficiency_strict: floor.and_then(|floor| against(floor.strict)),
            write_efficiency_least: floor.and_then(|floor| against(floor.least)),
            refused: self.refused,
            reads: self.reads,
            per_job: self.own as f64 / scenario.jobs() as f64,
            per_task: self.own as f64 / scenario.tasks() as f64,
            unreconciled: controller_count.map(|count| self.difference(count)),
        }
    }

    /// Requests of each second of the run, by client.
    pub fn series(&self, seconds: f64) -> Vec<Series> {
        let last = seconds.ceil() as i64;
        let of = |(client, counts): (&String, &BTreeMap<i64, usize>)| {
            let count = |second| counts.get(&second).copied().unwrap_or(0) as f64;
            Series::new(
                "requests",
                client,
                "requests/s",
                (0..=last).map(|second| (second as f64, count(second))),
            )
        };
        self.by_second.iter().map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn line(agent: &str, verb: &str, resource: &str, code: u16, second: u32) -> String {
        let at = format!("2026-11-21T09:00:{second:02}");
        serde_json::json!({
            "verb": verb, "user": { "username": "u" }, "userAgent": agent, "requestURI": "/x",
            "objectRef": { "resource": resource }, "responseStatus": { "code": code },
            "requestReceivedTimestamp": format!("{at}.000000Z"), "stageTimestamp": format!("{at}.500000Z"),
        })
        .to_string()
    }

    #[test]
    fn own_requests_are_counted_apart_from_others() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        for (agent, verb, resource, code) in [
            ("frameworkcontroller/1 (x)", "create", "pods", 201),
            ("frameworkcontroller/1 (x)", "create", "pods", 409),
            ("frameworkcontroller/1 (x)", "list", "pods", 200),
            ("frameworkcontroller/1 (x)", "watch", "pods", 200),
            ("frameworkcontroller/1 (x)", "create", "events", 201),
            ("kwok/1", "create", "pods", 201),
        ] {
            writeln!(file, "{}", line(agent, verb, resource, code, 1)).unwrap();
        }
        let map = line("frameworkcontroller/1 (x)", "get", "configmaps", 200, 9);
        writeln!(
            file,
            "{}",
            map.replace("\"configmaps\"", "\"configmaps\",\"name\":\"frameworkcontroller-slots\"")
        )
        .unwrap();
        let log = Log::new(file.path().to_owned());
        let start = "2026-11-21T09:00:00Z".parse().unwrap();
        let counted = Counted::read(&log, Mark::default(), start, System::Framework).unwrap();
        let text = "description: d\ngroups: [{name: a, jobs: 1, taskRoles: [{name: w, taskNumber: 2}]}]";
        let requests = counted.report(&Scenario::parse(text).unwrap(), System::Framework, Some(4));
        assert_eq!((requests.own, requests.refused, requests.reads, counted.pods), (3, 1, 1, 1));
        assert_eq!((requests.floor, requests.unreconciled), (Some(15), Some(1)));
        assert_eq!((requests.write_efficiency, requests.per_task), (Some(5.0), 1.5));
        let lower = (requests.write_efficiency_strict, requests.write_efficiency_least);
        assert_eq!(lower, (Some(4.0), Some(11.0 / 3.0)));
        assert_eq!(requests.rows.len(), 7);
        assert!(requests.rows.iter().any(|row| row.resource == "configmaps (slot map)"));
        let series = counted.series(2.0);
        assert_eq!(series[0].points, [(0.0, 0.0), (1.0, 5.0), (2.0, 0.0)]);
    }

    /// The lines of requests of these clients.
    fn lines(agents: &[&str]) -> String {
        let of = |agent: &&str| line(agent, "create", "pods", 201, 1) + "\n";
        agents.iter().map(of).collect()
    }

    /// Why the requests of a run are not counted.
    fn refusal(log: &RunLog) -> String {
        let start = "2026-11-21T09:00:00Z".parse().unwrap();
        log.counted(start, System::Framework).map_or_else(|error| error.to_string(), |_| String::new())
    }

    #[test]
    fn a_log_without_requests_of_the_run_is_not_counted() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.log");
        let missing = format!("{:#}", RunLog::begin(&path).unwrap_err());
        assert!(missing.starts_with(&format!("--audit-log: reading {}: ", path.display())), "{missing}");
        let (controller, load_test) = ("frameworkcontroller/1 (x)", "loadtest/1");
        let mut text = lines(&[controller, load_test]);
        fs::write(&path, &text).unwrap();
        let log = RunLog::begin(&path).unwrap();
        for (agents, lacking) in [
            (&["kubelet/1", controller][..], "has no request of the load test since the start of the run"),
            (&[load_test][..], ""),
        ] {
            text += &lines(agents);
            fs::write(&path, &text).unwrap();
            let why = refusal(&log);
            assert!(why.contains(lacking) && why.is_empty() == lacking.is_empty(), "{why}");
        }
        let log = RunLog::begin(&path).unwrap();
        fs::write(&path, text + &lines(&[load_test])).unwrap();
        let why = refusal(&log);
        assert!(why.contains("has no request of frameworkcontroller since the start"), "{why}");
    }

    #[test]
    fn a_log_that_was_rotated_during_the_run_is_not_counted() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.log");
        let of_run = lines(&["frameworkcontroller/1 (x)", "loadtest/1"]);
        fs::write(&path, &of_run).unwrap();
        let log = RunLog::begin(&path).unwrap();
        fs::write(&path, of_run.repeat(2)).unwrap();
        assert_eq!(refusal(&log), "");
        fs::rename(&path, dir.path().join("audit-1.log")).unwrap();
        fs::write(&path, of_run.repeat(2)).unwrap();
        assert!(refusal(&log).contains("was replaced or truncated"), "{}", refusal(&log));
        let log = RunLog::begin(&path).unwrap();
        fs::write(&path, &of_run).unwrap();
        assert!(refusal(&log).contains("was replaced or truncated"), "{}", refusal(&log));
    }

    #[test]
    fn a_refused_patch_of_a_fake_node_is_no_report() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        writeln!(file, "{}", line("x/1", "create", "pods", 201, 1)).unwrap();
        for (code, second) in [(409, 2), (200, 5)] {
            let patch = line("kwok/1", "patch", "pods", code, second);
            writeln!(file, "{}", patch.replace("\"pods\"", "\"pods\",\"subresource\":\"status\"")).unwrap();
        }
        let log = Log::new(file.path().to_owned());
        let start = "2026-11-21T09:00:00Z".parse().unwrap();
        let counted = Counted::read(&log, Mark::default(), start, System::Framework).unwrap();
        assert_eq!(counted.nodes.latencies().map(|(_, seconds)| seconds), [vec![3.5], vec![0.0]]);
    }
}
