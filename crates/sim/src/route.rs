//! The paths and queries that the API server reads.

use crate::kind::{KindId, Registry};
use crate::refusal::Refusal;
use crate::store::Key;

/// The target of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Route {
    /// `/version`.
    Version,
    /// `/livez`, `/readyz`, `/healthz`.
    Health,
    /// `/apis/{group}/{version}`, in which there is a kind.
    Resources { group: String, version: String },
    /// A collection, or one object, or its status.
    Resource { kind: KindId, namespace: Option<String>, name: Option<String>, status: bool },
    /// Nothing.
    Unknown,
}

impl Route {
    /// Reads a path.
    pub(crate) fn read(registry: &Registry, path: &str) -> Self {
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let (group, version, rest) = match parts.as_slice() {
            ["version"] => return Self::Version,
            ["livez" | "readyz" | "healthz", ..] => return Self::Health,
            ["apis", group, version] if registry.of_version(group, version).next().is_some() => {
                return Self::Resources { group: (*group).to_owned(), version: (*version).to_owned() };
            }
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _ => return Self::Unknown,
        };
        let (namespace, rest) = match rest {
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (Some(*namespace), rest),
            _ => (None, rest),
        };
        let (plural, name, status) = match rest {
            [plural] => (plural, None, false),
            [plural, name] => (plural, Some(*name), false),
            [plural, name, "status"] => (plural, Some(*name), true),
            _ => return Self::Unknown,
        };
        let Some(kind) = registry.find(group, version, plural) else { return Self::Unknown };
        let rules = registry.get(kind);
        if (status && !rules.status) || (name.is_some() && rules.namespaced != namespace.is_some()) {
            return Self::Unknown;
        }
        let own = |text: Option<&str>| text.map(decode);
        Self::Resource { kind, namespace: own(namespace), name: own(name), status }
    }

    /// The object that the path names.
    pub(crate) fn key(&self) -> Result<(KindId, Key, bool), Refusal> {
        match self {
            Self::Resource { kind, namespace, name: Some(name), status } => {
                Ok((*kind, Key::new(namespace.as_deref().unwrap_or(""), name), *status))
            }
            _ => Err(Refusal::no_such_path()),
        }
    }
}

/// Reads a query string.
pub(crate) fn read_query(query: &str) -> Vec<(String, String)> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(k, v)| (decode(k), decode(v)))
        .collect()
}

fn decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut index = 0;
    while let Some(byte) = bytes.get(index) {
        let hex = bytes.get(index + 1..index + 3).and_then(|two| std::str::from_utf8(two).ok());
        match (byte, hex.and_then(|two| u8::from_str_radix(two, 16).ok())) {
            (b'%', Some(decoded)) => {
                out.push(decoded);
                index += 3;
                continue;
            }
            (b'+', _) => out.push(b' '),
            (other, _) => out.push(*other),
        }
        index += 1;
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_name_collections_objects_and_their_status() {
        let registry = Registry::new();
        let read = |path| Route::read(&registry, path);
        let pods = registry.find("", "v1", "pods").unwrap();
        let some = |text: &str| Some(text.to_owned());
        let resource = |namespace, name, status| Route::Resource { kind: pods, namespace, name, status };
        assert_eq!(read("/api/v1/pods"), resource(None, None, false));
        assert_eq!(read("/api/v1/namespaces/a/pods"), resource(some("a"), None, false));
        assert_eq!(read("/api/v1/namespaces/a/pods/x"), resource(some("a"), some("x"), false));
        assert_eq!(read("/api/v1/namespaces/a/pods/x/status"), resource(some("a"), some("x"), true));
        assert_eq!(read("/api/v1/namespaces/a/configmaps/x/status"), Route::Unknown);
        assert_eq!(read("/api/v1/pods/x"), Route::Unknown);
        assert_eq!(read("/version"), Route::Version);
        let (group, version) = ("batch".to_owned(), "v1".to_owned());
        assert_eq!(read("/apis/batch/v1"), Route::Resources { group, version });
        assert_eq!(read("/apis/batch/v2"), Route::Unknown);
        assert!(matches!(read("/api/v1/namespaces/a"), Route::Resource { name: Some(_), .. }));
    }

    #[test]
    fn queries_are_decoded() {
        let query = read_query("labelSelector=slot+in+%281%2C2%29&watch=true&limit=");
        let wanted = [("labelSelector", "slot in (1,2)"), ("watch", "true"), ("limit", "")];
        let wanted: Vec<_> = wanted.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        assert_eq!(query, wanted);
    }
}
