//! Jobs of all kinds but Frameworks: a row says where the fields are that queueing reads.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::value::RawValue;

use framework_api::job_kind::{JobKindRow, Operand, PodSet, Pointer, Suspend};
use framework_message::Key;
use framework_queue::{Amount, ResourceRequests};
use framework_queueing::{DeclaredObject, JobKind, JobObject, TemplateMetadata};

use super::job_lifetime;
use super::json::{value, values};
use super::resource::{Read, Resource, Wire, brief};
use super::typed::{ConditionWire, Metadata, PodSpecWire, given};

/// A kind that has a row.
#[derive(Debug)]
pub struct DeclaredKind {
    /// The places of its fields.
    pub row: Arc<JobKindRow>,
    /// As queueing names it.
    pub kind: JobKind,
    /// As URLs name it.
    pub resource: Resource,
}

impl DeclaredKind {
    /// The kind of a row. Its names stay for the life of the program: there is one of each row.
    pub fn new(row: JobKindRow) -> Self {
        let kept = |text: &str| -> &'static str { Box::leak(text.into()) };
        let resource =
            Resource::new(kept(row.group()), kept(row.version()), kept(&row.kind), kept(&row.plural));
        DeclaredKind {
            kind: JobKind::declared(&row),
            // One of them may take more than a megabyte.
            resource: resource.in_pages_of(DeclaredText::RESOURCE.page),
            row: Arc::new(row),
        }
    }
}

/// The name of a job, and all of it as text: another part knows its row.
#[derive(Clone, Debug)]
pub struct DeclaredText {
    /// Its name.
    pub key: Key,
    metadata: Metadata,
    json: Box<RawValue>,
}

impl Wire for DeclaredText {
    const RESOURCE: Resource = Resource::new("", "", "", "").in_pages_of(40);

    fn read(json: &RawValue) -> Result<Read<Self>, serde_json::Error> {
        #[derive(Deserialize)]
        struct Named {
            metadata: Metadata,
        }
        let Named { metadata } = serde_json::from_str(json.get())?;
        let (version, key) = (metadata.resource_version.clone(), metadata.identity().0);
        Ok(Read::of(version, DeclaredText { key, metadata, json: json.to_owned() }))
    }
}

impl DeclaredText {
    /// The bytes of its JSON.
    pub fn bytes(&self) -> usize {
        self.json.get().len()
    }

    /// Reads the job by the row of its kind.
    pub fn by(&self, row: &Arc<JobKindRow>) -> Result<DeclaredObject, String> {
        let (requests, templates) = demand(&self.json, row)?;
        let job = JobObject {
            suspended: waits(&self.json, row)?,
            finished: is_finished(&self.json, row)?,
            class: class(&self.json, row)?,
            requests: requests.map_err(|error| brief(&error).into()),
            ..self.named(row).job
        };
        let lifetime = job_lifetime::read(&self.json, row, self.metadata.creation_timestamp)?;
        Ok(DeclaredObject { job, row: Arc::clone(row), templates, lifetime })
    }

    /// The job if it cannot be read, with the error as the reason why its request is not known. A field that
    /// itself cannot be read is taken as if the job still waited or ran.
    pub fn unreadable(&self, row: &Arc<JobKindRow>, error: &str) -> DeclaredObject {
        let job = JobObject {
            suspended: waits(&self.json, row).unwrap_or(true),
            finished: is_finished(&self.json, row).unwrap_or(false),
            requests: Err(brief(error).into()),
            ..self.named(row).job
        };
        let lifetime = job_lifetime::read(&self.json, row, self.metadata.creation_timestamp);
        DeclaredObject { job, lifetime: lifetime.unwrap_or_default(), ..self.named(row) }
    }

    /// The job with its metadata only, which is enough of one that was deleted.
    pub fn named(&self, row: &Arc<JobKindRow>) -> DeclaredObject {
        let metadata = &self.metadata;
        let (key, resource_version) = metadata.identity();
        let job = JobObject {
            key,
            uid: metadata.uid(),
            resource_version,
            created: metadata.created(),
            notes: metadata.job_notes(),
            controller: metadata.part_of(),
            queue: metadata.queue_name(),
            suspended: false,
            finished: false,
            deleting: metadata.deletion_timestamp.is_some(),
            class: None,
            requests: Ok(ResourceRequests::default()),
        };
        DeclaredObject { job, row: Arc::clone(row), templates: Vec::new(), lifetime: None }
    }
}

/// The fields of a Pod template that are read.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct PodTemplateWire {
    metadata: Option<TemplateMetaWire>,
    spec: Option<PodSpecWire>,
}

/// Whether the template has metadata, and labels in it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct TemplateMetaWire {
    labels: Option<IgnoredAny>,
}

/// The part of a template's metadata that exists.
fn template_metadata(template: &PodTemplateWire) -> TemplateMetadata {
    match &template.metadata {
        None => TemplateMetadata::Missing,
        Some(metadata) if metadata.labels.is_none() => TemplateMetadata::WithoutLabels,
        Some(_) => TemplateMetadata::WithLabels,
    }
}

/// The requests of a job, or the reason why they are not known.
type Demand = Result<ResourceRequests, String>;
/// The JSON pointers of Pod templates, and the place in each for a label.
type Templates = Vec<(String, TemplateMetadata)>;

/// The value of a field; `None`: there is none.
fn field<T: DeserializeOwned>(json: &RawValue, pointer: &Pointer) -> Result<Option<T>, String> {
    value(json, pointer)?.map(|value| read(value, &pointer.to_string())).transpose()
}

fn read<T: DeserializeOwned>(json: &RawValue, place: &str) -> Result<T, String> {
    serde_json::from_str(json.get()).map_err(|error| format!("{place}: {error}"))
}

fn annotation(json: &RawValue, name: &str) -> Result<Option<String>, String> {
    let annotations = Pointer::of_fields(["metadata", "annotations", name]);
    field(json, &annotations)
}

fn waits(json: &RawValue, row: &JobKindRow) -> Result<bool, String> {
    Ok(match &row.suspend {
        Suspend::Pointer(pointer) => field(json, pointer)? == Some(true),
        Suspend::Annotation(name) => annotation(json, name)?.as_deref() == Some("true"),
    })
}

fn is_finished(json: &RawValue, row: &JobKindRow) -> Result<bool, String> {
    let finished = &row.finished;
    if let Some(pointer) = &finished.pointer {
        let value = field::<String>(json, pointer)?;
        return Ok(value.is_some_and(|value| finished.values.contains(&value)));
    }
    let mut has_any = false;
    for (place, condition) in values(json, &Pointer::of_fields(["status", "conditions"]).each())? {
        let condition: ConditionWire = read(condition, &place)?;
        has_any |= condition.is_true() && finished.conditions.contains(&condition.type_);
    }
    Ok(has_any)
}

/// The first PriorityClass that is named.
fn class(json: &RawValue, row: &JobKindRow) -> Result<Option<Arc<str>>, String> {
    let mut class = None;
    for pointer in &row.priority_class {
        for (place, name) in values(json, pointer)? {
            class = class.or(given(Some(&read::<String>(name, &place)?)));
        }
    }
    Ok(class)
}

fn demand(json: &RawValue, row: &JobKindRow) -> Result<(Demand, Templates), String> {
    if let Some(name) = &row.ask {
        return Ok((asked(annotation(json, name)?, name), Vec::new()));
    }
    let (mut demand, mut templates) = (Ok(ResourceRequests::default()), Vec::new());
    for set in &row.pod_sets {
        for (place, item) in values(json, &set.each)? {
            let one = pods(item, set, &place, &mut templates);
            let one = one.map_err(|error| format!("{place}{error}"))?;
            demand = demand.and_then(|sum: ResourceRequests| {
                sum.plus(&one?).limited().map_err(|error| error.to_string())
            });
        }
    }
    Ok((demand, templates))
}

/// The resource list of an annotation.
fn asked(annotation: Option<String>, name: &str) -> Demand {
    let allowed = r#"it must be a resource list as JSON, such as {"cpu": "6", "pods": "3"}"#;
    let text = annotation.ok_or_else(|| format!("the annotation {name} is missing; {allowed}"))?;
    let refused = |error: String| format!("the annotation {name}: {error}; {allowed}");
    let list: BTreeMap<String, Quantity> =
        serde_json::from_str(&text).map_err(|error| refused(error.to_string()))?;
    ResourceRequests::from_list(&list).map_err(|error| refused(error.to_string()))
}

/// The requests of a set of Pods at a place.
fn pods(item: &RawValue, set: &PodSet, place: &str, templates: &mut Templates) -> Result<Demand, String> {
    let pods = count(item, set)?;
    let path = format!("{place}{}", set.template);
    let template: Option<PodTemplateWire> = field(item, &set.template)?;
    if let Some(template) = &template {
        templates.push((path.clone(), template_metadata(template)));
    }
    let one = match (template.and_then(|template| template.spec), &set.without_template) {
        (Some(spec), _) => ResourceRequests::pod(&spec.asks()),
        (None, Some(list)) => ResourceRequests::from_list(list)
            .map(|requests| requests.plus(&[("pods", Amount::units(1))].into_iter().collect())),
        (None, None) => return Ok(Err(format!("{path}/spec is missing; it must be the spec of a Pod"))),
    };
    Ok(one.map(|one| one.times(pods)).map_err(|error| format!("{path}: {error}")))
}

/// The number of Pods: the product of the least numbers.
fn count(item: &RawValue, set: &PodSet) -> Result<u64, String> {
    let mut product = 1_u64;
    for factor in &set.count {
        let mut least: Option<i64> = None;
        for Operand { pointer, default, at_least } in factor {
            let bound = at_least.as_ref().map(|bound| field::<i64>(item, bound)).transpose()?.flatten();
            let number = field::<i64>(item, pointer)?.or(default.map(i64::from)).max(bound);
            least = least.into_iter().chain(number).min();
        }
        product = product.saturating_mul(least.map_or(1, |least| u64::try_from(least).unwrap_or(0)));
    }
    Ok(product)
}

#[cfg(test)]
mod oracle;
#[cfg(test)]
mod tests;
