//! The CRDs of kinds of jobs. The gate serves them without a schema. `cargo xtask soak operators` gives the
//! tests the real ones.

use std::path::PathBuf;

use framework_api::queue::QUEUE_NAME_LABEL;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::cluster::{apply, block_on, client, kubectl, until};

/// The variable that names a directory with a file `GROUP_PLURAL.yaml` for each CRD.
const DIR: &str = "FRAMEWORK_JOB_CRDS";

/// The group of kinds that no operator has.
const INVENTED: &str = "example.com";

/// Whether the API server validates jobs by the CRDs of their operators.
pub fn are_real() -> bool {
    std::env::var_os(DIR).is_some()
}

/// A kind of jobs that the API server is to serve.
#[derive(Clone, Copy)]
pub struct Served {
    group: &'static str,
    version: &'static str,
    pub kind: &'static str,
    pub plural: &'static str,
    has_status: bool,
    /// Another version in which a CRD without a schema serves the same objects.
    also: Option<&'static str>,
}

impl Served {
    pub const fn new(
        group: &'static str,
        version: &'static str,
        kind: &'static str,
        plural: &'static str,
    ) -> Self {
        Served { group, version, kind, plural, has_status: true, also: None }
    }

    /// The status is no subresource.
    pub const fn without_status(self) -> Self {
        Served { has_status: false, ..self }
    }

    /// The same kind, whose objects are served in a second version, too.
    pub const fn also(self, version: &'static str) -> Self {
        Served { also: Some(version), ..self }
    }

    /// The same kind by its second version.
    pub fn in_the_second_version(self) -> Self {
        let second = self.also.expect("it has a second version");
        Served { version: second, also: Some(self.version), ..self }
    }

    /// The same kind by the version that its real CRD has, if the tests have that.
    pub fn as_installed(self) -> Self {
        let Some(file) = self.real() else { return self };
        let crd =
            std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let named = format!("name: {}", self.version);
        let is_named = crd.lines().any(|line| line.trim_start_matches([' ', '-']) == named);
        if is_named { self } else { self.in_the_second_version() }
    }

    /// The file of its real CRD.
    fn real(&self) -> Option<PathBuf> {
        let dir = std::env::var_os(DIR).map(PathBuf::from).filter(|_| self.group != INVENTED)?;
        Some(dir.join(format!("{}_{}.yaml", self.group, self.plural)))
    }

    /// A namespace for jobs of this version.
    pub fn namespace(&self) -> String {
        format!("row-{}-{}", self.plural, self.version)
    }

    pub fn install(&self) {
        match self.real() {
            Some(file) => {
                let file = file.to_str().expect("a path in UTF-8");
                kubectl(&["apply", "--server-side", "--force-conflicts", "-f", file]);
            }
            None => apply("default", &self.definition().to_string()),
        }
    }

    /// A CRD without a schema.
    fn definition(&self) -> Value {
        let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let subresources = if self.has_status { json!({"status": {}}) } else { json!({}) };
        let version = |name: &str| {
            json!({
                "name": name, "served": true, "storage": name == self.version, "subresources": subresources,
                "schema": {"openAPIV3Schema": {
                    "type": "object", "properties": {"spec": anything, "status": anything},
                }},
            })
        };
        let versions: Vec<Value> = [self.version].into_iter().chain(self.also).map(version).collect();
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {
                "name": format!("{}.{}", self.plural, self.group),
                "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"},
            },
            "spec": {
                "group": self.group, "scope": "Namespaced",
                "names": {"kind": self.kind, "plural": self.plural},
                "versions": versions,
            },
        })
    }

    pub fn jobs(&self, namespace: &str) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk(self.group, self.version, self.kind);
        Api::namespaced_with(client(), namespace, &ApiResource::from_gvk_with_plural(&kind, self.plural))
    }

    /// Creates a job in the queue, as soon as the kind is served.
    pub fn create(&self, namespace: &str, name: &str, spec: &Value) -> DynamicObject {
        self.create_annotated(namespace, name, spec, &Value::Null)
    }

    /// Creates a job with these annotations in the queue, as soon as the kind is served.
    pub fn create_annotated(
        &self,
        namespace: &str,
        name: &str,
        spec: &Value,
        annotations: &Value,
    ) -> DynamicObject {
        let metadata = json!({"name": name, "labels": {QUEUE_NAME_LABEL: "q"}, "annotations": annotations});
        let job = json!({
            "apiVersion": format!("{}/{}", self.group, self.version), "kind": self.kind,
            "metadata": metadata, "spec": spec,
        });
        let job: DynamicObject = serde_json::from_value(job).expect("an object");
        let jobs = self.jobs(namespace);
        until("the kind is served", || match block_on(jobs.create(&PostParams::default(), &job)) {
            Ok(job) => Some(job),
            // The API server may still know the kind as one that is being removed: 405.
            Err(kube::Error::Api(status)) if [404, 405].contains(&status.code) => None,
            Err(error) => panic!("{} {name}: {error}", self.kind),
        })
    }

    /// Writes the status of a job, as its operator does.
    pub fn set_status(&self, namespace: &str, name: &str, status: &Value) {
        let (jobs, parameters) = (self.jobs(namespace), PatchParams::default());
        let patch = Patch::Merge(json!({"status": status}));
        let written = match self.has_status {
            true => block_on(jobs.patch_status(name, &parameters, &patch)),
            false => block_on(jobs.patch(name, &parameters, &patch)),
        };
        written.unwrap_or_else(|error| panic!("{} {name}: {error}", self.kind));
    }
}
