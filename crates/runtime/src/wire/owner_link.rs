//! The objects between Pods and jobs, of which queueing reads the UIDs: ConfigMaps of attempts, and Jobs that
//! JobSets or operators made.

use serde::Deserialize;
use serde_json::value::RawValue;

use framework_api::queue::QUEUE_NAME_LABEL;
use framework_queueing::OwnerLink;

use super::resource::{Read, Resource, Wire};
use super::typed::Metadata;

/// The Jobs of JobSets have this label. It only divides the watches: their owners decide.
const OF_JOB_SETS: &str = "jobset.sigs.k8s.io/jobset-name";
/// All other Jobs.
const OF_OTHERS: &str = "!jobset.sigs.k8s.io/jobset-name";

/// The ConfigMap of an attempt, and its Framework.
#[derive(Clone, Debug)]
pub struct AttemptObject(pub OwnerLink);

/// A Job of a JobSet, and that JobSet.
#[derive(Clone, Debug)]
pub struct JobOfJobSet(pub OwnerLink);

/// A Job of an operator, and the object that controls it.
#[derive(Clone, Debug)]
pub struct JobOfOperator(pub OwnerLink);

#[derive(Deserialize)]
struct LinkWire {
    #[serde(default)]
    metadata: Metadata,
}

impl Wire for AttemptObject {
    const RESOURCE: Resource =
        Resource::new("", "v1", "ConfigMap", "configmaps").selected_by(QUEUE_NAME_LABEL);

    fn read(json: &RawValue) -> Result<Read<Self>, serde_json::Error> {
        read(json, |kind| kind == "Framework", AttemptObject)
    }
}

impl Wire for JobOfJobSet {
    const RESOURCE: Resource = Resource::new("batch", "v1", "Job", "jobs").selected_by(OF_JOB_SETS);

    fn read(json: &RawValue) -> Result<Read<Self>, serde_json::Error> {
        read(json, |kind| kind == "JobSet", JobOfJobSet)
    }
}

impl Wire for JobOfOperator {
    const RESOURCE: Resource = Resource::new("batch", "v1", "Job", "jobs").selected_by(OF_OTHERS);

    fn read(json: &RawValue) -> Result<Read<Self>, serde_json::Error> {
        read(json, |kind| kind != "CronJob", JobOfOperator)
    }
}

/// Reads the UID of an object, and that of its controller if it is of such a kind.
fn read<T>(
    json: &RawValue,
    is_of: fn(&str) -> bool,
    of: fn(OwnerLink) -> T,
) -> Result<Read<T>, serde_json::Error> {
    let metadata = serde_json::from_str::<LinkWire>(json.get())?.metadata;
    let (key, resource_version) = metadata.identity();
    let controller = metadata.controller().filter(|owner| is_of(&owner.kind));
    let link = OwnerLink {
        key,
        resource_version,
        uid: metadata.uid(),
        controller: controller.map(|owner| owner.uid.as_str().into()),
    };
    Ok(Read::of(metadata.resource_version, of(link)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::wire::decode;

    #[test]
    fn only_a_controller_of_the_right_kind_is_linked() {
        let link = |kind: &str, controller: bool| {
            let owner = json!({
                "apiVersion": "a/v1", "kind": kind, "name": "o", "uid": "o", "controller": controller,
            });
            let metadata = json!({
                "name": "a", "namespace": "team", "uid": "u", "resourceVersion": "7",
                "ownerReferences": [owner],
            });
            let body = json!({"metadata": metadata}).to_string();
            let attempt = decode::<AttemptObject>(body.as_bytes()).unwrap().unwrap().0;
            let child = decode::<JobOfJobSet>(body.as_bytes()).unwrap().unwrap().0;
            let launcher = decode::<JobOfOperator>(body.as_bytes()).unwrap().unwrap().0;
            [attempt, child, launcher].map(|link| link.controller.as_deref().map(str::to_owned))
        };
        let owner = || Some("o".to_owned());
        assert_eq!(link("Framework", true), [owner(), None, owner()]);
        assert_eq!(link("JobSet", true), [None, owner(), owner()]);
        assert_eq!(link("MPIJob", true), [None, None, owner()]);
        assert_eq!(link("CronJob", true), [None, None, None]);
        assert_eq!(link("MPIJob", false), [None, None, None]);
    }
}
