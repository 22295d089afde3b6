//! The QueueUnits of a Framework, as they are stored.

use std::collections::BTreeMap;

use framework_api::job_kind::unit_name;
use framework_api::name::KIND;
use framework_api::queue::{DEQUEUED, QueueUnit, growth_unit_name};
use serde::Serialize;

use crate::cluster::{self, Cluster};
use crate::error::Error;
use crate::find::Found;

/// A QueueUnit of a Framework.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UnitView {
    /// Its name.
    pub name: String,
    /// Its UID.
    #[serde(skip)]
    pub uid: String,
    /// Its queue.
    pub queue: String,
    /// `status.phase`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// Why it waits, in a word.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Why it waits, with the figures of the moment when the reason last changed.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The requests of the whole job, or of its growth.
    pub requests: BTreeMap<String, String>,
}

impl UnitView {
    fn of(unit: &QueueUnit) -> UnitView {
        let status = unit.status.clone().unwrap_or_default();
        let reason = status.condition(DEQUEUED).map(|condition| condition.reason.clone());
        let requests = unit.spec.resource.iter();
        UnitView {
            name: unit.metadata.name.clone().unwrap_or_default(),
            uid: unit.metadata.uid.clone().unwrap_or_default(),
            queue: unit.spec.queue.clone(),
            phase: status.phase.map(|phase| format!("{phase:?}")),
            reason: reason.unwrap_or_default(),
            message: status.message,
            requests: requests.map(|(resource, amount)| (resource.clone(), amount.0.clone())).collect(),
        }
    }

    /// Its phase, also of one that the controller has not seen yet.
    pub fn phase_or_new(&self) -> String {
        self.phase.clone().unwrap_or_else(|| "New".to_owned())
    }

    /// Whether it waits.
    pub fn waits(&self) -> bool {
        self.phase.as_deref() != Some("Dequeued")
    }
}

/// All units of the namespace; none where QueueUnits are not installed.
pub async fn all(cluster: &Cluster) -> Result<Vec<QueueUnit>, Error> {
    let what = format!("the QueueUnits of the namespace {:?}", cluster.namespace);
    match cluster.list::<QueueUnit>(&cluster.api(), None, &what).await {
        Err(Error::Request { source, .. }) if cluster::is_not_served(&source) => Ok(Vec::new()),
        listed => listed,
    }
}

/// The units of a Framework, its first one first; without a request if it was never in a queue.
pub async fn units_of(cluster: &Cluster, found: &Found) -> Result<Vec<UnitView>, Error> {
    if !may_have_units(found) {
        return Ok(Vec::new());
    }
    Ok(select(found, &all(cluster).await?))
}

/// Whether a Framework names a queue, or did.
pub fn may_have_units(found: &Found) -> bool {
    let framework = &found.framework;
    framework_core::queue::names_one(framework)
        || framework_core::queue::has_waited(framework.status.as_ref())
}

/// Those that belong to the Framework, by owner and name.
pub fn select(found: &Found, units: &[QueueUnit]) -> Vec<UnitView> {
    let first = unit_name(KIND, found.name());
    let is_its = |unit: &&QueueUnit| {
        let name = unit.metadata.name.as_deref().unwrap_or_default();
        let generation = name.rsplit_once('-').and_then(|(_, number)| number.parse().ok());
        let is_named =
            name == first || generation.is_some_and(|number| name == growth_unit_name(&first, number));
        let owners = unit.metadata.owner_references.iter().flatten();
        is_named && owners.into_iter().any(|owner| Some(&owner.uid) == found.metadata().uid.as_ref())
    };
    let mut selected: Vec<UnitView> = units.iter().filter(is_its).map(UnitView::of).collect();
    selected.sort_by_key(|unit| (unit.name != first, unit.name.len(), unit.name.clone()));
    selected
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::found;
    use serde_json::json;

    #[test]
    fn units_belong_by_owner_and_name() {
        let mut gang = found("queued.yaml");
        gang.framework.metadata.uid = Some("g".to_owned());
        let unit = |name: &str, owner: &str| -> QueueUnit {
            let owners = json!([{"apiVersion": "v1", "kind": "Framework", "name": "x", "uid": owner}]);
            let metadata = json!({"name": name, "uid": name, "ownerReferences": owners});
            serde_json::from_value(json!({
                "apiVersion": "queue.k8s.io/v1alpha1", "kind": "QueueUnit", "metadata": metadata,
                "spec": {"queue": "q", "resource": {"pods": "1"}},
            }))
            .unwrap()
        };
        let units = [
            unit("framework-gang-10", "g"),
            unit("framework-gang-9", "g"),
            unit("framework-gang", "g"),
            unit("framework-gang", "other"),
            unit("framework-gang-x", "g"),
        ];
        let names: Vec<String> = select(&gang, &units).into_iter().map(|unit| unit.name).collect();
        assert_eq!(names, ["framework-gang", "framework-gang-9", "framework-gang-10"]);
    }
}
