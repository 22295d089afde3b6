//! Deletions that were cut off halfway, as happens when the client is killed: the API server stored a grace
//! period of 0 and went no further. Elsewhere a kubelet, or the garbage collector of Pods, ends them; the
//! test cluster has neither.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams};

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

fn is_halfway(pod: &Pod) -> bool {
    let begun = pod.metadata.deletion_timestamp.as_ref();
    let lasts = begun.is_some_and(|begun| Timestamp::now().duration_since(begun.0) > LASTS);
    lasts && pod.metadata.deletion_grace_period_seconds == Some(0)
}
