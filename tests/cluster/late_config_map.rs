//! The one object that may outlive its Framework: an empty ConfigMap that arrived during the deletion.
//!
//! Kubernetes has no write that covers two objects. A deletion of the Framework can overtake a POST of its
//! ConfigMap that has left the controller already. The API server then creates a ConfigMap whose owner is
//! being deleted or is absent, and the garbage collector deletes it. No Pod can follow: the controller
//! creates Pods only after the Framework's status records the ConfigMap's UID. The API server refuses that
//! write once the deletion has begun, because it names an older version or the Framework is gone.

use framework_testcluster::audit::Record;
use jiff::SignedDuration;

use super::history::{History, Life};

/// How long the garbage collector may take to delete such a ConfigMap.
pub const COLLECTED_WITHIN: SignedDuration = SignedDuration::from_secs(30);

/// Whether a ConfigMap arrived when its Framework was being deleted or gone, never owned a Pod, and was
/// collected in time.
pub fn is_collected(history: &History, life: &Life) -> bool {
    let is_config_map = history.config_maps.iter().any(|config_map| config_map.uid == life.uid);
    let is_empty = !history.pods.iter().any(|pod| pod.annotation("FC_CONFIGMAP_UID") == life.uid);
    let arrived_late =
        deletion_of(history, life.annotation("FC_FRAMEWORK_UID")).is_some_and(|since| life.created > since);
    let in_time = lifetime(history, life).is_some_and(|lifetime| lifetime <= COLLECTED_WITHIN);
    is_config_map && is_empty && arrived_late && life.gone.is_some() && in_time
}

/// The version at which a Framework was first seen as being deleted, or as gone.
fn deletion_of(history: &History, uid: &str) -> Option<u64> {
    let marked = history.frameworks.iter().find(|(_, framework)| {
        framework.metadata.uid.as_deref() == Some(uid) && framework.metadata.deletion_timestamp.is_some()
    });
    let gone = history.ends.iter().find(|(_, of)| of == uid);
    marked.map(|(version, _)| *version).into_iter().chain(gone.map(|(version, _)| *version)).min()
}

/// The time from the answer to the POST to the answer to the last request that deleted the ConfigMap.
fn lifetime(history: &History, life: &Life) -> Option<SignedDuration> {
    let mut requests = history.requests.iter().filter(|request| {
        request.resource == "configmaps" && request.code < 300 && names_uid(request, &life.uid)
    });
    let created = requests.clone().find(|request| request.verb == "create")?.completed;
    let last = requests.rfind(|request| ["delete", "patch", "update"].contains(&request.verb.as_str()))?;
    Some(last.completed.duration_since(created))
}

fn names_uid(request: &Record, uid: &str) -> bool {
    let response = ["/metadata/uid", "/details/uid"].map(|pointer| (&request.response_object, pointer));
    let places = response.into_iter().chain([(&request.request_object, "/preconditions/uid")]);
    let mut found = places.filter_map(|(body, pointer)| body.as_ref()?.pointer(pointer)?.as_str());
    found.any(|found| found == uid)
}
