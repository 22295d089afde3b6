//! What a cheap look at a Framework shows: its version and, by its columns, how many Tasks have an IP.
//!
//! The API server makes a table of the object, as it does for `kubectl get`: a kilobyte or two, whatever the
//! size of the object. Columns that are not there (a CRD of somebody else) leave the version alone.

use serde::Deserialize;
use serde_json::Value;

/// How to ask for it. Who cannot make a table may send the object.
pub const ACCEPT: &str = "application/json;as=Table;g=meta.k8s.io;v=v1,application/json";

/// A cheap look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glimpse {
    /// The version of the object that was looked at.
    pub version: String,
    /// How many Tasks have an IP, and how many there are.
    pub count: Option<Count>,
}

/// Tasks, those that are being removed left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// Those with an IP.
    pub addressed: u64,
    /// All of them.
    pub total: u64,
}

/// What stands in the answer, of a table or of an object.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    metadata: Metadata,
    #[serde(default)]
    column_definitions: Vec<Column>,
    #[serde(default)]
    rows: Vec<Row>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    #[serde(default)]
    resource_version: String,
}

#[derive(Deserialize)]
struct Column {
    name: String,
}

#[derive(Deserialize)]
struct Row {
    cells: Vec<Value>,
}

/// Reads the API server's answer.
pub fn read(answer: &[u8]) -> Result<Glimpse, serde_json::Error> {
    let answer: Answer = serde_json::from_slice(answer)?;
    let cell = |name: &str| {
        let place = answer.column_definitions.iter().position(|column| column.name == name)?;
        answer.rows.first()?.cells.get(place)
    };
    let addressed = cell("Addressed").and_then(Value::as_u64);
    // `3/20`: the ones that run or succeeded, of all.
    let total = cell("Tasks").and_then(Value::as_str).and_then(|tasks| tasks.split('/').nth(1)?.parse().ok());
    let count = addressed.zip(total).map(|(addressed, total)| Count { addressed, total });
    Ok(Glimpse { version: answer.metadata.resource_version, count })
}

impl Count {
    /// Whether it is all of them.
    pub fn is_complete(self) -> bool {
        self.addressed >= self.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn table(columns: &[&str], cells: Value) -> Glimpse {
        let columns: Vec<Value> =
            columns.iter().map(|name| json!({"name": name, "type": "string"})).collect();
        let table = json!({
            "kind": "Table", "metadata": {"resourceVersion": "42"},
            "columnDefinitions": columns, "rows": [{"cells": cells, "object": null}],
        });
        read(table.to_string().as_bytes()).unwrap()
    }

    fn count(addressed: u64, total: u64) -> Option<Count> {
        Some(Count { addressed, total })
    }

    #[test]
    fn columns_tell_how_many_tasks_have_an_ip() {
        let columns = ["Name", "State", "Tasks", "Addressed"];
        let glimpse = table(&columns, json!(["train", "AttemptPreparing", "0/20", 17]));
        assert_eq!(glimpse, Glimpse { version: "42".into(), count: count(17, 20) });
        assert!(!glimpse.count.unwrap().is_complete());
        assert!(table(&columns, json!(["train", "", "20/20", 20])).count.unwrap().is_complete());
    }

    #[test]
    fn without_our_columns_there_is_the_version_alone() {
        let none = Glimpse { version: "42".into(), count: None };
        assert_eq!(table(&["Name", "Age"], json!(["train", "5s"])), none);
        assert_eq!(table(&["Tasks", "Addressed"], json!(["0/20", null])), none, "not written yet");
        let object = r#"{"kind":"Framework","metadata":{"resourceVersion":"42"},"spec":{}}"#;
        assert_eq!(read(object.as_bytes()).unwrap(), none);
    }
}
