//! Objects as the engine sees them: the few fields that it decides from.

use std::sync::Arc;

use framework_api::{Framework, FrameworkStatus};
use framework_core::observed::{ConfigMapFacts, PodFacts};
use framework_message::{Key, Slot};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::Deserialize;
use serde_json::value::RawValue;

/// An object that a response shows.
#[derive(Debug)]
pub enum Object {
    /// The Framework after a PUT or at a GET.
    Framework(FrameworkObject),
    /// The ConfigMap after a POST, a PATCH or at a GET.
    ConfigMap(ConfigMapObject),
    /// The Pod after a POST, a PATCH, a DELETE or at a GET.
    Pod(PodObject),
    /// The Pod after a POST, and a field of it that the API server does not know and has left out.
    PodWithout(PodObject, String),
}

/// The outcome of a request of the engine.
pub type Reply = framework_message::Reply<Object>;

/// A Pod that no ConfigMap of ours controls.
#[derive(Clone, Debug)]
pub struct UnownedPod {
    /// The Framework that its name refers to.
    pub key: Key,
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.resourceVersion`.
    pub resource_version: u128,
    /// The whole Pod, if an event shows it deleted.
    pub last: Option<Box<RawValue>>,
}

/// A decoded Framework, separate from its status.
pub type Content = (Arc<Framework>, Option<Arc<FrameworkStatus>>);

/// A Framework as read from the API server.
#[derive(Clone, Debug)]
pub struct FrameworkObject {
    /// Its name.
    pub key: Key,
    /// `metadata.uid`.
    pub uid: Arc<str>,
    /// `metadata.resourceVersion`, as a number (KEP-5504).
    pub resource_version: u128,
    /// Length of its metadata and spec as the API server wrote them, which is how it stores them.
    pub stored_bytes: usize,
    /// The decoded object, separate from its status; or the reason why it cannot be decoded. Such a Framework
    /// is left alone.
    pub content: Result<Content, Unreadable>,
    /// How its status is stored.
    pub form: Form,
    /// The invalid fields of its spec, which count as not set.
    pub ignored: Option<String>,
}

impl FrameworkObject {
    /// Whether the Framework is being deleted, or was before it was gone.
    pub fn is_deleting(&self) -> bool {
        let framework = match &self.content {
            Ok((framework, _)) => Some(framework),
            Err(unreadable) => unreadable.framework.as_ref(),
        };
        framework.is_some_and(|framework| framework.metadata.deletion_timestamp.is_some())
    }
}

/// How a status is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Form {
    /// Whether its TaskRole statuses are compressed.
    pub compressed: bool,
    /// Its length as JSON.
    pub bytes: usize,
}

/// Why a Framework cannot be read, and its readable parts.
#[derive(Clone, Debug, PartialEq)]
pub struct Unreadable {
    /// The field, and the reason.
    pub reason: Arc<str>,
    /// Metadata and spec.
    pub framework: Option<Arc<Framework>>,
    /// The conditions in its status.
    pub conditions: Option<Vec<Condition>>,
}

impl From<&str> for Unreadable {
    fn from(reason: &str) -> Self {
        Unreadable { reason: reason.into(), framework: None, conditions: None }
    }
}

/// A ConfigMap with the name of a FrameworkAttempt's.
#[derive(Clone, Debug)]
pub struct ConfigMapObject {
    /// The Framework that its name refers to.
    pub key: Key,
    /// `metadata.resourceVersion`.
    pub resource_version: u128,
    /// The facts that the core reads.
    pub facts: ConfigMapFacts,
    /// The slot that its label names, by which replicas select it; `None`: it has no label, or it names none.
    pub label: Option<Slot>,
}

/// A Pod that is controlled by a ConfigMap with the name of a FrameworkAttempt's.
#[derive(Clone, Debug)]
pub struct PodObject {
    /// The Framework that its controller's name refers to.
    pub key: Key,
    /// `metadata.name`.
    pub name: String,
    /// `metadata.resourceVersion`.
    pub resource_version: u128,
    /// The facts that the core reads.
    pub facts: PodFacts,
    /// The slot that its label names, by which replicas select it; `None`: it has no label, or it names none.
    pub label: Option<Slot>,
    /// The whole Pod, if an event shows it deleted. The cache keeps none.
    pub last: Option<Box<RawValue>>,
}

impl PodObject {
    /// The finalizers of a Pod that is being deleted; empty if it has none, or if the object was not shown
    /// whole.
    pub fn finalizers(&self) -> Vec<String> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Held {
            metadata: Holders,
        }
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Holders {
            finalizers: Option<Vec<String>>,
        }
        let held = self.last.as_ref().and_then(|json| serde_json::from_str::<Held>(json.get()).ok());
        held.and_then(|held| held.metadata.finalizers).unwrap_or_default()
    }
}
