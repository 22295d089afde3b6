//! A wave in the API server's audit log: the objects that were deleted or ended, when, and how late that was.

use std::collections::BTreeMap;

use framework_testcluster::audit::{Log, Mark, Record};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

/// By name, when something came and when it was due.
pub type Due = BTreeMap<String, Timestamp>;

/// How late each of many things came.
#[derive(Debug)]
pub struct Lateness {
    /// Of the requests when they arrived, in order: none may be negative.
    arrived: Vec<SignedDuration>,
    /// Of their responses, in order.
    answered: Vec<SignedDuration>,
}

impl Lateness {
    /// Of these requests, each for the object that it names.
    pub fn of<'a>(records: impl IntoIterator<Item = &'a Record>, due: &Due) -> Self {
        let (mut arrived, mut answered) = (Vec::new(), Vec::new());
        for record in records {
            let due = due.get(&record.name).unwrap_or_else(|| panic!("nothing was due of {}", record.name));
            arrived.push(record.received.duration_since(*due));
            answered.push(record.completed.duration_since(*due));
        }
        arrived.sort_unstable();
        answered.sort_unstable();
        Lateness { arrived, answered }
    }

    /// How many came before they were due.
    pub fn early(&self) -> usize {
        self.arrived.partition_point(|late| late.is_negative())
    }

    /// The time within which that many of a hundred responses came.
    pub fn percent(&self, percent: usize) -> SignedDuration {
        let rank = (self.answered.len() * percent).div_ceil(100);
        self.answered.get(rank.saturating_sub(1)).copied().unwrap_or_default()
    }

    /// The last response.
    pub fn max(&self) -> SignedDuration {
        self.percent(100)
    }

    /// One row of the table.
    pub fn row(&self, what: &str) -> String {
        let ms = |late: SignedDuration| late.as_millis();
        format!(
            "| {what} | {} | {} | {} | {} | {} |",
            self.answered.len(),
            self.early(),
            ms(self.percent(50)),
            ms(self.percent(99)),
            ms(self.max()),
        )
    }
}

/// Head of the table.
pub const HEAD: &str = "| what | how many | early | p50, ms late | p99 | last |\n|---|---|---|---|---|---|";

/// How many requests a second the API server answers in the middle of a burst.
pub fn rate(records: &[Record]) -> f64 {
    let mut answered: Vec<Timestamp> = records.iter().map(|record| record.completed).collect();
    answered.sort_unstable();
    let (from, to) = (answered.len() / 10, answered.len() * 9 / 10);
    match (answered.get(from), answered.get(to)) {
        (Some(first), Some(last)) if last > first => {
            (to - from) as f64 / last.duration_since(*first).as_secs_f64()
        }
        _ => f64::INFINITY,
    }
}

/// The controller's own requests.
pub fn ours(log: &Log, mark: Mark) -> Vec<Record> {
    let mut ours = Vec::new();
    let keep = |record: Record| {
        if record.user_agent.starts_with("frameworkcontroller/") {
            ours.push(record);
        }
    };
    log.each_since(mark, keep).expect("the log is there");
    ours
}

/// Those about the Frameworks of a namespace.
pub fn of_frameworks(records: &[Record], namespace: &str) -> Vec<Record> {
    of(records, namespace, "frameworks")
}

/// Those about the objects of a resource in a namespace.
pub fn of(records: &[Record], namespace: &str, resource: &str) -> Vec<Record> {
    let concerned = |record: &&Record| record.namespace == namespace && record.resource == resource;
    records.iter().filter(concerned).cloned().collect()
}

/// How often the controller asked for the time and was told: a request that fails is sent again.
pub fn asked_time(records: &[Record]) -> usize {
    let told = |record: &&Record| record.request_uri.starts_with("/version") && record.code == 200;
    records.iter().filter(told).count()
}

/// The DELETEs that were accepted, and those that were not.
pub fn deletes(records: &[Record]) -> (Vec<Record>, Vec<Record>) {
    let deletes = records.iter().filter(|record| record.verb == "delete").cloned();
    deletes.partition(|record| record.code < 300)
}

/// The status writes that were accepted, with their status.
pub fn writes(records: &[Record]) -> impl Iterator<Item = (&Record, &Value)> {
    let is_write =
        |record: &&Record| record.verb == "update" && record.subresource == "status" && record.code < 300;
    records.iter().filter(is_write).filter_map(|record| {
        let body = record.request_object.as_ref()?;
        Some((record, &body["status"]))
    })
}

/// The first write of each Framework whose status is as asked.
pub fn first_writes(records: &[Record], is: impl Fn(&Value) -> bool) -> Vec<Record> {
    let mut first = BTreeMap::new();
    for (record, _) in writes(records).filter(|(_, status)| is(status)) {
        first.entry(record.name.clone()).or_insert_with(|| record.clone());
    }
    first.into_values().collect()
}

/// The code with which the attempt ended.
pub fn code(status: &Value) -> Option<i64> {
    status["attemptStatus"]["completionStatus"]["code"].as_i64()
}

/// The first writes that say that a deadline ended a Framework, in two lists. Those of the first list ended
/// its attempt. Before those of the second, another end of the attempt was stored, so that its Pods had to go
/// first.
pub fn exceeded(records: &[Record], exceeded: i64) -> (Vec<Record>, Vec<Record>) {
    let (mut ended, mut waited) = (Vec::new(), Vec::new());
    let mut last: BTreeMap<String, Option<i64>> = BTreeMap::new();
    for (record, status) in writes(records) {
        let before = last.insert(record.name.clone(), code(status)).flatten();
        match (before, code(status)) {
            (Some(before), Some(now)) if before == now => {}
            (None, Some(now)) if now == exceeded => ended.push(record.clone()),
            (Some(_), Some(now)) if now == exceeded => waited.push(record.clone()),
            _ => {}
        }
    }
    (ended, waited)
}
