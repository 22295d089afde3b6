//! The kinds of object that the simulated API server knows, and how the real one treats each of them.
//!
//! Adding a kind is one line in [`Registry::new`] or one call of [`Registry::add`]. Nothing else in the
//! server asks for a kind by name, with three exceptions. It recognises Pods by [`Kind::graceful`] and quotas
//! by their plural, and a module of its own repeats the rules of QueueUnits.

use std::sync::Arc;

/// Group of the Framework custom resource.
pub const FRAMEWORK_GROUP: &str = "frameworkcontroller.microsoft.com";

/// Index of a kind in the [`Registry`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KindId(pub(crate) usize);

/// A kind of object and the rules of the real server that differ from kind to kind.
#[derive(Debug, Clone)]
pub struct Kind {
    /// API group, empty for the core one.
    pub group: String,
    /// Version within the group.
    pub version: String,
    /// Kind as it stands in objects.
    pub kind: String,
    /// Plural as it stands in paths.
    pub plural: String,
    /// Whether objects live in a namespace.
    pub namespaced: bool,
    /// Whether status is written through its own subresource and ignored elsewhere.
    pub status: bool,
    /// Whether deletion is graceful, as it is for Pods only.
    pub graceful: bool,
    /// Whether a PUT of an absent object creates it.
    pub upsert: bool,
    /// Whether a PUT without a resourceVersion is taken as "overwrite".
    pub unconditional: bool,
    /// Whether `metadata.generation` counts the changes of the spec.
    pub generation: bool,
    /// Whether the kind is defined by a CRD: its items say their kind, and a DELETE answers with a Status.
    pub custom: bool,
    /// OpenAPI schema whose defaults are filled in, if there is one.
    pub schema: Option<serde_json::Value>,
}

impl Kind {
    /// A built-in kind without status subresource.
    #[must_use]
    pub fn builtin(group: &str, version: &str, kind: &str, plural: &str) -> Self {
        Self {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
            plural: plural.to_owned(),
            namespaced: true,
            status: false,
            graceful: false,
            upsert: false,
            unconditional: true,
            generation: false,
            custom: false,
            schema: None,
        }
    }

    /// A custom kind with a status subresource.
    #[must_use]
    pub fn custom(group: &str, version: &str, kind: &str, plural: &str) -> Self {
        let builtin = Self::builtin(group, version, kind, plural);
        Self { status: true, unconditional: false, generation: true, custom: true, ..builtin }
    }

    /// The custom kind that a CustomResourceDefinition (its first served version) defines, or `None` when
    /// the definition lacks a name or a version.
    #[must_use]
    pub fn of_definition(crd: &serde_json::Value) -> Option<Self> {
        let spec = &crd["spec"];
        let versions = spec["versions"].as_array()?;
        let version = versions.iter().find(|version| version["served"] == true)?;
        let text = |value: &serde_json::Value| value.as_str().map(str::to_owned);
        let mut kind = Self::custom(
            &text(&spec["group"])?,
            &text(&version["name"])?,
            &text(&spec["names"]["kind"])?,
            &text(&spec["names"]["plural"])?,
        );
        kind.namespaced = spec["scope"] == "Namespaced";
        kind.status = version["subresources"]["status"].is_object();
        kind.schema = version["schema"]["openAPIV3Schema"]
            .is_object()
            .then(|| version["schema"]["openAPIV3Schema"].clone());
        Some(kind)
    }

    /// `group/version`, or `version` alone in the core group.
    #[must_use]
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// `plural.group`, or `plural` alone in the core group: how messages name the resource.
    #[must_use]
    pub fn resource(&self) -> String {
        if self.group.is_empty() { self.plural.clone() } else { format!("{}.{}", self.plural, self.group) }
    }
}

/// Every kind the server knows.
#[derive(Debug, Clone)]
pub struct Registry {
    kinds: Vec<Arc<Kind>>,
}

impl Default for Registry {
    fn default() -> Self {
        Self::new()
    }
}

impl Registry {
    /// The kinds that a controller of Frameworks meets.
    #[must_use]
    pub fn new() -> Self {
        let pods =
            Kind { status: true, graceful: true, generation: true, ..Kind::builtin("", "v1", "Pod", "pods") };
        let definitions = Kind {
            namespaced: false,
            status: true,
            unconditional: false,
            generation: true,
            ..Kind::builtin(
                "apiextensions.k8s.io",
                "v1",
                "CustomResourceDefinition",
                "customresourcedefinitions",
            )
        };
        let upsert = |kind: Kind| Kind { upsert: true, ..kind };
        let leases = Kind::builtin("coordination.k8s.io", "v1", "Lease", "leases");
        let kinds = [
            Kind::custom(FRAMEWORK_GROUP, "v1", "Framework", "frameworks"),
            Kind::builtin("", "v1", "ConfigMap", "configmaps"),
            pods,
            upsert(Kind::builtin("events.k8s.io", "v1", "Event", "events")),
            upsert(Kind { unconditional: false, ..leases }),
            upsert(Kind::builtin("", "v1", "Event", "events")),
            Kind::builtin("", "v1", "ServiceAccount", "serviceaccounts"),
            Kind { namespaced: false, status: true, ..Kind::builtin("", "v1", "Namespace", "namespaces") },
            Kind { namespaced: false, status: true, ..Kind::builtin("", "v1", "Node", "nodes") },
            definitions,
            Kind { status: true, ..Kind::builtin("", "v1", "ResourceQuota", "resourcequotas") },
            Kind {
                namespaced: false,
                ..Kind::builtin("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses")
            },
            Kind { status: true, generation: true, ..Kind::builtin("batch", "v1", "Job", "jobs") },
        ];
        Self { kinds: kinds.into_iter().map(Arc::new).collect() }
    }

    /// Adds a kind, or replaces the one of the same group, version and plural.
    pub fn add(&mut self, kind: Kind) -> KindId {
        let same = |known: &Arc<Kind>| {
            known.group == kind.group && known.version == kind.version && known.plural == kind.plural
        };
        if let Some(index) = self.kinds.iter().position(same) {
            self.kinds[index] = Arc::new(kind);
            return KindId(index);
        }
        self.kinds.push(Arc::new(kind));
        KindId(self.kinds.len() - 1)
    }

    /// The kind behind an id.
    #[must_use]
    pub fn get(&self, id: KindId) -> &Arc<Kind> {
        &self.kinds[id.0]
    }

    /// How many kinds there are.
    pub(crate) fn len(&self) -> usize {
        self.kinds.len()
    }

    /// The kind that a path names.
    #[must_use]
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<KindId> {
        self.position(|kind| kind.group == group && kind.version == version && kind.plural == plural)
    }

    /// The kind that an object's apiVersion and kind name.
    #[must_use]
    pub fn find_kind(&self, api_version: &str, name: &str) -> Option<KindId> {
        self.position(|kind| kind.kind == name && kind.api_version() == api_version)
    }

    /// The first kind of that plural, for tests that say just `pods`.
    #[must_use]
    pub fn find_plural(&self, plural: &str) -> Option<KindId> {
        self.position(|kind| kind.plural == plural)
    }

    /// The kinds in a group and version.
    pub(crate) fn of_version(&self, group: &str, version: &str) -> impl Iterator<Item = &Kind> {
        let kinds = self.kinds.iter().map(|kind| &**kind);
        kinds.filter(move |kind| kind.group == group && kind.version == version)
    }

    fn position(&self, wanted: impl Fn(&Kind) -> bool) -> Option<KindId> {
        self.kinds.iter().position(|kind| wanted(kind)).map(KindId)
    }
}
