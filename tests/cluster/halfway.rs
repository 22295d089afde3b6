//! Steps that were cut off halfway, and that a kubelet would repeat.
//!
//! A deletion is cut off when its client is killed: the API server stored a grace period of 0 and went no
//! further. Elsewhere a kubelet, or the garbage collector of Pods, ends it; the test cluster has neither.
//!
//! A Pod of kwok runs for ever when a patch of its phase met a conflict. Kwok logs "failed to apply stage"
//! and does not try again before the Pod changes.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::json;

use super::{block_on, pods};

/// A deletion that should be over at once is cut off if it lasts so long.
const LASTS: SignedDuration = SignedDuration::from_secs(3);

/// Ends those of a namespace.
pub fn finish(namespace: &str) {
    let all = block_on(pods(namespace).list(&ListParams::default())).expect("a list").items;
    for pod in all.iter().filter(|pod| is_halfway(pod)) {
        let name = pod.metadata.name.as_deref().expect("a name");
        // It may be gone by now.
        let _ = block_on(pods(namespace).delete(name, &DeleteParams::default().grace_period(0)));
    }
}

/// A Pod that runs for so long after its start, or after the last nudge, was forgotten by kwok.
const FORGOTTEN: SignedDuration = SignedDuration::from_secs(30);
const NUDGED: &str = "test.example.com/nudged";

/// Changes the Pods of a namespace that kwok forgot, so that it sees them again. No Pod may be meant to run
/// for long.
pub fn nudge(namespace: &str) {
    let all = block_on(pods(namespace).list(&ListParams::default())).expect("a list").items;
    for pod in all.iter().filter(|pod| is_forgotten(pod)) {
        let name = pod.metadata.name.as_deref().expect("a name");
        let patch = json!({"metadata": {"annotations": {NUDGED: Timestamp::now().to_string()}}});
        // It may be gone by now.
        if block_on(pods(namespace).patch(name, &PatchParams::default(), &Patch::Merge(&patch))).is_ok() {
            println!("{namespace}/{name}: kwok forgot this Pod");
        }
    }
}

fn is_forgotten(pod: &Pod) -> bool {
    let status = pod.status.as_ref();
    let started = status.and_then(|status| status.start_time.as_ref()).map(|time| time.0);
    let annotations = pod.metadata.annotations.as_ref();
    let nudged = annotations.and_then(|annotations| annotations.get(NUDGED)?.parse().ok());
    let since = started.max(nudged);
    let is_long = since.is_some_and(|since| Timestamp::now().duration_since(since) > FORGOTTEN);
    let runs = status.and_then(|status| status.phase.as_deref()) == Some("Running");
    is_long && runs && pod.metadata.deletion_timestamp.is_none()
}

fn is_halfway(pod: &Pod) -> bool {
    let begun = pod.metadata.deletion_timestamp.as_ref();
    let lasts = begun.is_some_and(|begun| Timestamp::now().duration_since(begun.0) > LASTS);
    lasts && pod.metadata.deletion_grace_period_seconds == Some(0)
}
