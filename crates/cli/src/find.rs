//! Frameworks as they are stored, and as the controller reads them: with a decompressed status.

use framework_api::Framework;
use kube::api::{Api, DynamicObject, ObjectMeta};
use kube::core::ApiResource;
use serde_json::{Value, json};

use crate::cluster::{self, Cluster};
use crate::error::Error;

/// A Framework, read once.
#[derive(Clone, Debug)]
pub struct Found {
    /// The object as the controller reads it.
    pub framework: Framework,
    /// The object as it is stored, but for a compressed status: fields that this version does not know stay.
    pub stored: Value,
}

impl Found {
    /// Reads an object.
    pub fn read(object: DynamicObject) -> Result<Found, Error> {
        let name = object.metadata.name.clone().unwrap_or_default();
        let namespace = object.metadata.namespace.clone().unwrap_or_default();
        let failed = |source| Error::Form { namespace: namespace.clone(), name: name.clone(), source };
        let mut stored = serde_json::to_value(&object).map_err(failed)?;
        stored["apiVersion"] = json!(framework_api::name::API_VERSION);
        stored["kind"] = json!(framework_api::name::KIND);
        let mut framework: Framework = serde_json::from_value(stored.clone()).map_err(failed)?;
        if let Some(status) = &mut framework.status {
            let opened = status.decompress();
            let opened = opened.map_err(|source| Error::Status {
                namespace: namespace.clone(),
                name: name.clone(),
                source,
            })?;
            let attempt = stored.pointer_mut("/status/attemptStatus").filter(|_| opened);
            if let Some(attempt) = attempt.and_then(Value::as_object_mut) {
                let roles =
                    serde_json::to_value(&status.attempt_status.task_role_statuses).map_err(failed)?;
                attempt.insert("taskRoleStatuses".to_owned(), roles);
                attempt.remove("taskRoleStatusesCompressed");
            }
        }
        Ok(Found { framework, stored })
    }

    /// Its metadata.
    pub fn metadata(&self) -> &ObjectMeta {
        &self.framework.metadata
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.metadata().name.as_deref().unwrap_or_default()
    }

    /// Its namespace.
    pub fn namespace(&self) -> &str {
        self.metadata().namespace.as_deref().unwrap_or_default()
    }

    /// The queue that its label names.
    pub fn queue(&self) -> &str {
        let labels = self.metadata().labels.as_ref();
        let queue = labels.and_then(|labels| labels.get(framework_api::queue::QUEUE_NAME_LABEL));
        queue.map(String::as_str).unwrap_or_default()
    }
}

/// The Frameworks of the namespace, or of all.
pub fn api(cluster: &Cluster, all_namespaces: bool) -> Api<DynamicObject> {
    let resource = ApiResource::erase::<Framework>(&());
    let client = cluster.client.clone();
    if all_namespaces {
        Api::all_with(client, &resource)
    } else {
        Api::namespaced_with(client, &cluster.namespace, &resource)
    }
}

/// The Framework of that name.
pub async fn one(cluster: &Cluster, name: &str) -> Result<Found, Error> {
    let namespace = cluster.namespace.clone();
    match api(cluster, false).get(name).await {
        Ok(object) => Found::read(object),
        Err(kube::Error::Api(status)) if status.code == 404 && is_about(&status, name) => {
            Err(Error::NotFound { namespace, name: name.to_owned() })
        }
        Err(source) => {
            let action = format!("get the Framework {name:?} in the namespace {namespace:?}");
            Err(Error::Request { action, source: Box::new(source) })
        }
    }
}

/// Whether a 404 is about the object: without the definition of Frameworks, none can be found.
fn is_about(status: &kube::core::Status, name: &str) -> bool {
    status.details.as_ref().is_some_and(|details| details.name == name)
}

/// The Frameworks with these labels.
pub async fn all(cluster: &Cluster, all_namespaces: bool, labels: Option<&str>) -> Result<Vec<Found>, Error> {
    let what = if all_namespaces {
        "the Frameworks of all namespaces".to_owned()
    } else {
        format!("the Frameworks of the namespace {:?}", cluster.namespace)
    };
    let objects = cluster::list(&api(cluster, all_namespaces), labels, &what).await?;
    objects.into_iter().map(Found::read).collect()
}
