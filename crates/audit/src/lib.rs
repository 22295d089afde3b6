//! The API server's audit log as typed records: every request, with its user and its response code.
//!
//! Each request is logged once, when its response is complete; a watch is logged when it ends. Probes and
//! discovery are not logged. Bodies are logged for writes to Frameworks, TrainJobs, ConfigMaps and Pods, but
//! not for writes to `pods/status`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::PathBuf;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

/// Why the log could not be read.
#[derive(Debug, thiserror::Error)]
#[error("{step} {}: {source}", file.display())]
pub struct Error {
    /// The step that failed.
    pub step: &'static str,
    /// The log.
    pub file: PathBuf,
    /// Why it failed.
    pub source: std::io::Error,
}

/// The audit log of one cluster.
#[derive(Clone, Debug)]
pub struct Log {
    file: PathBuf,
}

/// A position in the log: the records after it can be read alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark(u64);

/// One request and its response.
#[derive(Clone, Debug)]
pub struct Record {
    /// The verb of Kubernetes: `create`, `update`, `patch`, `delete`, `get`, `list`, `watch`, ...
    pub verb: String,
    /// The resource in the plural, such as `pods`; empty for a request that names none.
    pub resource: String,
    /// The subresource, such as `status`; empty if there is none.
    pub subresource: String,
    /// The namespace; empty if there is none.
    pub namespace: String,
    /// The object's name; empty where the request names none.
    pub name: String,
    /// The status code of the response.
    pub code: u16,
    /// The user.
    pub user: String,
    /// The program of the user.
    pub user_agent: String,
    /// The path and query of the request.
    pub request_uri: String,
    /// When the request arrived.
    pub received: Timestamp,
    /// When the response was complete.
    pub completed: Timestamp,
    /// The body of the request, if the log carries it.
    pub request_object: Option<Value>,
    /// The body of the response, if the log carries it.
    pub response_object: Option<Value>,
}

impl Record {
    /// The resourceVersion of the object in the response.
    pub fn resource_version(&self) -> Option<&str> {
        self.response_object.as_ref()?.pointer("/metadata/resourceVersion")?.as_str()
    }
}

/// The number of requests by (verb, resource, subresource).
pub type Counts = BTreeMap<(String, String, String), usize>;

/// Counts the requests of programs whose user agent starts with `agent`; the empty string counts all.
pub fn count<'a>(records: impl IntoIterator<Item = &'a Record>, agent: &str) -> Counts {
    let mut counts = Counts::new();
    for record in records.into_iter().filter(|record| record.user_agent.starts_with(agent)) {
        let key = (record.verb.clone(), record.resource.clone(), record.subresource.clone());
        *counts.entry(key).or_default() += 1;
    }
    counts
}

impl Log {
    /// The log in this file, which may not exist yet.
    pub fn new(file: PathBuf) -> Log {
        Log { file }
    }

    /// The file itself: one JSON object per line.
    pub fn path(&self) -> &std::path::Path {
        &self.file
    }

    /// All records so far.
    pub fn records(&self) -> Result<Vec<Record>, Error> {
        self.since(Mark::default())
    }

    /// The end of the log as it is now. A line that is being written is after it.
    pub fn mark(&self) -> Result<Mark, Error> {
        match File::open(&self.file) {
            Ok(file) => end_of_lines(file).map(Mark).map_err(self.failed("reading")),
            // No request was logged yet.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Mark::default()),
            Err(error) => Err(self.failed("opening")(error)),
        }
    }

    /// The records after a mark.
    pub fn since(&self, mark: Mark) -> Result<Vec<Record>, Error> {
        let mut records = Vec::new();
        self.each_since(mark, |record| records.push(record))?;
        Ok(records)
    }

    /// Passes on each record after a mark, without holding all of them in memory.
    pub fn each_since(&self, mark: Mark, visit: impl FnMut(Record)) -> Result<(), Error> {
        let mut file = match File::open(&self.file) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(self.failed("opening")(error)),
        };
        file.seek(SeekFrom::Start(mark.0)).map_err(self.failed("reading"))?;
        parse(BufReader::new(file), visit).map_err(self.failed("reading"))
    }

    fn failed(&self, step: &'static str) -> impl FnOnce(std::io::Error) -> Error {
        let file = self.file.clone();
        move |source| Error { step, file, source }
    }
}

/// Where the last whole line ends. The API server writes a line in pieces, and the file may end between them.
fn end_of_lines(mut file: File) -> std::io::Result<u64> {
    const PIECE: u64 = 64 << 10;
    let mut end = file.seek(SeekFrom::End(0))?;
    while end > 0 {
        let begin = end.saturating_sub(PIECE);
        file.seek(SeekFrom::Start(begin))?;
        let mut piece = Vec::new();
        (&mut file).take(end - begin).read_to_end(&mut piece)?;
        if let Some(at) = piece.iter().rposition(|byte| *byte == b'\n') {
            return Ok(begin + at as u64 + 1);
        }
        end = begin;
    }
    Ok(0)
}

/// Reads lines; a last line without its end is still being written, and is left out.
fn parse(mut lines: impl BufRead, mut visit: impl FnMut(Record)) -> std::io::Result<()> {
    let mut line = Vec::new();
    loop {
        line.clear();
        lines.read_until(b'\n', &mut line)?;
        if line.last() != Some(&b'\n') {
            return Ok(());
        }
        let event: Event = match serde_json::from_slice(&line) {
            Ok(event) => event,
            Err(error) => after_a_torn_one(&line).ok_or(error)?,
        };
        visit(event.into());
    }
}

/// How each record begins.
const BEGIN: &[u8] = br#"{"kind":"Event","apiVersion":"audit.k8s.io/"#;

/// The record at the end of a line. An API server that is killed leaves a part of a record, without a line
/// end, and the next one goes on behind it.
fn after_a_torn_one(line: &[u8]) -> Option<Event> {
    let begin = line.windows(BEGIN.len()).rposition(|bytes| bytes == BEGIN)?;
    serde_json::from_slice(&line[begin..]).ok()
}

/// A line of the log.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    verb: String,
    user: User,
    #[serde(default)]
    user_agent: String,
    #[serde(rename = "requestURI")]
    request_uri: String,
    #[serde(default)]
    object_ref: ObjectRef,
    response_status: Option<ResponseStatus>,
    request_object: Option<Value>,
    response_object: Option<Value>,
    #[serde(with = "timestamp")]
    request_received_timestamp: Timestamp,
    #[serde(with = "timestamp")]
    stage_timestamp: Timestamp,
}

#[derive(Deserialize)]
struct User {
    #[serde(default)]
    username: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ObjectRef {
    resource: String,
    subresource: String,
    namespace: String,
    name: String,
}

#[derive(Deserialize)]
struct ResponseStatus {
    #[serde(default)]
    code: u16,
}

mod timestamp {
    use jiff::Timestamp;
    use serde::{Deserialize, Deserializer, de::Error};

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

impl From<Event> for Record {
    fn from(event: Event) -> Record {
        Record {
            verb: event.verb,
            resource: event.object_ref.resource,
            subresource: event.object_ref.subresource,
            namespace: event.object_ref.namespace,
            name: event.object_ref.name,
            code: event.response_status.map_or(0, |status| status.code),
            user: event.user.username,
            user_agent: event.user_agent,
            request_uri: event.request_uri,
            received: event.request_received_timestamp,
            completed: event.stage_timestamp,
            request_object: event.request_object,
            response_object: event.response_object,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CREATED: &str = concat!(
        r#"{"kind":"Event","apiVersion":"audit.k8s.io/v1","verb":"create","#,
        r#""user":{"username":"controller"},"userAgent":"ours/1","#,
        r#""requestURI":"/api/v1/namespaces/a/pods?x=y","objectRef":{"resource":"pods","namespace":"a"},"#,
        r#""responseStatus":{"metadata":{},"code":201},"#,
        r#""responseObject":{"metadata":{"resourceVersion":"42"}},"#,
        r#""requestReceivedTimestamp":"2026-11-21T09:00:00.000001Z","#,
        r#""stageTimestamp":"2026-11-21T09:00:00.002001Z"}"#,
    );

    fn parsed(text: &str) -> Vec<Record> {
        let mut records = Vec::new();
        parse(text.as_bytes(), |record| records.push(record)).unwrap();
        records
    }

    #[test]
    fn a_line_becomes_a_record() {
        let records = parsed(&format!("{CREATED}\n"));
        let [record] = &records[..] else { panic!("one line, {} records", records.len()) };
        assert_eq!((record.verb.as_str(), record.resource.as_str(), record.code), ("create", "pods", 201));
        assert_eq!((record.user.as_str(), record.user_agent.as_str()), ("controller", "ours/1"));
        assert_eq!(record.resource_version(), Some("42"));
        assert_eq!((record.completed - record.received).get_milliseconds(), 2);
    }

    #[test]
    fn an_unfinished_line_is_left_out() {
        let text = format!("{CREATED}\n{}", &CREATED[..100]);
        assert_eq!(parsed(&text).len(), 1);
    }

    #[test]
    fn a_record_behind_a_torn_one_is_read() {
        let torn = |cut: usize| format!("{CREATED}\n{}{CREATED}\n{CREATED}\n", &CREATED[..cut]);
        for cut in [1, 100, CREATED.len() - 1] {
            assert_eq!(parsed(&torn(cut)).len(), 3, "{cut}");
        }
        let garbage = format!("{CREATED}\n{{\"kind\":\n");
        assert!(parse(garbage.as_bytes(), drop).is_err(), "nothing else is passed over");
    }

    #[test]
    fn a_line_that_is_being_written_is_after_the_mark() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let log = Log::new(file.path().to_owned());
        let long = CREATED.replace("a/pods", &"a".repeat(200_000));
        for (before, rest) in [("", CREATED), (CREATED, CREATED), (CREATED, &long)] {
            let whole = if before.is_empty() { String::new() } else { format!("{before}\n") };
            for cut in [0, 1, rest.len() - 1, rest.len()] {
                std::fs::write(file.path(), format!("{whole}{}", &rest[..cut])).unwrap();
                let mark = log.mark().unwrap();
                std::fs::write(file.path(), format!("{whole}{rest}\n")).unwrap();
                assert_eq!(log.since(mark).unwrap().len(), 1, "{cut} of {}", rest.len());
            }
        }
    }

    #[test]
    fn requests_are_counted_by_program_and_verb() {
        let theirs = CREATED.replace("ours/1", "kwok/2");
        let deleted = CREATED.replace("create", "delete");
        let text = format!("{CREATED}\n{CREATED}\n{theirs}\n{deleted}\n");
        let records = parsed(&text);
        let key = |verb: &str| (verb.to_owned(), "pods".to_owned(), String::new());
        assert_eq!(count(&records, "ours"), Counts::from([(key("create"), 2), (key("delete"), 1)]));
        assert_eq!(count(&records, "")[&key("create")], 3);
    }

    #[test]
    fn a_log_that_does_not_exist_yet_is_empty() {
        let log = Log::new("/nonexistent/audit.log".into());
        assert_eq!(log.mark().unwrap(), Mark::default());
        assert!(log.records().unwrap().is_empty());
    }
}
