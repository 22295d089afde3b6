//! The dashboard of `deploy/monitoring`: its queries, and a run that gives each of them something to show.

use framework_api::Framework;
use serde_json::{Value, json};

use crate::cluster::lease::namespace;
use crate::cluster::queues::furnish;
use crate::cluster::{completed, execute, manifest, running};

/// The panels of the dashboard.
pub fn panels() -> Vec<Value> {
    let object: Value =
        serde_saphyr::from_str(include_str!("../../deploy/monitoring/dashboard.yaml")).expect("YAML");
    assert_eq!(object["metadata"]["labels"]["grafana_dashboard"], "1");
    let text = object["data"]["frameworkcontroller.json"].as_str().expect("a file");
    let dashboard: Value = serde_json::from_str(text).expect("JSON");
    dashboard["panels"].as_array().expect("panels").clone()
}

/// The queries of the dashboard, with the title of their panel.
pub fn queries() -> Vec<(String, String)> {
    let panels = panels();
    let targets = panels.iter().flat_map(|panel| {
        let title = panel["title"].as_str().expect("a title");
        let targets = panel["targets"].as_array().expect("targets");
        targets.iter().map(|target| (title.to_owned(), target["expr"].as_str().expect("a query").to_owned()))
    });
    targets.collect()
}

/// A Framework in the queue whose Tasks run until they are stopped.
fn gang(name: &str, tasks: u32) -> Framework {
    manifest(name).role("a", tasks, &[]).queue("q").create("dashboard")
}

/// Some of everything that the dashboard shows: Frameworks that succeed, fail, are retried and wait.
pub fn life() {
    furnish("dashboard", 2);
    gang("queued", 2);
    running("dashboard", "queued", 2);
    gang("waiting", 2);
    execute("dashboard", "queued", "Stop");
    running("dashboard", "waiting", 2);
    gang("late", 2);
    let ns = namespace("dashboard-retries");
    let fails = [("exit-code", "200"), ("only-task-attempt", "0")];
    manifest("retried").role("w", 1, &fails).task_retry(true, 0).create(&ns);
    manifest("invalid")
        .role("w", 1, &[])
        .last_role(|role| role["task"]["pod"]["spec"]["containers"][0]["image"] = json!(""))
        .create(&ns);
    completed(&ns, "invalid");
    completed(&ns, "retried");
}
