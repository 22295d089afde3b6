//! Frameworks as they are stored, and as the controller reads them: with a decompressed status.

use framework_api::{Framework, State};
use kube::api::{Api, DynamicObject, GetParams, ObjectMeta};
use kube::core::{ApiResource, Request};
use serde_json::{Value, json};

use crate::args::Get;
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

/// The Frameworks of a list.
#[derive(Debug, Default)]
pub struct Listed {
    /// Those that can be read.
    pub found: Vec<Found>,
    /// Why the others cannot.
    pub unreadable: Vec<Error>,
}

impl Listed {
    fn of(all: Vec<Result<Found, Error>>) -> Listed {
        let mut listed = Listed::default();
        for one in all {
            match one {
                Ok(found) => listed.found.push(found),
                Err(error) => listed.unreadable.push(error),
            }
        }
        listed
    }

    /// The answers about Frameworks that were named: an error if there is none to show.
    fn named(answers: Vec<Result<Found, Error>>) -> Result<Listed, Error> {
        let listed = Listed::of(answers);
        if listed.found.is_empty() {
            return listed.answer(String::new()).map(|_| Listed::default());
        }
        Ok(listed)
    }

    /// The answer with this text about those that can be read: an error if some cannot.
    pub fn answer(self, text: String) -> Result<String, Error> {
        if self.unreadable.is_empty() {
            return Ok(text);
        }
        let text = if self.found.is_empty() { String::new() } else { text };
        Err(Error::Unreadable { all: self.unreadable, text })
    }
}

impl Found {
    /// Reads an object of a response.
    pub fn of(object: Value) -> Result<Found, Error> {
        let text = |at: &str| object.pointer(at).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (namespace, name) = (text("/metadata/namespace"), text("/metadata/name"));
        Found::read(cluster::decode(object).map_err(|source| Error::Form { namespace, name, source })?)
    }

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

    /// Without the parts that no row shows. They take most of the memory of a long list.
    pub fn summarized(mut self) -> Found {
        self.stored = Value::Null;
        self.framework.metadata.managed_fields = None;
        self.framework.spec.task_roles = Vec::new();
        if let Some(status) = &mut self.framework.status {
            status.attempt_status.task_role_statuses = None;
        }
        self
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

    /// Whether it is over, and no action is left.
    pub fn is_completed(&self) -> bool {
        self.framework.status.as_ref().is_some_and(|status| status.state == State::Completed)
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
    Found::of(object(cluster, name).await?)
}

/// The Framework of that name, as it is stored.
pub async fn object(cluster: &Cluster, name: &str) -> Result<Value, Error> {
    let namespace = cluster.namespace.clone();
    let answer = match Request::new(api(cluster, false).resource_url()).get(name, &GetParams::default()) {
        Ok(request) => cluster.request(request).await,
        Err(error) => Err(kube::Error::BuildRequest(error)),
    };
    match answer {
        Ok(object) => Ok(object),
        Err(kube::Error::Api(status)) if status.code == 404 && is_about(&status, name) => {
            Err(Error::NotFound { namespace, name: name.to_owned() })
        }
        Err(source) => {
            let action = format!("get the Framework {name:?} in the namespace {namespace:?}");
            Err(or_not_served(Error::Request { action, source: Box::new(source) }))
        }
    }
}

/// A 404 that is not about one Framework is about all.
fn or_not_served(error: Error) -> Error {
    match error {
        Error::Request { action, source } if cluster::is_not_served(&source) => Error::NotServed { action },
        error => error,
    }
}

/// Whether a 404 is about the object: without the definition of Frameworks, none can be found.
fn is_about(status: &kube::core::Status, name: &str) -> bool {
    status.details.as_ref().is_some_and(|details| details.name == name)
}

/// The named Frameworks, or those of the list that is asked for, each as `keep` leaves it. Fails if none of
/// the named ones can be shown.
pub async fn asked(cluster: &Cluster, asked: &Get, keep: fn(Found) -> Found) -> Result<Listed, Error> {
    if asked.name.is_empty() {
        return all(cluster, asked, keep).await;
    }
    let mut answers = Vec::new();
    for name in &asked.name {
        match one(cluster, name).await {
            Err(error) if is_about_all(&error) => return Err(error),
            answer => answers.push(answer.map(keep)),
        }
    }
    Listed::named(answers)
}

/// Whether the next Framework would meet the same error.
fn is_about_all(error: &Error) -> bool {
    match error {
        Error::Request { source, .. } => !matches!(**source, kube::Error::Api(_)),
        error => matches!(error, Error::NotServed { .. }),
    }
}

/// The Frameworks of the list that is asked for.
async fn all(cluster: &Cluster, asked: &Get, keep: fn(Found) -> Found) -> Result<Listed, Error> {
    let what = if asked.all_namespaces {
        "the Frameworks of all namespaces".to_owned()
    } else {
        format!("the Frameworks of the namespace {:?}", cluster.namespace)
    };
    let labels = cluster::with_labels(asked.selector.as_deref());
    let read = |object| Found::of(object).map(keep);
    let listed = cluster.each(&api(cluster, asked.all_namespaces), labels, &what, read).await;
    Ok(Listed::of(listed.map_err(or_not_served)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::found;

    #[test]
    fn frameworks_that_cannot_be_read_hide_no_other() {
        let good = found("running.yaml").stored;
        let (mut bad, mut damaged) = (good.clone(), good.clone());
        bad["metadata"]["name"] = json!("bad");
        bad["status"]["attemptStatus"]["id"] = json!("no number");
        damaged["status"]["attemptStatus"]["taskRoleStatuses"] = Value::Null;
        damaged["status"]["attemptStatus"]["taskRoleStatusesCompressed"] = json!("?");
        let listed = Listed::of([bad, damaged, good.clone()].map(Found::of).into());
        assert_eq!(listed.found.iter().map(Found::name).collect::<Vec<_>>(), ["train"]);
        let error = listed.answer("a table\n".to_owned()).unwrap_err();
        assert_eq!(error.output(), "a table\n");
        let messages = error.messages();
        let [bad, damaged] = &messages[..] else { panic!("one for each: {messages:?}") };
        let begin = "cannot read the Framework \"bad\" in the namespace \"team\": ";
        assert!(bad.starts_with(begin), "{bad}");
        let begin = "the status of the Framework \"train\" in the namespace \"team\" is damaged: ";
        assert!(damaged.starts_with(begin), "{damaged}");
        assert_eq!(Listed::of(vec![Found::of(good)]).answer("t".to_owned()).unwrap(), "t");
    }

    #[test]
    fn a_list_of_which_nothing_can_be_read_is_not_called_empty() {
        let missing = |name: &str| Error::NotFound { namespace: "team".to_owned(), name: name.to_owned() };
        let listed = Listed::of(vec![Err(missing("a"))]);
        assert_eq!(listed.answer("No Frameworks found.\n".to_owned()).unwrap_err().output(), "");
        let none = Listed::named(vec![Err(missing("a")), Err(missing("b"))]).unwrap_err().messages();
        let name = |name: &str| format!("there is no Framework {name:?} in the namespace \"team\"");
        assert_eq!(none, [name("a"), name("b")]);
        let some = Listed::named(vec![Err(missing("a")), Ok(found("running.yaml"))]).unwrap();
        assert_eq!((some.found.len(), some.unreadable.len()), (1, 1));
    }

    #[test]
    fn a_time_in_managed_fields_that_no_type_holds_hides_no_framework() {
        let mut object = found("running.yaml").stored;
        object["metadata"]["managedFields"] = json!([{"manager": "m", "time": "9999-12-31T23:59:59Z"}]);
        assert!(serde_json::from_value::<DynamicObject>(object.clone()).is_err(), "a type that holds it");
        assert_eq!(Found::of(object).unwrap().name(), "train");
    }
}
