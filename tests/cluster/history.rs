//! The history of one namespace: its objects, by watches that miss nothing, and the requests, by the audit
//! log.
//!
//! Versions are resourceVersions. The whole cluster counts them with one counter, so that they order events
//! across kinds. The watches and not the audit log say which objects were written. A request that lost its
//! sender may have been carried out and yet stand in the log as failed.

use std::collections::BTreeMap;

use framework_api::{Framework, FrameworkStatus};
use framework_testcluster::audit::Record;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::Resource;
use kube::api::{DynamicObject, ObjectMeta};
use serde::de::DeserializeOwned;

use super::checkers;

/// One change of one object.
#[derive(Clone, Debug)]
pub struct Change {
    /// The version that it led to.
    pub version: u64,
    /// The kind of the change.
    pub what: What,
    /// The object as it is since; one that is gone, as it was last.
    pub object: Object,
}

/// The kind of a change of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// It was created.
    Created,
    /// It was changed.
    Changed,
    /// It is gone.
    Gone,
}

/// An object of a kind that is recorded.
#[derive(Clone, Debug)]
pub enum Object {
    /// A Framework.
    Framework(Box<Framework>),
    /// A ConfigMap.
    ConfigMap(Box<ConfigMap>),
    /// A Pod.
    Pod(Box<Pod>),
    /// An object of another kind, of queues or a Lease, with the plural of its kind.
    Other(&'static str, Box<DynamicObject>),
}

impl Object {
    /// Reads an object of that kind.
    pub fn read(plural: &'static str, object: DynamicObject) -> Object {
        match plural {
            "frameworks" => opened(parsed(object)),
            "configmaps" => Object::ConfigMap(Box::new(parsed(object))),
            "pods" => Object::Pod(Box::new(parsed(object))),
            _ => Object::Other(plural, Box::new(object)),
        }
    }

    /// Its metadata.
    pub fn metadata(&self) -> &ObjectMeta {
        match self {
            Object::Framework(framework) => &framework.metadata,
            Object::ConfigMap(config_map) => &config_map.metadata,
            Object::Pod(pod) => &pod.metadata,
            Object::Other(_, object) => &object.metadata,
        }
    }
}

fn parsed<K: DeserializeOwned>(object: DynamicObject) -> K {
    let object = serde_json::to_value(object).expect("an object is plain data");
    serde_json::from_value(object).expect("the API server stores what is valid")
}

impl Change {
    /// Whether only the controller makes such changes: it has got one step further.
    pub fn is_step(&self) -> bool {
        match self.object {
            Object::Framework(_) => self.what == What::Changed,
            Object::ConfigMap(_) | Object::Pod(_) => self.what != What::Changed,
            Object::Other(..) => false,
        }
    }
}

/// The recorded history.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// The versions of Frameworks, oldest first.
    pub frameworks: Vec<(u64, Framework)>,
    /// When Frameworks were gone, and their UIDs.
    pub ends: Vec<(u64, String)>,
    /// The lives of ConfigMaps, oldest first.
    pub config_maps: Vec<Life>,
    /// The lives of Pods, oldest first.
    pub pods: Vec<Life>,
    /// Every request about the namespace.
    pub requests: Vec<Record>,
    /// How many changes only the controller can have made.
    pub steps: usize,
    /// All of it in the form of the checkers; empty for a part of a history.
    pub recorded: framework_sim::History,
}

/// An object from its creation to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Life {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// Its annotations when it was created.
    pub annotations: BTreeMap<String, String>,
    /// When it was created.
    pub created: u64,
    /// When it ended by itself, as Pods do.
    pub ended: Option<u64>,
    /// When its deletion was first seen: being deleted, or gone.
    pub deleted: Option<u64>,
    /// When it was gone.
    pub gone: Option<u64>,
}

impl Life {
    /// An annotation that every object of the controller has.
    pub fn annotation(&self, name: &str) -> &str {
        self.annotations.get(name).map_or("", String::as_str)
    }
}

/// A Framework with its status readable.
fn opened(mut framework: Framework) -> Object {
    if let Some(status) = &mut framework.status {
        status.decompress().expect("the controller writes what can be read");
    }
    Object::Framework(framework.into())
}

impl History {
    /// The history of all changes in the order of their versions, and of all requests.
    pub fn complete(changes: Vec<Change>, requests: Vec<Record>) -> History {
        let recorded = checkers::recorded(&changes, &requests);
        History { requests, recorded, ..History::of(changes) }
    }

    /// The history that some changes in the order of their versions make.
    pub fn of(changes: Vec<Change>) -> History {
        let steps = changes.iter().filter(|change| change.is_step()).count();
        let mut history = History { steps, ..History::default() };
        for Change { version, what, object } in changes {
            match object {
                Object::Framework(framework) if what != What::Gone => {
                    history.frameworks.push((version, *framework));
                }
                Object::Framework(framework) => {
                    history.ends.push((version, framework.metadata.uid.expect("an object has a UID")));
                }
                Object::ConfigMap(config_map) => {
                    live(&mut history.config_maps, version, what, &*config_map, false)
                }
                Object::Pod(pod) => {
                    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
                    let ended = phase.is_some_and(|phase| ["Succeeded", "Failed"].contains(&phase));
                    live(&mut history.pods, version, what, &*pod, ended);
                }
                Object::Other(..) => {}
            }
        }
        history
    }

    /// Every status that was written, with its version, oldest first.
    pub fn statuses(&self) -> impl Iterator<Item = (u64, &str, &FrameworkStatus)> {
        self.frameworks.iter().filter_map(|(version, framework)| {
            Some((*version, framework.metadata.uid.as_deref()?, framework.status.as_ref()?))
        })
    }

    /// Asserts that the promises that hold for every behaviour of users were kept.
    pub fn assert_promises_are_kept(&self) {
        assert_none(&checkers::broken_promises(&self.recorded));
    }

    /// Asserts that the manual's guarantees were kept, too.
    pub fn assert_guarantees_are_kept(&self) {
        self.assert_promises_are_kept();
        assert_none(&checkers::broken_guarantees(&self.recorded));
    }
}

fn assert_none(breaches: &[String]) {
    assert!(breaches.is_empty(), "{} breaches:\n{}", breaches.len(), breaches.join("\n"));
}

/// Adds a change of an object to its life.
fn live<K: Resource>(lives: &mut Vec<Life>, version: u64, what: What, object: &K, ended: bool) {
    let meta = object.meta();
    let uid = meta.uid.clone().expect("an object has a UID");
    if what == What::Created {
        let (name, annotations) =
            (meta.name.clone().expect("a name"), meta.annotations.clone().unwrap_or_default());
        let (uid, created) = (uid.clone(), version);
        lives.push(Life { name, uid, annotations, created, ended: None, deleted: None, gone: None });
    }
    let life = lives.iter_mut().find(|life| life.uid == uid).expect("what changes was created");
    if ended && what != What::Gone {
        life.ended.get_or_insert(version);
    }
    if meta.deletion_timestamp.is_some() || what == What::Gone {
        life.deleted.get_or_insert(version);
    }
    if what == What::Gone {
        life.gone = Some(version);
    }
}
