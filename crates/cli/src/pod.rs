//! The Pods of a Framework, and the reason why one does not run.

use framework_api::name::variable;
use k8s_openapi::api::core::v1::Pod;

use crate::cluster::Cluster;
use crate::error::Error;

/// Reasons for which a container waits in every start.
const USUAL: [&str; 2] = ["ContainerCreating", "PodInitializing"];

/// A Pod as people read it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodView {
    /// Its name.
    pub name: String,
    /// Its UID: another Pod may have had the name.
    pub uid: String,
    /// Its phase; `Terminating` while it is being deleted.
    pub phase: String,
    /// The obstacle that keeps it from running, for people.
    pub obstacle: Option<String>,
}

/// The Pods of a Framework. A user may copy their label: the caller compares UIDs.
pub async fn of(cluster: &Cluster, framework: &str) -> Result<Vec<PodView>, Error> {
    let label = format!("{}={framework}", variable::FRAMEWORK_NAME);
    let what = format!("the Pods of the Framework {framework:?} in the namespace {:?}", cluster.namespace);
    let pods = cluster.list::<Pod>(&cluster.api(), Some(&label), &what).await?;
    Ok(pods.iter().map(view).collect())
}

fn view(pod: &Pod) -> PodView {
    let phase = pod.status.as_ref().and_then(|status| status.phase.clone()).unwrap_or_default();
    let is_deleted = pod.metadata.deletion_timestamp.is_some();
    PodView {
        name: pod.metadata.name.clone().unwrap_or_default(),
        uid: pod.metadata.uid.clone().unwrap_or_default(),
        obstacle: obstacle(pod, &phase),
        phase: if is_deleted { "Terminating".to_owned() } else { phase },
    }
}

fn obstacle(pod: &Pod, phase: &str) -> Option<String> {
    if pod.metadata.deletion_timestamp.is_some() {
        let finalizers = pod.metadata.finalizers.as_deref().unwrap_or_default();
        return (!finalizers.is_empty()).then(|| format!("held by finalizers: {}", finalizers.join(", ")));
    }
    let status = pod.status.as_ref().filter(|_| phase == "Pending")?;
    let mut conditions = status.conditions.iter().flatten();
    let unplaced = conditions.find(|one| one.type_ == "PodScheduled" && one.status == "False");
    if let Some(condition) = unplaced {
        return Some(words(condition.reason.as_deref(), condition.message.as_deref()));
    }
    let containers = status.init_container_statuses.iter().chain(&status.container_statuses).flatten();
    let mut waiting = containers.filter_map(|container| container.state.as_ref()?.waiting.as_ref());
    let unusual = waiting.find(|one| one.reason.as_deref().is_some_and(|reason| !USUAL.contains(&reason)))?;
    Some(words(unusual.reason.as_deref(), unusual.message.as_deref()))
}

fn words(reason: Option<&str>, message: Option<&str>) -> String {
    match (reason.unwrap_or_default(), message.unwrap_or_default()) {
        (reason, "") => reason.to_owned(),
        ("", message) => message.to_owned(),
        (reason, message) => format!("{reason}: {message}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn seen(pod: Value) -> (String, Option<String>) {
        let view = view(&serde_json::from_value(pod).unwrap());
        (view.phase, view.obstacle)
    }

    #[test]
    fn an_obstacle_is_the_schedulers_or_that_of_a_container() {
        let unplaced = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
            "message": "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."});
        let (phase, obstacle) = seen(json!({"status": {"phase": "Pending", "conditions": [unplaced]}}));
        assert_eq!(phase, "Pending");
        let expected = "Unschedulable: 0/3 nodes are available: 3 Insufficient nvidia.com/gpu.";
        assert_eq!(obstacle.as_deref(), Some(expected));
        let waits = |reason: &str| {
            let container = json!({"name": "main", "ready": false, "restartCount": 0, "image": "",
                "imageID": "", "state": {"waiting": {"reason": reason}}});
            seen(json!({"status": {"phase": "Pending", "containerStatuses": [container]}})).1
        };
        assert_eq!(waits("ImagePullBackOff").as_deref(), Some("ImagePullBackOff"));
        assert_eq!(waits("ContainerCreating"), None);
    }

    #[test]
    fn a_pod_that_is_being_deleted_names_its_finalizers() {
        let metadata = json!({"deletionTimestamp": "2026-01-02T03:04:05Z", "finalizers": ["a.example/b"]});
        let (phase, obstacle) = seen(json!({"metadata": metadata, "status": {"phase": "Running"}}));
        assert_eq!(phase, "Terminating");
        assert_eq!(obstacle.as_deref(), Some("held by finalizers: a.example/b"));
    }
}
