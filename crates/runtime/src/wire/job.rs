//! Jobs (`batch/v1`), as far as queueing uses them.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use framework_api::queue::QUEUE_NAME_LABEL;
use framework_queue::ResourceRequests;
use framework_queueing::{JobObject, TemplateMetadata};

use super::resource::{Read, Resource, Wire};
use super::typed::{ConditionWire, Metadata, PodSpecWire, given};

#[derive(Deserialize)]
struct JobWire {
    metadata: Metadata,
    #[serde(default)]
    spec: Option<JobSpecWire>,
    #[serde(default)]
    status: Option<StatusWire>,
}

/// The fields of a Job's spec that are read.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct JobSpecWire {
    suspend: Option<bool>,
    parallelism: Option<i64>,
    completions: Option<i64>,
    pub template: PodTemplateWire,
}

/// The fields of a Job's template that are read.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PodTemplateWire {
    pub metadata: Option<TemplateMetaWire>,
    pub spec: Option<PodSpecWire>,
}

/// Whether the template has metadata, and labels in it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct TemplateMetaWire {
    pub labels: Option<IgnoredAny>,
}

/// The conditions of a Job or a JobSet.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct StatusWire {
    conditions: Option<Vec<ConditionWire>>,
}

/// The part of a template's metadata that exists.
pub fn template_metadata(template: &PodTemplateWire) -> TemplateMetadata {
    match &template.metadata {
        None => TemplateMetadata::Missing,
        Some(metadata) if metadata.labels.is_none() => TemplateMetadata::WithoutLabels,
        Some(_) => TemplateMetadata::WithLabels,
    }
}

impl StatusWire {
    /// Whether a condition of one of these types is true.
    pub fn has_any(&self, types: [&str; 2]) -> bool {
        let conditions = self.conditions.iter().flatten();
        conditions.filter(|condition| condition.is_true()).any(|one| types.contains(&one.type_.as_str()))
    }
}

impl Wire for JobObject {
    const RESOURCE: Resource = Resource::new("batch", "v1", "Job", "jobs").selected_by(QUEUE_NAME_LABEL);

    fn read(json: &RawValue) -> Result<Read<Self>, serde_json::Error> {
        let job: JobWire = serde_json::from_str(json.get())?;
        Ok(Read::of(job.metadata.resource_version.clone(), job_of(job)))
    }
}

/// How many Pods a Job runs at a time.
pub fn at_a_time(job: &JobSpecWire) -> u64 {
    let parallelism = job.parallelism.unwrap_or(1);
    let pods = job.completions.map_or(parallelism, |completions| completions.min(parallelism));
    u64::try_from(pods).unwrap_or(0)
}

fn job_of(job: JobWire) -> JobObject {
    let JobWire { metadata, spec, status } = job;
    let (key, resource_version) = metadata.identity();
    let spec = spec.unwrap_or_default();
    let pods = at_a_time(&spec);
    let pod = spec.template.spec.unwrap_or_default();
    JobObject {
        uid: metadata.uid(),
        resource_version,
        created: metadata.created(),
        notes: metadata.job_notes(),
        queue: given(metadata.label(QUEUE_NAME_LABEL)),
        suspended: spec.suspend == Some(true),
        finished: status.is_some_and(|status| status.has_any(["Complete", "Failed"])),
        deleting: metadata.deletion_timestamp.is_some(),
        class: given(pod.priority_class_name.as_ref()),
        requests: ResourceRequests::pod(&pod.asks())
            .map(|requests| requests.times(pods))
            .map_err(|error| format!("spec.template: {error}").into()),
        key,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use framework_message::Key;

    use super::*;
    use crate::wire::decode;

    fn job(spec: Value, status: Value) -> JobObject {
        let labels = json!({QUEUE_NAME_LABEL: "q"});
        let job = json!({
            "apiVersion": "batch/v1", "kind": "Job",
            "metadata": {
                "name": "train", "namespace": "team", "uid": "u", "resourceVersion": "7", "labels": labels,
                "creationTimestamp": "2026-01-01T00:00:00Z",
            },
            "spec": spec, "status": status,
        });
        decode(job.to_string().as_bytes()).unwrap().unwrap()
    }

    fn spec(parallelism: Value, completions: Value) -> Value {
        let resources = json!({"requests": {"cpu": "500m"}});
        let containers = json!([{"name": "main", "image": "busybox", "resources": resources}]);
        json!({
            "suspend": true, "parallelism": parallelism, "completions": completions,
            "template": {"spec": {"priorityClassName": "high", "containers": containers}},
        })
    }

    fn asks(job: &JobObject) -> String {
        job.requests.as_ref().unwrap().to_string()
    }

    #[test]
    fn a_job_asks_for_the_pods_that_it_runs_at_a_time() {
        let found = job(spec(json!(4), json!(10)), json!({}));
        assert_eq!(found.key, Key::new("team", "train"));
        assert_eq!((&*found.uid, found.resource_version), ("u", 7));
        assert_eq!((found.queue.as_deref(), found.class.as_deref()), (Some("q"), Some("high")));
        assert!(found.suspended && !found.finished && !found.deleting);
        assert_eq!(asks(&found), "cpu: 2, pods: 4");
        for (parallelism, completions, pods) in [
            (json!(4), json!(3), "cpu: 1500m, pods: 3"),
            (json!(4), Value::Null, "cpu: 2, pods: 4"),
            (Value::Null, json!(4), "cpu: 500m, pods: 1"),
            (json!(0), Value::Null, "nothing"),
        ] {
            let found = job(spec(parallelism.clone(), completions.clone()), json!({}));
            assert_eq!(asks(&found), pods, "{parallelism} {completions}");
        }
    }

    #[test]
    fn a_job_is_finished_by_a_true_condition_and_waits_while_suspended() {
        let condition = |kind: &str, status: &str| json!({"conditions": [{"type": kind, "status": status}]});
        for (status, finished) in [
            (condition("Complete", "True"), true),
            (condition("Failed", "True"), true),
            (condition("Failed", "False"), false),
            (condition("Suspended", "True"), false),
            (condition("FailureTarget", "True"), false),
        ] {
            assert_eq!(job(spec(json!(1), json!(1)), status.clone()).finished, finished, "{status}");
        }
        let mut running = spec(json!(1), json!(1));
        running["suspend"] = json!(false);
        assert!(!job(running, json!({})).suspended);
    }

    #[test]
    fn a_job_whose_template_cannot_be_read_has_a_reason() {
        let mut bad = spec(json!(1), json!(1));
        bad["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("a lot");
        let reason = job(bad, json!({})).requests.unwrap_err();
        assert!(reason.contains("cpu"), "{reason}");
    }
}
