//! Which job a Pod uses a quota for, by the UIDs of its owners.
//!
//! A Pod of a Framework is controlled by the ConfigMap of an attempt, which the Framework controls. A Pod of
//! a Job is controlled by the Job, which a job of another kind may control. Annotations and names decide
//! nothing: a user can copy them. A label with the UID of the job counts only where the owners lead to no
//! known job, because an operator has an object of its own between both, such as a RayCluster.
//!
//! A Pod whose owners are not all known is of no job, so that it counts as others' use. Its job may reserve
//! the same amount meanwhile: counted twice it delays a release, counted by nobody it would exceed the quota.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use framework_message::{Change, Key};

use crate::object::OwnerLink;
use crate::store::{Store, Stored};

/// A kind of objects between Pods and jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Between {
    /// The ConfigMap of an attempt with the label of a queue. A Framework controls it.
    Attempt,
    /// A batch/v1 Job that another object controls, such as a JobSet, or the launcher of an MPIJob.
    Job,
}

/// The objects that a Pod names, by namespace and UID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// The object that controls it.
    pub controller: Key,
    /// The job that its label names.
    pub consumer: Option<Key>,
}

impl Named {
    fn uids(&self) -> impl Iterator<Item = &Key> {
        [&self.controller].into_iter().chain(&self.consumer)
    }
}

/// The objects between Pods and jobs.
#[derive(Debug, Default)]
pub struct Owners {
    attempts: Store<OwnerLink>,
    /// The controller of each object between, by namespace and UID.
    controllers: BTreeMap<Key, Key>,
    /// Namespace and UID of each of them.
    uids: BTreeMap<(Between, Key), Key>,
    /// Jobs, by namespace and UID.
    jobs: BTreeSet<Key>,
    /// Pods by the UIDs that they name.
    pods: BTreeMap<Key, BTreeSet<Key>>,
    named: BTreeMap<Key, Named>,
}

impl Owners {
    /// Whether the ConfigMaps were listed.
    pub fn is_synced(&self) -> bool {
        self.attempts.is_synced()
    }

    /// Takes in a change of the ConfigMap of an attempt. Returns the Pods that may belong to another job now.
    pub fn apply(&mut self, change: Change<OwnerLink>) -> BTreeSet<Key> {
        let attempts = &mut self.attempts;
        let of = |link: &OwnerLink| Some((Arc::clone(&link.uid), link.controller.clone()?));
        let changed = attempts.apply(change).into_iter();
        let changed: Vec<_> = changed.map(|key| (attempts.get(&key).and_then(of), key)).collect();
        changed.into_iter().flat_map(|(link, key)| self.link(Between::Attempt, key, link)).collect()
    }

    /// The Job of that name has this UID, and an object with that UID controls it; `None`: it is no such Job.
    /// Returns the Pods that may belong to another job now.
    pub fn set_part(&mut self, key: Key, link: Option<(Arc<str>, Arc<str>)>) -> BTreeSet<Key> {
        self.link(Between::Job, key, link)
    }

    fn link(&mut self, kind: Between, key: Key, link: Option<(Arc<str>, Arc<str>)>) -> BTreeSet<Key> {
        let namespace = Arc::clone(&key.namespace);
        let of = |uid: Arc<str>| Key { namespace: Arc::clone(&namespace), name: uid };
        let link = link.map(|(uid, controller)| (of(uid), of(controller)));
        let before = match &link {
            Some((now, _)) => self.uids.insert((kind, key), now.clone()),
            None => self.uids.remove(&(kind, key)),
        };
        if let Some(before) = &before {
            self.controllers.remove(before);
        }
        let now = link.as_ref().map(|(uid, _)| uid.clone());
        self.controllers.extend(link);
        let pods = [before, now].into_iter().flatten().filter_map(|uid| self.pods.get(&uid));
        pods.flatten().cloned().collect()
    }

    /// A job with this UID is known, or no longer. Returns its Pods.
    pub fn set_job(&mut self, uid: &Key, is_known: bool) -> BTreeSet<Key> {
        let is_news = if is_known { self.jobs.insert(uid.clone()) } else { self.jobs.remove(uid) };
        self.pods.get(uid).filter(|_| is_news).cloned().unwrap_or_default()
    }

    /// A Pod names these objects; `None`: it has no controller, or is gone.
    pub fn set_pod(&mut self, pod: &Key, named: Option<Named>) {
        let before = match &named {
            Some(named) => self.named.insert(pod.clone(), named.clone()),
            None => self.named.remove(pod),
        };
        if before == named {
            return;
        }
        for uid in before.iter().flat_map(Named::uids) {
            if let Some(pods) = self.pods.get_mut(uid) {
                pods.remove(pod);
                if pods.is_empty() {
                    self.pods.remove(uid);
                }
            }
        }
        for uid in named.iter().flat_map(Named::uids) {
            self.pods.entry(uid.clone()).or_default().insert(pod.clone());
        }
    }

    /// The job that a Pod belongs to, by namespace and UID; `None`: that is not known.
    pub fn job_of(&self, pod: &Key) -> Option<Key> {
        let Named { controller, consumer } = self.named.get(pod)?;
        let by_owner = self.controllers.get(controller).or_else(|| self.jobs.get(controller));
        let by_label = || self.jobs.get(consumer.as_ref()?);
        let is_known = by_owner.is_some_and(|job| self.jobs.contains(job));
        let job = if is_known { by_owner } else { by_label().or(by_owner) };
        job.cloned()
    }
}

impl Stored for OwnerLink {
    fn key(&self) -> &Key {
        &self.key
    }

    fn version(&self) -> u128 {
        self.resource_version
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Key {
        Key::new("ns", name)
    }

    fn by(controller: Key) -> Option<Named> {
        Some(Named { controller, consumer: None })
    }

    fn part(uid: &str, controller: &str) -> Option<(Arc<str>, Arc<str>)> {
        Some((uid.into(), controller.into()))
    }

    fn link(name: &str, version: u128, uid: &str, controller: &str) -> OwnerLink {
        let controller = Some(controller.into()).filter(|uid: &Arc<str>| !uid.is_empty());
        OwnerLink { key: key(name), resource_version: version, uid: uid.into(), controller }
    }

    #[test]
    fn a_pod_belongs_to_the_framework_that_controls_its_config_map() {
        let mut owners = Owners::default();
        owners.set_pod(&key("pod"), by(key("map")));
        assert_eq!(owners.job_of(&key("pod")), None, "the ConfigMap is not seen yet");
        let shown = Change::Applied(link("a-attempt", 1, "map", "framework"));
        assert_eq!(owners.apply(shown), [key("pod")].into());
        assert_eq!(owners.job_of(&key("pod")), Some(key("framework")));
        let another = Change::Applied(link("a-attempt", 2, "other", "framework"));
        assert_eq!(owners.apply(another), [key("pod")].into());
        assert_eq!(owners.job_of(&key("pod")), None, "the next attempt has the name");
    }

    #[test]
    fn a_pod_of_a_job_set_belongs_to_it_and_one_of_a_known_job_to_the_job() {
        let mut owners = Owners::default();
        for pod in ["set-pod", "job-pod", "stranger"] {
            owners.set_pod(&key(pod), by(key(&format!("{pod}-job"))));
        }
        owners.set_job(&key("set-pod-job"), true);
        owners.set_part(key("child"), part("set-pod-job", "set"));
        assert_eq!(owners.set_job(&key("job-pod-job"), true), [key("job-pod")].into());
        let jobs = ["set-pod", "job-pod", "stranger"].map(|pod| owners.job_of(&key(pod)));
        assert_eq!(jobs, [Some(key("set")), Some(key("job-pod-job")), None]);
        owners.set_job(&key("job-pod-job"), false);
        assert_eq!(owners.job_of(&key("job-pod")), None);
    }

    #[test]
    fn a_pod_of_a_launcher_belongs_to_the_job_that_controls_its_job() {
        let mut owners = Owners::default();
        owners.set_pod(&key("launcher-0"), by(key("job")));
        owners.set_job(&key("job"), true);
        assert_eq!(owners.set_part(key("launcher"), part("job", "mpi")), [key("launcher-0")].into());
        assert_eq!(owners.job_of(&key("launcher-0")), Some(key("mpi")));
        // Once it waits in a queue itself, it is a job of its own.
        assert_eq!(owners.set_part(key("launcher"), None), [key("launcher-0")].into());
        assert_eq!(owners.job_of(&key("launcher-0")), Some(key("job")));
        assert_eq!(owners.set_job(&key("job"), false), [key("launcher-0")].into());
        assert_eq!(owners.job_of(&key("launcher-0")), None, "its owners are not all known");
    }

    #[test]
    fn a_label_counts_where_the_owners_lead_to_no_known_job() {
        let mut owners = Owners::default();
        let pod = Named { controller: key("cluster"), consumer: Some(key("ray")) };
        owners.set_pod(&key("head"), Some(pod.clone()));
        assert_eq!(owners.job_of(&key("head")), None, "nor is the job known");
        assert_eq!(owners.set_job(&key("ray"), true), [key("head")].into());
        assert_eq!(owners.job_of(&key("head")), Some(key("ray")));
        // Its controller turns out to be another job.
        owners.set_job(&key("cluster"), true);
        assert_eq!(owners.job_of(&key("head")), Some(key("cluster")));
        owners.set_job(&key("cluster"), false);
        owners.set_pod(&key("head"), None);
        assert_eq!(owners.job_of(&key("head")), None);
        assert!(owners.pods.is_empty());
    }

    #[test]
    fn a_uid_counts_in_its_own_namespace_only() {
        let mut owners = Owners::default();
        owners.apply(Change::Applied(link("a-attempt", 1, "map", "framework")));
        let elsewhere = Key::new("elsewhere", "pod");
        owners.set_pod(&elsewhere, by(Key::new("elsewhere", "map")));
        assert_eq!(owners.job_of(&elsewhere), None);
    }
}
