//! JobSets (`jobset.x-k8s.io/v1alpha2`), as far as queueing uses them: each has several templates of Jobs
//! with a number of replicas, and waits suspended as a Job does.

use k8s_openapi::api::batch::v1::JobTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use serde::{Deserialize, Deserializer};

use framework_api::queue::QUEUE_NAME_LABEL;
use framework_queue::ResourceRequests;
use framework_queueing::{JobObject, JobSetObject, TemplateMetadata};

use super::job::at_a_time;
use super::resource::{Read, Resource, Wire};
use super::typed::{self, created, given, identity, uid};

/// The fields of a JobSet that are read.
#[derive(Debug, Deserialize)]
struct JobSet {
    metadata: ObjectMeta,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
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
    replicas: i32,
    template: JobTemplateSpec,
}

fn one() -> i32 {
    1
}

#[derive(Debug, Default, Deserialize)]
struct Status {
    #[serde(default)]
    conditions: Vec<Condition>,
}

impl Wire for JobSetObject {
    const RESOURCE: Resource =
        Resource::new("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets").selected_by(QUEUE_NAME_LABEL);

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Read<Self>, D::Error> {
        typed::read(deserializer, job_set_of)
    }
}

fn job_set_of(set: JobSet) -> JobSetObject {
    let JobSet { metadata, spec, status } = set;
    let (key, resource_version) = identity(&metadata);
    let (mut requests, mut class, mut templates) = (Ok(ResourceRequests::default()), None, Vec::new());
    for (position, replicated) in spec.replicated_jobs.into_iter().enumerate() {
        let job = replicated.template.spec.unwrap_or_default();
        let replicas = u64::try_from(replicated.replicas).unwrap_or(0);
        let pods = replicas.saturating_mul(at_a_time(&job));
        templates.push(match &job.template.metadata {
            None => TemplateMetadata::Missing,
            Some(metadata) if metadata.labels.is_none() => TemplateMetadata::WithoutLabels,
            Some(_) => TemplateMetadata::WithLabels,
        });
        let pod = job.template.spec.unwrap_or_default();
        class = class.or(given(pod.priority_class_name.as_ref()));
        let one = ResourceRequests::pod(&pod);
        requests = requests.and_then(|requests| match one {
            Ok(one) => Ok(requests.plus(&one.times(pods))),
            Err(error) => Err(format!("spec.replicatedJobs[{position}]: {error}").into()),
        });
    }
    let ends = |condition: &Condition| {
        condition.status == "True" && matches!(condition.type_.as_str(), "Completed" | "Failed")
    };
    let queue = metadata.labels.as_ref().and_then(|labels| given(labels.get(QUEUE_NAME_LABEL)));
    let job = JobObject {
        uid: uid(&metadata),
        resource_version,
        created: created(&metadata),
        queue,
        suspended: spec.suspend == Some(true),
        finished: status.conditions.iter().any(ends),
        deleting: metadata.deletion_timestamp.is_some(),
        class,
        requests,
        key,
    };
    JobSetObject { job, templates }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

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
