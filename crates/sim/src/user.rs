//! Verbs for tests: at once, without the network and its faults.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};

use crate::deletion::DeleteOptions;
use crate::fate::End;
use crate::kind::KindId;
use crate::kubelet;
use crate::object::Object;
use crate::patch::Patch;
use crate::quota;
use crate::refusal::Refusal;
use crate::store::{Key, Query};
use crate::update::Part;
use crate::world::World;

/// Namespace of everything that does not say otherwise.
pub const NAMESPACE: &str = "default";

/// A user with all rights and no latency, acting in one namespace.
///
/// Kinds are named by their plural: `frameworks`, `configmaps`, `pods`, `leases`, ….
#[derive(Debug, Clone)]
pub struct User {
    pub(crate) world: Arc<Mutex<World>>,
    pub(crate) actor: Arc<str>,
    pub(crate) namespace: String,
}

impl User {
    /// The same user in another namespace.
    #[must_use]
    pub fn within(&self, namespace: &str) -> Self {
        Self { namespace: namespace.to_owned(), ..self.clone() }
    }

    /// The same user under another name, for the history.
    #[must_use]
    pub fn named(&self, actor: &str) -> Self {
        Self { actor: actor.into(), ..self.clone() }
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn kind(&self, plural: &str) -> Result<(KindId, Key), Refusal> {
        let world = self.world();
        let kind = world.store.registry.find_plural(plural).ok_or_else(Refusal::no_such_path)?;
        let namespace = if world.store.registry.get(kind).namespaced { &*self.namespace } else { "" };
        Ok((kind, Key::new(namespace, "")))
    }

    fn key(&self, plural: &str, name: &str) -> Result<(KindId, Key), Refusal> {
        let (kind, key) = self.kind(plural)?;
        Ok((kind, Key { name: name.to_owned(), ..key }))
    }

    /// Creates an object; its kind is read from the object.
    ///
    /// # Errors
    /// As the server refuses.
    pub fn create(&self, object: Value) -> Result<Arc<Object>, Refusal> {
        let mut world = self.world();
        let text = |field: &str| object[field].as_str().unwrap_or("");
        let kind = world.store.registry.find_kind(text("apiVersion"), text("kind"));
        let kind = kind.ok_or_else(Refusal::no_such_path)?;
        let namespace = if world.store.registry.get(kind).namespaced { &*self.namespace } else { "" };
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or(namespace).to_owned();
        quota::admit(&mut world, &self.actor, kind, &namespace, &object)?;
        world.write(&self.actor, 0, |store, caller| store.create(caller, kind, &namespace, object))
    }

    /// Reads an object, `None` when it is absent.
    #[must_use]
    pub fn get(&self, plural: &str, name: &str) -> Option<Arc<Object>> {
        let (kind, key) = self.key(plural, name).ok()?;
        self.world().store.get(kind, &key).cloned()
    }

    /// Reads all objects of a kind in the namespace, by name.
    #[must_use]
    pub fn list(&self, plural: &str) -> Vec<Arc<Object>> {
        let Ok((kind, key)) = self.kind(plural) else { return Vec::new() };
        let query = Query { namespace: Some(key.namespace), ..Query::default() };
        self.world().store.list(kind, &query).map_or_else(|_| Vec::new(), |page| page.items)
    }

    /// Merges a patch into an object, status excepted.
    ///
    /// # Errors
    /// As the server refuses.
    pub fn patch(&self, plural: &str, name: &str, patch: Value) -> Result<Arc<Object>, Refusal> {
        self.apply(plural, name, Part::Main, &Patch::Merge(patch))
    }

    /// Merges a patch into the status of an object; the patch is that of the status alone.
    ///
    /// # Errors
    /// As the server refuses.
    pub fn patch_status(&self, plural: &str, name: &str, status: Value) -> Result<Arc<Object>, Refusal> {
        self.apply(plural, name, Part::Status, &Patch::Merge(json!({ "status": status })))
    }

    /// Applies a JSON patch (RFC 6902) to an object, status excepted.
    ///
    /// # Errors
    /// As the server refuses.
    pub fn json_patch(&self, plural: &str, name: &str, patch: Value) -> Result<Arc<Object>, Refusal> {
        self.apply(plural, name, Part::Main, &Patch::Json(patch))
    }

    fn apply(&self, plural: &str, name: &str, part: Part, patch: &Patch) -> Result<Arc<Object>, Refusal> {
        let (kind, key) = self.key(plural, name)?;
        self.world().write(&self.actor, 0, |store, caller| store.patch(caller, kind, &key, part, patch))
    }

    /// Deletes an object with no options.
    ///
    /// # Errors
    /// As the server refuses.
    pub fn delete(&self, plural: &str, name: &str) -> Result<(), Refusal> {
        self.delete_with(plural, name, &DeleteOptions::default())
    }

    /// Deletes an object.
    ///
    /// # Errors
    /// As the server refuses.
    pub fn delete_with(&self, plural: &str, name: &str, options: &DeleteOptions) -> Result<(), Refusal> {
        let (kind, key) = self.key(plural, name)?;
        let delete = |store: &mut crate::store::Store, caller: &crate::store::Caller| {
            store.delete(caller, kind, &key, options).map(drop)
        };
        self.world().write(&self.actor, 0, delete)
    }

    /// Ends a Pod now as its node would. Returns whether there was one that had not ended.
    pub fn end_pod(&self, name: &str, end: &End) -> bool {
        let Ok((kind, key)) = self.key("pods", name) else { return false };
        kubelet::end_pod(&mut self.world(), kind, &key, end)
    }
}
