//! The output of a test that waited in vain: few lines, as CI keeps only a part of them.

use std::sync::{Mutex, PoisonError};

use super::{installed, log_of};

/// How many lines of each log are printed.
const LINES: usize = 40;
/// The kinds that a namespace is described by, with the columns of each.
const KINDS: [(&str, &str); 3] = [
    (
        "frameworks",
        "NAME:.metadata.name,SLOT:.metadata.labels.frameworkcontroller\\.microsoft\\.com/slot,\
         STATE:.status.state,ATTEMPT:.status.attemptStatus.id,DELETED:.metadata.deletionTimestamp,\
         COUNTS:.status.taskCounts",
    ),
    (
        "pods",
        "NAME:.metadata.name,PHASE:.status.phase,NODE:.spec.nodeName,CREATED:.metadata.creationTimestamp,\
         DELETED:.metadata.deletionTimestamp",
    ),
    (
        "queueunits",
        "NAME:.metadata.name,PHASE:.status.phase,MESSAGE:.status.message,DELETED:.metadata.deletionTimestamp",
    ),
];

/// The names under which controllers have logged.
static HOSTED: Mutex<Vec<&str>> = Mutex::new(Vec::new());

/// Remembers that a controller logs under that name.
pub fn hosted(name: &'static str) {
    let mut names = HOSTED.lock().unwrap_or_else(PoisonError::into_inner);
    names.retain(|other| *other != name);
    names.push(name);
}

/// The objects of a namespace, a line each, and the last lines of the controllers that started last.
pub fn situation(namespace: &str) -> String {
    let mut text = String::new();
    for (kind, columns) in KINDS {
        let columns = format!("custom-columns={columns}");
        let arguments = ["get", kind, "--namespace", namespace, "--output", &columns];
        // A kind may not be served, and the API server may not answer: that is part of the picture.
        match installed().kubectl(&arguments) {
            Ok(output) => text += &format!("{kind}:\n{}{}\n", output.stdout, output.stderr),
            Err(error) => text += &format!("{kind}: {error}\n"),
        }
    }
    let names = HOSTED.lock().unwrap_or_else(PoisonError::into_inner).clone();
    for name in names.iter().rev().take(4) {
        let log = log_of(name);
        let lines: Vec<&str> = log.lines().collect();
        let last = &lines[lines.len().saturating_sub(LINES)..];
        text += &format!("log of {name}, the last {} lines:\n{}\n", last.len(), last.join("\n"));
    }
    text
}
