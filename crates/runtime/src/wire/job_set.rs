//! JobSets (`jobset.x-k8s.io/v1alpha2`), as far as queueing uses them: each has several templates of Jobs
//! with a number of replicas, and waits suspended as a Job does.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use framework_api::queue::QUEUE_NAME_LABEL;
use framework_queue::ResourceRequests;
use framework_queueing::{ChildSetObject, JobObject, JobSetObject};

use super::job::{JobSpecWire, StatusWire, at_a_time, template_metadata};
use super::resource::{Read, Resource, Wire};
use super::typed::{Metadata, given};

/// The fields of a JobSet that are read.
#[derive(Debug, Deserialize)]
struct JobSet {
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: StatusWire,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    #[serde(default)]
    suspend: Option<bool>,
    #[serde(default)]
    replicated_jobs: Vec<ReplicatedJob>,
}

#[derive(Debug, Deserialize)]
struct ReplicatedJob {
    #[serde(default = "one")]
    replicas: i64,
    template: JobTemplateWire,
}

#[derive(Debug, Deserialize)]
struct JobTemplateWire {
    #[serde(default)]
    spec: Option<JobSpecWire>,
}

fn one() -> i64 {
    1
}

impl Wire for JobSetObject {
    const RESOURCE: Resource =
        Resource::new("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets").selected_by(QUEUE_NAME_LABEL);

    fn read(json: &RawValue) -> Result<Read<Self>, serde_json::Error> {
        let set: JobSet = serde_json::from_str(json.get())?;
        Ok(Read::of(set.metadata.resource_version.clone(), job_set_of(set)))
    }
}

impl Wire for ChildSetObject {
    const RESOURCE: Resource = Resource { selector: None, ..JobSetObject::RESOURCE };

    fn read(json: &RawValue) -> Result<Read<Self>, serde_json::Error> {
        let set: JobSet = serde_json::from_str(json.get())?;
        let resource_version = set.metadata.resource_version.clone();
        let controller = set.metadata.controller().map(|owner| Arc::from(owner.uid.as_str()));
        let object = controller.map(|controller| ChildSetObject { controller, job: job_set_of(set).job });
        Ok(Read { resource_version, slot: None, object, unowned: None })
    }
}

fn job_set_of(set: JobSet) -> JobSetObject {
    let JobSet { metadata, spec, status } = set;
    let (key, resource_version) = metadata.identity();
    let (mut requests, mut class, mut templates) = (Ok(ResourceRequests::default()), None, Vec::new());
    for (position, replicated) in spec.replicated_jobs.into_iter().enumerate() {
        let job = replicated.template.spec.unwrap_or_default();
        let replicas = u64::try_from(replicated.replicas).unwrap_or(0);
        let pods = replicas.saturating_mul(at_a_time(&job));
        templates.push(template_metadata(&job.template));
        let pod = job.template.spec.unwrap_or_default();
        class = class.or(given(pod.priority_class_name.as_ref()));
        let one = ResourceRequests::pod(&pod.asks());
        requests = requests.and_then(|requests| match one {
            Ok(one) => Ok(requests.plus(&one.times(pods))),
            Err(error) => Err(format!("spec.replicatedJobs[{position}]: {error}").into()),
        });
    }
    let job = JobObject {
        uid: metadata.uid(),
        resource_version,
        created: metadata.created(),
        notes: metadata.job_notes(),
        queue: given(metadata.label(QUEUE_NAME_LABEL)),
        suspended: spec.suspend == Some(true),
        finished: status.has_any(["Completed", "Failed"]),
        deleting: metadata.deletion_timestamp.is_some(),
        class,
        requests,
        key,
    };
    JobSetObject { job, templates }
}

#[cfg(test)]
mod tests {
    use framework_queueing::TemplateMetadata;
    use serde_json::{Value, json};

    use super::*;
    use crate::wire::decode;

    fn job(parallelism: u32, completions: Option<u32>, metadata: &Value) -> Value {
        let resources = json!({"requests": {"cpu": "500m"}});
        let pod = json!({"containers": [{"name": "main", "image": "busybox", "resources": resources}]});
        let mut job = json!({
            "parallelism": parallelism, "completions": completions,
            "template": {"metadata": metadata, "spec": pod},
        });
        if metadata.is_null() {
            job["template"].as_object_mut().unwrap().remove("metadata");
        }
        json!({"spec": job})
    }

    fn read(suspend: bool, replicated: Value, condition: (&str, &str)) -> JobSetObject {
        let at = "2026-01-01T00:00:00Z";
        let set = json!({
            "metadata": {
                "name": "set", "namespace": "team", "uid": "u", "resourceVersion": "7",
                "labels": {QUEUE_NAME_LABEL: "q"},
            },
            "spec": {"suspend": suspend, "replicatedJobs": replicated},
            "status": {"conditions": [{
                "type": condition.0, "status": condition.1, "reason": "", "message": "",
                "lastTransitionTime": at,
            }]},
        });
        job_set_of(serde_json::from_value(set).unwrap())
    }

    #[test]
    fn a_job_set_asks_for_the_pods_that_all_its_jobs_run_at_a_time() {
        let driver = json!({"name": "driver", "template": job(1, None, &Value::Null)});
        let worker = json!({"name": "worker", "replicas": 3, "template": job(4, Some(2), &json!({}))});
        let none = json!({"name": "none", "replicas": 0, "template": job(9, None, &json!({"labels": {}}))});
        let set = read(true, json!([driver, worker, none]), ("Suspended", "True"));
        assert_eq!(set.job.requests.unwrap().to_string(), "cpu: 3500m, pods: 7");
        assert_eq!((set.job.suspended, set.job.finished), (true, false));
        assert_eq!(set.job.queue.as_deref(), Some("q"));
        let metadata =
            [TemplateMetadata::Missing, TemplateMetadata::WithoutLabels, TemplateMetadata::WithLabels];
        assert_eq!(set.templates, metadata);
    }

    #[test]
    fn a_job_set_with_a_controller_says_what_that_requests() {
        let read = |controller: bool| {
            let owner = json!({"kind": "TrainJob", "name": "set", "uid": "train", "controller": controller});
            let set = json!({
                "metadata": {"name": "set", "namespace": "team", "uid": "u", "ownerReferences": [owner]},
                "spec": {"suspend": true, "replicatedJobs": [{"template": job(2, None, &Value::Null)}]},
            });
            decode::<ChildSetObject>(set.to_string().as_bytes()).unwrap()
        };
        let set = read(true).unwrap();
        assert_eq!((&*set.controller, set.job.queue), ("train", None));
        assert_eq!(set.job.requests.unwrap().to_string(), "cpu: 1, pods: 2");
        assert!(read(false).is_none());
    }

    #[test]
    fn a_job_set_is_finished_by_a_condition_that_is_true() {
        for (condition, finished) in [
            (("Completed", "True"), true),
            (("Failed", "True"), true),
            (("Failed", "False"), false),
            (("StartupPolicyCompleted", "True"), false),
        ] {
            assert_eq!(read(false, json!([]), condition).job.finished, finished, "{condition:?}");
        }
    }

    #[test]
    fn a_job_set_that_cannot_be_read_names_the_template() {
        let mut bad = job(1, None, &Value::Null);
        bad["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("a lot");
        let good = job(1, None, &Value::Null);
        let set = read(true, json!([{"template": good}, {"template": bad}]), ("Failed", "False"));
        let reason = set.job.requests.unwrap_err();
        assert!(reason.starts_with("spec.replicatedJobs[1]: "), "{reason}");
    }
}
