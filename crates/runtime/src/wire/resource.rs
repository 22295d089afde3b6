//! How a kind is named on the wire, and how one object of it is decoded.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Debug;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::DynamicResourceScope;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use framework_core::truncate::truncate;
use framework_engine::object::UnownedPod;
use framework_message::{Key, Slot};

/// The label by which a kind is divided into slots, if it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Division {
    /// That of the slot of the Framework. All objects of the kind have it, or are labelled soon.
    ByFramework,
    /// That of the slot of the namespace. Some objects in queues have none: those are in every share.
    ByNamespace,
}

/// A kind as URLs and the controller of a watch name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resource {
    /// API group.
    pub group: &'static str,
    /// Version in the group.
    pub version: &'static str,
    /// Kind.
    pub kind: &'static str,
    /// The resource, as URLs name it.
    pub plural: &'static str,
    /// The label selector of the watch; `None`: all objects are watched.
    pub selector: Option<&'static str>,
    /// How a share of it is selected.
    pub division: Division,
    /// Objects in one page of a LIST: a page is decoded in one go, and is in memory three times meanwhile.
    pub page: u32,
    /// Whether its objects are in namespaces.
    pub is_namespaced: bool,
}

impl Resource {
    /// A kind of which all objects are watched.
    pub const fn new(
        group: &'static str,
        version: &'static str,
        kind: &'static str,
        plural: &'static str,
    ) -> Self {
        let division = Division::ByFramework;
        Resource { group, version, kind, plural, selector: None, division, page: 500, is_namespaced: true }
    }

    /// The same kind; only the objects that this label selector matches are watched.
    pub const fn selected_by(self, selector: &'static str) -> Self {
        Resource { selector: Some(selector), ..self }
    }

    /// The same kind; a share of it are the objects in queues of the namespaces of its slots, and those that
    /// name no slot.
    pub const fn divided_by_namespace(self) -> Self {
        Resource { division: Division::ByNamespace, ..self }
    }

    /// The same kind, with pages of so many objects.
    pub const fn in_pages_of(self, page: u32) -> Self {
        Resource { page, ..self }
    }

    /// The same kind, whose objects are in no namespace.
    pub const fn of_the_cluster(self) -> Self {
        Resource { is_namespaced: false, ..self }
    }

    /// The objects of one namespace, if one is named and the kind has namespaces; otherwise all.
    pub fn api<T: Wire>(&self, client: kube::Client, namespace: Option<&str>) -> kube::Api<Watched<T>> {
        match namespace.filter(|_| self.is_namespaced) {
            Some(namespace) => kube::Api::namespaced_with(client, namespace, self),
            None => kube::Api::all_with(client, self),
        }
    }
}

/// An object that can be read from the wire.
pub trait Wire: Sized + Clone + Debug + Send + Sync + 'static {
    /// Its kind.
    const RESOURCE: Resource;

    /// Drops the data that only the event of a deletion needs.
    fn forget_last(&mut self) {}

    /// Decodes one object: the fewest fields that are needed.
    fn read(json: &RawValue) -> Result<Read<Self>, serde_json::Error>;
}

/// One decoded object.
pub struct Read<T> {
    pub(crate) resource_version: Option<String>,
    /// The slot that its label names, if its kind is divided into slots.
    pub(crate) slot: Option<Slot>,
    pub(crate) object: Option<T>,
    /// Set instead of the object if it is not one of ours, and may have been.
    pub(crate) unowned: Option<UnownedPod>,
}

impl<T> Read<T> {
    /// An object of ours.
    pub(crate) fn of(resource_version: Option<String>, object: T) -> Self {
        Read { resource_version, slot: None, object: Some(object), unowned: None }
    }
}

/// An object in the form in which it is listed and watched.
#[derive(Clone, Debug)]
pub struct Watched<T> {
    /// Holds the resourceVersion only: the watch goes on from it.
    meta: ObjectMeta,
    /// The slot that its label names, if its kind is divided into slots.
    pub slot: Option<Slot>,
    /// The object; `None` if it is not one of ours.
    pub object: Option<T>,
    /// Set instead of the object if it is not one of ours, and may have been.
    pub unowned: Option<UnownedPod>,
    /// The reason, if it cannot be decoded. It is left out, and the others that come with it are not.
    pub unreadable: Option<Unreadable>,
}

/// An object that cannot be decoded.
#[derive(Clone, Debug)]
pub struct Unreadable {
    /// Its name, as far as it has one.
    pub key: Key,
    /// The reason.
    pub error: String,
}

impl<'de, T: Wire> Deserialize<'de> for Watched<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Its end is found first, so that its contents cannot hurt the objects that come after it.
        let json = <&RawValue>::deserialize(deserializer)?;
        let (read, unreadable) = match T::read(json) {
            Ok(read) => (read, None),
            Err(error) => rescue(json, &error),
        };
        let Read { resource_version, slot, object, unowned } = read;
        let meta = ObjectMeta { resource_version, ..ObjectMeta::default() };
        Ok(Watched { meta, slot, object, unowned, unreadable })
    }
}

/// The most bytes of an error, which may repeat the words of a user. It goes to the log and to an Event.
const MOST_OF_AN_ERROR: usize = 1000;

/// The beginning of an error.
pub fn brief(error: &str) -> Cow<'_, str> {
    truncate(error, MOST_OF_AN_ERROR)
}

/// The name and the version of an object that cannot be decoded: the watch needs the version to go on.
fn rescue<T>(json: &RawValue, error: &serde_json::Error) -> (Read<T>, Option<Unreadable>) {
    fn fields(json: &RawValue) -> BTreeMap<String, &RawValue> {
        serde_json::from_str(json.get()).unwrap_or_default()
    }
    let metadata = fields(json).get("metadata").map(|json| fields(json)).unwrap_or_default();
    let text = |field: &str| serde_json::from_str::<String>(metadata.get(field)?.get()).ok();
    let key = Key::new(&text("namespace").unwrap_or_default(), &text("name").unwrap_or_default());
    let unreadable = Unreadable { key, error: brief(&error.to_string()).into_owned() };
    let resource_version = text("resourceVersion");
    (Read { resource_version, slot: None, object: None, unowned: None }, Some(unreadable))
}

impl<T: Wire> kube::Resource for Watched<T> {
    type DynamicType = Resource;
    type Scope = DynamicResourceScope;

    fn kind(of: &Resource) -> Cow<'_, str> {
        of.kind.into()
    }

    fn group(of: &Resource) -> Cow<'_, str> {
        of.group.into()
    }

    fn version(of: &Resource) -> Cow<'_, str> {
        of.version.into()
    }

    fn plural(of: &Resource) -> Cow<'_, str> {
        of.plural.into()
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
    T::read(serde_json::from_slice(body)?).map(|read| read.object)
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
