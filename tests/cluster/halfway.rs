//! Deletions that were cut off halfway, as happens when the client is killed: the API server stored a grace
//! period of 0 and went no further. Elsewhere a kubelet, or the garbage collector of Pods, ends them; the
//! test cluster has neither.
//!
//! Pods that kwok has dropped, too. After a patch of it was refused with 409 because of one of its own, it
//! never sent the patch that ends the Pod. A change of the Pod is to make it look again.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::json;

use super::{block_on, pods};

/// A deletion that should be over at once is cut off if it lasts so long.
const LASTS: SignedDuration = SignedDuration::from_secs(3);

/// A Pod that is to end by itself is dropped if it runs for so long: those of the tests run for some seconds.
const RUNS: SignedDuration = SignedDuration::from_secs(30);
const DURATION: &str = "test.frameworkcontroller.microsoft.com/run-duration";
/// Marks a Pod that kwok was made to look at again.
const ROUSED: &str = "test.frameworkcontroller.microsoft.com/roused";

/// Ends the deletions of a namespace, and has its dropped Pods ended.
pub fn finish(namespace: &str) {
    let all = block_on(pods(namespace).list(&ListParams::default())).expect("a list").items;
    for pod in all.iter().filter(|pod| is_halfway(pod)) {
        let name = pod.metadata.name.as_deref().expect("a name");
        // It may be gone by now.
        let _ = block_on(pods(namespace).delete(name, &DeleteParams::default().grace_period(0)));
    }
    for pod in all.iter().filter(|pod| is_dropped(pod)) {
        let name = pod.metadata.name.as_deref().expect("a name");
        let roused = Patch::Merge(json!({ "metadata": { "annotations": { ROUSED: "" } } }));
        // It may have ended by now.
        let _ = block_on(pods(namespace).patch(name, &PatchParams::default(), &roused));
    }
}

fn is_halfway(pod: &Pod) -> bool {
    let begun = pod.metadata.deletion_timestamp.as_ref();
    let lasts = begun.is_some_and(|begun| Timestamp::now().duration_since(begun.0) > LASTS);
    lasts && pod.metadata.deletion_grace_period_seconds == Some(0)
}

fn is_dropped(pod: &Pod) -> bool {
    let Some(status) = pod.status.as_ref() else { return false };
    let annotations = pod.metadata.annotations.clone().unwrap_or_default();
    let ends = annotations.get(DURATION).is_some_and(|duration| duration != "forever");
    let lasts = |start: Timestamp| Timestamp::now().duration_since(start) > RUNS;
    ends && !annotations.contains_key(ROUSED)
        && pod.metadata.deletion_timestamp.is_none()
        && status.phase.as_deref() == Some("Running")
        && status.start_time.as_ref().is_some_and(|start| lasts(start.0))
}
