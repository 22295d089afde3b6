//! The oracle of the rows of Jobs and JobSets: decoders that know the fields of each by a type.

use serde::Deserialize;

use super::*;

/// An object as its type reads it.
pub struct Typed {
    pub job: JobObject,
    /// The place for a label in each Pod template.
    pub templates: Vec<TemplateMetadata>,
}

#[derive(Deserialize)]
struct Object<S> {
    metadata: Metadata,
    #[serde(default)]
    spec: Option<S>,
    #[serde(default)]
    status: Option<JobStatus>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct BatchJob {
    suspend: Option<bool>,
    parallelism: Option<i64>,
    completions: Option<i64>,
    template: PodTemplateWire,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct JobSet {
    suspend: Option<bool>,
    replicated_jobs: Vec<ReplicatedJob>,
}

#[derive(Deserialize)]
struct ReplicatedJob {
    #[serde(default = "one")]
    replicas: i64,
    template: JobTemplate,
}

#[derive(Deserialize)]
struct JobTemplate {
    #[serde(default)]
    spec: Option<BatchJob>,
}

fn one() -> i64 {
    1
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct JobStatus {
    conditions: Option<Vec<ConditionWire>>,
}

/// A Job; `None`: its type does not read it.
pub fn job(json: &str) -> Option<Typed> {
    let Object { metadata, spec, status } = serde_json::from_str::<Object<BatchJob>>(json).ok()?;
    let spec = spec.unwrap_or_default();
    let suspended = spec.suspend == Some(true);
    Some(typed(&metadata, suspended, vec![(1, spec)], has_any(status, ["Complete", "Failed"])))
}

/// A JobSet; `None`: its type does not read it.
pub fn job_set(json: &str) -> Option<Typed> {
    let Object { metadata, spec, status } = serde_json::from_str::<Object<JobSet>>(json).ok()?;
    let spec = spec.unwrap_or_default();
    let of = |one: ReplicatedJob| (one.replicas, one.template.spec.unwrap_or_default());
    let jobs = spec.replicated_jobs.into_iter().map(of).collect();
    Some(typed(&metadata, spec.suspend == Some(true), jobs, has_any(status, ["Completed", "Failed"])))
}

fn has_any(status: Option<JobStatus>, types: [&str; 2]) -> bool {
    let conditions = status.into_iter().filter_map(|status| status.conditions).flatten();
    conditions.filter(ConditionWire::is_true).any(|one| types.contains(&one.type_.as_str()))
}

/// The job that runs so many replicas of each Job at a time.
fn typed(metadata: &Metadata, suspended: bool, jobs: Vec<(i64, BatchJob)>, finished: bool) -> Typed {
    let (key, resource_version) = metadata.identity();
    let (mut requests, mut class, mut templates) = (Ok(ResourceRequests::default()), None, Vec::new());
    for (replicas, job) in jobs {
        let parallelism = job.parallelism.unwrap_or(1);
        let pods = job.completions.map_or(parallelism, |completions| completions.min(parallelism));
        let pods = [replicas, pods].map(|number| u64::try_from(number).unwrap_or(0));
        templates.push(template_metadata(&job.template));
        let pod = job.template.spec.unwrap_or_default();
        class = class.or(given(pod.priority_class_name.as_ref()));
        let one = ResourceRequests::pod(&pod.asks()).map_err(|_| Arc::from("a reason"));
        requests = requests
            .and_then(|sum: ResourceRequests| Ok(sum.plus(&one?.times(pods[0].saturating_mul(pods[1])))));
    }
    let job = JobObject {
        key,
        uid: metadata.uid(),
        resource_version,
        created: metadata.created(),
        notes: metadata.job_notes(),
        controller: metadata.part_of(),
        queue: metadata.queue_name(),
        suspended,
        finished,
        deleting: metadata.deletion_timestamp.is_some(),
        class,
        requests,
    };
    Typed { job, templates }
}
