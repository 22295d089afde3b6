//! Names of namespaced objects.

use std::fmt;
use std::sync::Arc;

use framework_api::Framework;

/// Names a namespaced object of a kind that the context determines; `types.NamespacedName` of
/// controller-runtime.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// `metadata.namespace`.
    pub namespace: Arc<str>,
    /// `metadata.name`.
    pub name: Arc<str>,
}

impl Key {
    /// The object `name` in `namespace`.
    pub fn new(namespace: &str, name: &str) -> Self {
        Key { namespace: namespace.into(), name: name.into() }
    }

    /// The key of a Framework.
    pub fn of(framework: &Framework) -> Self {
        let metadata = &framework.metadata;
        Key::new(
            metadata.namespace.as_deref().unwrap_or_default(),
            metadata.name.as_deref().unwrap_or_default(),
        )
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}
