//! The API server of the scripted cluster: the effect of a request, and the reply to it.

use std::sync::Arc;

use framework_api::{Framework, FrameworkStatus};
use framework_core::Action;
use framework_core::observed::{ConfigMapFacts, Deletion, Instance, PodFacts, PodPhase};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::cluster::{Cluster, name_of, namespace, not_found, pod_of, refusal};
use crate::event::Event;
use crate::object::{ConfigMapObject, Object, PodObject, Reply};
use crate::request::Request;
use framework_message::{Change, Key};

impl Cluster {
    /// Performs a request as the API server does.
    pub fn perform(&mut self, request: &Request) -> Reply {
        match request {
            Request::PutStatus { framework, resource_version, status, .. } => {
                self.put_status(&name_of(framework), *resource_version, status)
            }
            Request::GetFramework { key } => self
                .frameworks
                .get(&*key.name)
                .map_or_else(not_found, |object| Reply::Object(Object::Framework(object.clone()))),
            Request::GetHolder { key, action } => match pod_of(action) {
                Some(pod) => self.get_pod(pod),
                None => self.get_config_map(&key.name),
            },
            Request::PatchConditions { framework, conditions, .. } => {
                self.patch_conditions(&name_of(framework), conditions)
            }
            Request::RestoreLabel { pod, .. } => {
                let name = pod.as_ref().unwrap();
                let label = self.slot(&self.pods[name].key.name);
                self.pods.get_mut(name).unwrap().label = label;
                self.change_pod(name, |_| ());
                self.get_pod(name)
            }
            Request::Act { framework, action, .. } => self.act(framework, action),
            Request::AskTime => Reply::Done,
        }
    }

    fn put_status(&mut self, name: &str, guard: u128, status: &Arc<FrameworkStatus>) -> Reply {
        let version = self.version();
        let Some(object) = self.frameworks.get_mut(name) else { return not_found() };
        if object.resource_version != guard {
            return refusal(409, "Conflict", "the object has been modified");
        }
        object.resource_version = version;
        object.content.as_mut().unwrap().1 = Some(Arc::clone(status));
        object.form.bytes = serde_json::to_vec(&**status).unwrap().len();
        self.watch.push_back(Event::Framework(Change::Applied(object.clone())));
        Reply::Object(Object::Framework(object.clone()))
    }

    fn patch_conditions(&mut self, name: &str, conditions: &[Condition]) -> Reply {
        let version = self.version();
        let Some(object) = self.frameworks.get_mut(name) else { return not_found() };
        object.resource_version = version;
        match &mut object.content {
            Ok((_, status)) => Arc::make_mut(status.as_mut().unwrap()).conditions = conditions.to_vec(),
            Err(unreadable) => unreadable.conditions = Some(conditions.to_vec()),
        }
        self.watch.push_back(Event::Framework(Change::Applied(object.clone())));
        Reply::Done
    }

    fn get_pod(&self, name: &str) -> Reply {
        self.pods.get(name).map_or_else(not_found, |pod| Reply::Object(Object::Pod(pod.clone())))
    }

    fn get_config_map(&self, name: &str) -> Reply {
        self.config_maps.get(name).map_or_else(not_found, |map| Reply::Object(Object::ConfigMap(map.clone())))
    }

    fn act(&mut self, framework: &Framework, action: &Action) -> Reply {
        let own = name_of(framework);
        match action {
            Action::CreateConfigMap { .. } => {
                if self.config_maps.contains_key(&own) {
                    return refusal(409, "AlreadyExists", "the ConfigMap exists");
                }
                let facts = ConfigMapFacts {
                    uid: self.uid("map"),
                    framework_uid: framework.metadata.uid.clone(),
                    deleting: false,
                };
                let resource_version = self.version();
                let map = ConfigMapObject {
                    key: Key::new(namespace(&own), &own),
                    resource_version,
                    facts,
                    label: self.slot(&own),
                };
                self.config_maps.insert(own, map.clone());
                self.watch.push_back(Event::ConfigMap(Change::Applied(map.clone())));
                Reply::Object(Object::ConfigMap(map))
            }
            Action::CreatePod { name, instance, .. } => {
                let Instance::TaskAttempt { config_map_uid, .. } = instance else {
                    panic!("a Pod for {instance:?}")
                };
                if self.pods.contains_key(name) {
                    return refusal(409, "AlreadyExists", "the Pod exists");
                }
                Reply::Object(Object::Pod(self.make_pod(&own, name, config_map_uid)))
            }
            Action::DeleteConfigMap { uid } => {
                let Some(map) = self.config_maps.remove(&own).filter(|map| map.facts.uid == *uid) else {
                    return not_found();
                };
                let resource_version = self.version();
                // Nothing holds it back: the event shows it as it was.
                let gone = ConfigMapObject { resource_version, ..map };
                self.watch.push_back(Event::ConfigMap(Change::Deleted(gone)));
                Reply::Done
            }
            Action::DeletePod { name, uid, .. } => {
                let Some(pod) = self.pods.get(name) else { return not_found() };
                if pod.facts.uid != *uid {
                    let why = "Precondition failed: UID in precondition: a, UID in object meta: b";
                    return refusal(409, "Conflict", why);
                }
                let at = self.server_time();
                self.change_pod(name, |pod| pod.deletion = Some(Deletion { at, grace_sec: 0 }));
                self.remove_pod(name);
                Reply::Done
            }
            Action::ConfirmPod { name, .. } => self.get_pod(name),
            Action::ConfirmConfigMap { .. } => self.get_config_map(&own),
            Action::DeleteFramework => {
                let object = self.frameworks.remove(&own).unwrap();
                self.watch.push_back(Event::Framework(Change::Deleted(object)));
                Reply::Done
            }
        }
    }

    /// Another client creates a Pod.
    pub fn make_pod(&mut self, framework: &str, name: &str, config_map_uid: &str) -> PodObject {
        let facts = PodFacts::new(self.uid("pod"), config_map_uid, PodPhase::Pending);
        let (key, resource_version) = (Key::new(namespace(framework), framework), self.version());
        let label = self.slot(framework);
        let pod = PodObject { key, name: name.to_owned(), resource_version, facts, label, last: None };
        self.pods.insert(name.to_owned(), pod.clone());
        self.watch.push_back(Event::Pod(Change::Applied(pod.clone())));
        pod
    }
}
