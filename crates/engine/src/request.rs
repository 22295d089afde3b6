//! Requests of the engine.

use std::sync::Arc;

use framework_api::{Framework, FrameworkStatus};
use framework_core::Action;
use framework_core::size::SizeLimits;
use framework_message::Key;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

/// A request to the API server. Each write of an existing object carries preconditions, the guards, so that
/// it can affect only the intended object.
#[derive(Clone, Debug)]
pub enum Request {
    /// PUT of the status, guarded by the resourceVersion that it was computed from.
    PutStatus {
        /// The object whose status it is: gives name, namespace and UID.
        framework: Arc<Framework>,
        /// Guard.
        resource_version: u128,
        /// The new status.
        status: Arc<FrameworkStatus>,
        /// Whether the status is compressed in any case, because its attempt has been compressed before.
        compressed: bool,
        /// The space for the status, beside metadata and spec.
        room: SizeLimits,
    },
    /// Merge patch of the conditions of a Framework that cannot be read, guarded by UID and resourceVersion.
    PatchConditions {
        /// The object: gives name, namespace and UID.
        framework: Arc<Framework>,
        /// Guard.
        resource_version: u128,
        /// All of them.
        conditions: Vec<Condition>,
    },
    /// One of the core's actions; creates are rendered from the persisted status when they are sent.
    Act {
        /// The object acted for.
        framework: Arc<Framework>,
        /// The persisted status that permits the act.
        status: Arc<FrameworkStatus>,
        /// The act.
        action: Action,
    },
    /// Fetches a `Date`.
    AskTime,
    /// GET of a Framework, after a conflict or a missing reply.
    GetFramework {
        /// Its name.
        key: Key,
    },
    /// GET of the object that holds the name of a create.
    GetHolder {
        /// The Framework of the create.
        key: Key,
        /// The refused act.
        action: Action,
    },
    /// Merge patch that puts the slot label back, guarded by UID and resourceVersion.
    RestoreLabel {
        /// The Framework that the object belongs to.
        framework: Arc<Framework>,
        /// The Pod's name; `None` for the ConfigMap.
        pod: Option<String>,
        /// Guard.
        uid: String,
        /// Guard.
        resource_version: u128,
    },
}
