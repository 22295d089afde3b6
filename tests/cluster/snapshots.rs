//! The snapshots of history that a controller logged: extracted from its log by the regular expression that
//! pipelines use, and compared with the API server's objects.

use framework_api::Framework;
pub use framework_sim::check::snapshots::Snapshot;
use framework_sim::check::snapshots::of_replaced;
use regex::Regex;
use serde_json::Value;

use super::history::History;

/// All snapshots of a namespace in the whole lines of a log, in order.
pub fn logged(log: &str, namespace: &str) -> Vec<Snapshot> {
    // A controller that runs may be writing the last line.
    let log = log.rsplit_once('\n').map_or("", |(lines, _)| lines);
    let pipeline = Regex::new(": ObjectSnapshot: (.+)").expect("the contract's");
    let trigger = Regex::new("^(.*): (On[A-Za-z]+)$").expect("a regular expression");
    let snapshots = pipeline.captures_iter(log).filter_map(|captured| {
        let (whole, json) = (captured.get(0).expect("a match"), &captured[1]);
        let object: Value = match serde_json::from_str(json) {
            Ok(object) => object,
            // A controller that is killed while it writes leaves a part of a line, and the next one goes on.
            // The first one did not do the action that the line announced.
            Err(_) if json.contains(" INFO starting version=") => return None,
            Err(error) => panic!("{error}: {json}"),
        };
        let head = log[..whole.start()].rsplit('\n').next().expect("a line");
        let parts = trigger.captures(head).unwrap_or_else(|| panic!("no trigger: {head}"));
        let (sentence, trigger) = (parts[1].to_owned(), parts[2].to_owned());
        assert!(object["apiVersion"].is_string() && object["kind"].is_string(), "{object}");
        Some(Snapshot { rv: None, sentence, trigger, object })
    });
    snapshots.filter(|snapshot| snapshot.meta("namespace") == namespace).collect()
}

/// Asserts that every object that a status write replaced was logged, and that all that was logged was
/// persisted. The Pods are left out: the history has them without the fields that it does not know.
pub fn assert_replaced_are_logged(history: &History, logged: &[Snapshot]) {
    let logged: Vec<_> = logged.iter().filter(|one| one.object["kind"] != "Pod").cloned().collect();
    assert_eq!(of_replaced(&history.recorded, &logged), Ok(()), "{logged:#?}");
}

/// Asserts that a Framework is shown whole: its own fields, all of its Tasks, nothing compressed.
pub fn assert_whole(snapshot: &Snapshot) -> Framework {
    assert!(!snapshot.is_incomplete(), "{}", snapshot.sentence);
    let attempt = &snapshot.object["status"]["attemptStatus"];
    assert!(attempt["taskRoleStatuses"].is_array(), "{attempt}");
    assert!(attempt.get("taskRoleStatusesCompressed").is_none(), "{attempt}");
    serde_json::from_value(snapshot.object.clone()).expect("a Framework")
}
