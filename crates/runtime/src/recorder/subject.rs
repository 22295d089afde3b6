//! The objects that Events are about.

use std::borrow::Cow;

use framework_api::{Framework, name, queue};
use framework_message::Key;

/// The object that an Event is about.
#[derive(Clone, Debug)]
pub struct Subject {
    pub(super) api_version: Cow<'static, str>,
    pub(super) kind: Cow<'static, str>,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) resource_version: Option<String>,
    /// Whether reports with different notes have an Event each.
    pub(super) event_per_note: bool,
}

impl Subject {
    /// A Framework.
    pub fn framework(framework: &Framework) -> Self {
        let metadata = framework.metadata.clone();
        Subject {
            api_version: name::API_VERSION.into(),
            kind: name::KIND.into(),
            namespace: metadata.namespace.unwrap_or_default(),
            name: metadata.name.unwrap_or_default(),
            uid: metadata.uid.unwrap_or_default(),
            resource_version: metadata.resource_version,
            event_per_note: false,
        }
    }

    /// A Lease. Without a UID the Event is stored all the same. Notes report changes, none of which repeats
    /// another one, so each has an Event of its own.
    pub fn lease(namespace: &str, name: &str, uid: &str) -> Self {
        Subject {
            api_version: "coordination.k8s.io/v1".into(),
            kind: "Lease".into(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid: uid.to_owned(),
            resource_version: None,
            event_per_note: true,
        }
    }

    /// A job of any kind.
    pub fn job(api_version: &str, kind: &str, key: &Key, uid: &str) -> Self {
        Subject {
            api_version: api_version.to_owned().into(),
            kind: kind.to_owned().into(),
            ..Subject::unit(key, uid)
        }
    }

    /// A QueueUnit.
    pub fn unit(key: &Key, uid: &str) -> Self {
        Subject {
            api_version: queue::API_VERSION.into(),
            kind: queue::UNIT_KIND.into(),
            namespace: key.namespace.to_string(),
            name: key.name.to_string(),
            uid: uid.to_owned(),
            resource_version: None,
            event_per_note: false,
        }
    }
}
