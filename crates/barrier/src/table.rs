//! A Framework as a table: its version and, by its columns, how many Tasks have an IP.
//!
//! The API server makes the table, as it does for `kubectl get`: one or two kilobytes for an object of any
//! size. If the columns are missing, as with the CRD of another controller, only the version is read.

use serde::Deserialize;
use serde_json::Value;

/// The header `Accept` of the query. A server that cannot make tables may send the object.
pub const ACCEPT: &str = "application/json;as=Table;g=meta.k8s.io;v=v1,application/json";

/// The contents of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// The version of the object.
    pub version: String,
    /// How many Tasks have an IP, and how many there are.
    pub count: Option<Count>,
}

/// The number of Tasks, without those that are being removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// The Tasks with an IP.
    pub addressed: u64,
    /// All Tasks.
    pub total: u64,
}

/// The body of a reply: a table, or an object.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Body {
    metadata: TableMetadata,
    #[serde(default)]
    column_definitions: Vec<Column>,
    #[serde(default)]
    rows: Vec<Row>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TableMetadata {
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

/// Reads the body of the API server's reply.
pub fn read(body: &[u8]) -> Result<Table, serde_json::Error> {
    let table: Body = serde_json::from_slice(body)?;
    let cell = |name: &str| {
        let position = table.column_definitions.iter().position(|column| column.name == name)?;
        table.rows.first()?.cells.get(position)
    };
    let addressed = cell("Addressed").and_then(Value::as_u64);
    // `3/20`: the Tasks that run or succeeded, and all Tasks.
    let total = cell("Tasks").and_then(Value::as_str).and_then(|tasks| tasks.split('/').nth(1)?.parse().ok());
    let count = addressed.zip(total).map(|(addressed, total)| Count { addressed, total });
    Ok(Table { version: table.metadata.resource_version, count })
}

impl Count {
    /// Whether all Tasks have an IP.
    pub fn is_complete(self) -> bool {
        self.addressed >= self.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn table(columns: &[&str], cells: Value) -> Table {
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
    fn the_columns_count_the_tasks_with_an_ip() {
        let columns = ["Name", "State", "Tasks", "Addressed"];
        let partial = table(&columns, json!(["train", "AttemptPreparing", "0/20", 17]));
        assert_eq!(partial, Table { version: "42".into(), count: count(17, 20) });
        assert!(!partial.count.unwrap().is_complete());
        assert!(table(&columns, json!(["train", "", "20/20", 20])).count.unwrap().is_complete());
    }

    #[test]
    fn without_our_columns_only_the_version_is_read() {
        let none = Table { version: "42".into(), count: None };
        assert_eq!(table(&["Name", "Age"], json!(["train", "5s"])), none);
        assert_eq!(table(&["Tasks", "Addressed"], json!(["0/20", null])), none, "not written yet");
        let object = r#"{"kind":"Framework","metadata":{"resourceVersion":"42"},"spec":{}}"#;
        assert_eq!(read(object.as_bytes()).unwrap(), none);
    }
}
