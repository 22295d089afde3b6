//! Slim decoding: of what the API server sends, only the fields that are used are read.
//!
//! One object that cannot be decoded never breaks the LIST or the watch that it comes in: a Framework says
//! why in [`FrameworkObject::content`], and what is not of ours, by its controller's name, is left out.

mod config_map;
mod framework;
pub(crate) mod job_set;
mod meta;
mod pod;
mod queueing;

use std::borrow::Cow;
use std::fmt::Debug;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::NamespaceResourceScope;
use serde::{Deserialize, Deserializer};

use framework_engine::object::{ConfigMapObject, FrameworkObject, PodObject, UnownedPod};
use meta::Meta;

pub use framework::FrameworkText;
pub(crate) use framework::acknowledged;

/// An object of ours on the wire.
pub trait Wire: Sized + Clone + Debug + Send + Sync + 'static {
    /// API group.
    const GROUP: &'static str;
    /// Version in the group.
    const VERSION: &'static str;
    /// Kind.
    const KIND: &'static str;
    /// The resource, as URLs name it.
    const PLURAL: &'static str;
    /// Which objects are watched, by label; `None`: all.
    const SELECTOR: Option<&'static str>;
    /// Objects in one page of a LIST: a page is decoded in one go, and is in memory three times meanwhile.
    const PAGE: u32;

    /// Lets go of what only an event needs that shows the object deleted.
    fn forget_last(&mut self) {}

    /// Decodes one object; `None` if it is not one of ours.
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Read<Self>, D::Error>;
}

/// One decoded object.
pub struct Read<T> {
    pub(crate) resource_version: Option<String>,
    pub(crate) object: Option<T>,
    /// What stands in its place if it is not one of ours, and may have been.
    pub(crate) unowned: Option<UnownedPod>,
}

/// An object in the form that [`kube::runtime::watcher()`] wants.
#[derive(Clone, Debug)]
pub struct Watched<T> {
    /// Holds the resourceVersion only: it is what the watcher resumes from.
    meta: ObjectMeta,
    /// The object; `None` if it is not one of ours.
    pub object: Option<T>,
    /// What stands in its place if it is not one of ours, and may have been.
    pub unowned: Option<UnownedPod>,
}

impl<'de, T: Wire> Deserialize<'de> for Watched<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Read { resource_version, object, unowned } = T::read(deserializer)?;
        Ok(Watched { meta: ObjectMeta { resource_version, ..ObjectMeta::default() }, object, unowned })
    }
}

impl<T: Wire> kube::Resource for Watched<T> {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        T::KIND.into()
    }

    fn group((): &()) -> Cow<'_, str> {
        T::GROUP.into()
    }

    fn version((): &()) -> Cow<'_, str> {
        T::VERSION.into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        T::PLURAL.into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.meta
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.meta
    }
}

/// Decodes the body of a reply; `None` if the object is not one of ours.
pub fn decode<T: Wire>(body: &[u8]) -> Result<Option<T>, serde_json::Error> {
    serde_json::from_slice::<Watched<T>>(body).map(|watched| watched.object)
}

/// Decodes a page of a LIST: the objects of ours, and `continue` if there is more.
pub fn page<T: Wire>(body: &[u8]) -> Result<(Vec<T>, Option<String>), serde_json::Error> {
    #[derive(Deserialize)]
    struct Metadata {
        #[serde(default, rename = "continue")]
        after: Option<String>,
    }
    #[derive(Deserialize)]
    #[serde(bound = "T: Wire")]
    struct List<T: Wire> {
        metadata: Metadata,
        items: Vec<Watched<T>>,
    }
    let List { metadata, items } = serde_json::from_slice::<List<T>>(body)?;
    let after = metadata.after.filter(|after| !after.is_empty());
    Ok((items.into_iter().filter_map(|watched| watched.object).collect(), after))
}

/// Says in words who holds a name: the object and what controls it.
pub(crate) fn describe_holder(body: &[u8], kind: &str) -> Result<String, serde_json::Error> {
    #[derive(Deserialize)]
    struct Holder {
        #[serde(default)]
        metadata: Meta,
    }
    let meta = serde_json::from_slice::<Holder>(body)?.metadata;
    Ok(match meta.controller() {
        Some(owner) => {
            format!("the name is taken by {kind} {}, controlled by {} {}", meta.name, owner.kind, owner.name)
        }
        None => format!("the name is taken by {kind} {}, which nothing controls", meta.name),
    })
}

/// The kinds that are watched, for tests that want them all.
pub const PLURALS: [&str; 3] = [FrameworkObject::PLURAL, ConfigMapObject::PLURAL, PodObject::PLURAL];
