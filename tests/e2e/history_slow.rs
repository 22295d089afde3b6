//! The history beside a reader of standard error that takes 1 MB a second: it delays the Framework whose
//! lines they are, and no other.

use std::path::Path;

use serde_json::json;

use crate::cluster::lease::{Alone, namespace};
use crate::cluster::snapshots::{Snapshot, logged};
use crate::cluster::{
    self, completed, installed, log_of, manifest, program, running, start_program_with, task_number, until,
};

const NAME: &str = "slow-reader";

/// Runs a program. Passes on its standard error, at most 64 KiB every 65 ms.
const READER: &str = r#"exec "$0" "$@" 2> >(
    while bytes=$(dd bs=64k count=1 2>/dev/null | tee -a /dev/fd/3 | wc -c); [ "$bytes" -gt 0 ]; do
        sleep 0.065
    done 3>&1
)"#;

/// A controller with that reader. It ends with this value.
struct Controller(u32);

impl Controller {
    fn start() -> Controller {
        let first = ["-c".to_owned(), READER.to_owned(), program().display().to_string()];
        Controller(start_program_with(NAME, Path::new("/bin/bash"), &first, ""))
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        // A test that failed may have found it dead.
        let _ = installed().kill_hosted(self.0);
    }
}

/// The complete lines about a namespace so far.
fn lines(namespace: &str) -> Vec<Snapshot> {
    logged(&log_of(NAME), namespace)
}

/// The names of the removed Tasks of a namespace, as they were logged.
fn removed(namespace: &str) -> Vec<String> {
    let removed = lines(namespace).into_iter().filter(|one| one.trigger == "OnTaskDeletion");
    let index = |task: Snapshot| task.object["status"]["index"].to_string();
    removed.map(index).collect()
}

#[test]
fn a_slow_reader_of_history_delays_no_other_framework() {
    const TASKS: u32 = 100;
    let _alone = Alone::wait();
    let (large, small) = (namespace("slow-reader-large"), namespace("slow-reader-small"));
    let _controller = Controller::start();
    let padding = json!([{"name": "PADDING", "value": "x".repeat(100_000)}]);
    manifest("large")
        .role("w", TASKS, &[])
        .last_role(|role| role["task"]["pod"]["spec"]["containers"][0]["env"] = padding)
        .create(&large);
    running(&large, "large", TASKS.try_into().expect("few"));
    task_number(&large, "large", 0);
    until("the first removed Task is logged", || (!removed(&large).is_empty()).then_some(()));

    let flaky = [("exit-code", "200"), ("only-task-attempt", "0")];
    manifest("small").role("w", 1, &flaky).task_retry(true, 0).create(&small);
    completed(&small, "small");
    let (after, all) = (removed(&large).len(), TASKS as usize);
    assert!(after < all, "the large one had nothing left that could delay the small one");
    let retries = || lines(&small).iter().filter(|one| one.trigger == "OnTaskRetry").count();
    // It was written before the status that replaces it, but the reader may still hold it.
    until("the replaced status is logged", || (retries() > 0).then_some(()));

    let logged =
        until("all removed Tasks are logged", || Some(removed(&large)).filter(|logged| logged.len() >= all));
    let tasks: std::collections::BTreeSet<&String> = logged.iter().collect();
    assert_eq!((tasks.len(), logged.len()), (all, all), "each of them once");
    assert_eq!(retries(), 1, "and the small one's once");
    cluster::delete(&large, "large");
}
