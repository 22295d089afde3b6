//! Which job a Pod uses a quota for, by the UIDs of its owners.
//!
//! A Pod of a Framework is controlled by the ConfigMap of an attempt, which the Framework controls. A Pod of
//! a Job is controlled by the Job, which a JobSet may control. Labels, annotations and names decide nothing:
//! a user can copy them.
//!
//! A Pod whose owners are not all known is of no job, so that it counts as others' use. Its job may reserve
//! the same amount meanwhile: counted twice it delays a release, counted by nobody it would exceed the quota.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use framework_message::{Change, Key};

use crate::object::{AttemptObject, ChildJobObject, OwnerLink};
use crate::store::{Store, Stored};

/// The objects between Pods and jobs.
#[derive(Debug, Default)]
pub struct Owners {
    attempts: Store<AttemptObject>,
    child_jobs: Store<ChildJobObject>,
    /// The controller of each of them, by namespace and UID.
    controllers: BTreeMap<Key, Key>,
    /// Namespace and UID of each object that is shown.
    uids: BTreeMap<(Kind, Key), Key>,
    /// Jobs, by namespace and UID.
    jobs: BTreeSet<Key>,
    /// Pods by their controller.
    pods: BTreeMap<Key, BTreeSet<Key>>,
    controller_of: BTreeMap<Key, Key>,
}

/// A kind of object between Pods and jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Attempt,
    ChildJob,
}

impl Owners {
    /// Whether each kind was listed.
    pub fn is_synced(&self) -> bool {
        self.attempts.is_synced() && self.child_jobs.is_synced()
    }

    /// Takes in a change of a ConfigMap. Returns the Pods that may belong to another job now.
    pub fn apply_attempt(&mut self, change: Change<AttemptObject>) -> Vec<Key> {
        let changed = self.attempts.apply(change);
        let links = changed.into_iter().map(|key| {
            let link = self.attempts.get(&key).map(|object| object.0.clone());
            (key, link)
        });
        links
            .collect::<Vec<_>>()
            .into_iter()
            .flat_map(|(key, link)| self.link(Kind::Attempt, key, link))
            .collect()
    }

    /// As [`Owners::apply_attempt`], for a Job of a JobSet.
    pub fn apply_child_job(&mut self, change: Change<ChildJobObject>) -> Vec<Key> {
        let changed = self.child_jobs.apply(change);
        let links = changed.into_iter().map(|key| {
            let link = self.child_jobs.get(&key).map(|object| object.0.clone());
            (key, link)
        });
        links
            .collect::<Vec<_>>()
            .into_iter()
            .flat_map(|(key, link)| self.link(Kind::ChildJob, key, link))
            .collect()
    }

    fn link(&mut self, kind: Kind, key: Key, link: Option<OwnerLink>) -> BTreeSet<Key> {
        let namespace = Arc::clone(&key.namespace);
        let of = |uid: &Arc<str>| Key { namespace: Arc::clone(&namespace), name: Arc::clone(uid) };
        let now = link.as_ref().map(|link| of(&link.uid));
        let before = match &now {
            Some(now) => self.uids.insert((kind, key), now.clone()),
            None => self.uids.remove(&(kind, key)),
        };
        if let Some(before) = &before {
            self.controllers.remove(before);
        }
        if let Some((uid, controller)) = now.as_ref().zip(link.and_then(|link| link.controller)) {
            self.controllers.insert(uid.clone(), of(&controller));
        }
        let pods = [before, now].into_iter().flatten().filter_map(|uid| self.pods.get(&uid));
        pods.flatten().cloned().collect()
    }

    /// A Job with this UID is known, or no longer. Returns its Pods.
    pub fn set_job(&mut self, uid: &Key, is_known: bool) -> BTreeSet<Key> {
        let is_news = if is_known { self.jobs.insert(uid.clone()) } else { self.jobs.remove(uid) };
        self.pods.get(uid).filter(|_| is_news).cloned().unwrap_or_default()
    }

    /// A Pod has this controller, by namespace and UID; `None`: none, or the Pod is gone.
    pub fn set_pod(&mut self, pod: &Key, controller: Option<Key>) {
        let before = match &controller {
            Some(controller) => self.controller_of.insert(pod.clone(), controller.clone()),
            None => self.controller_of.remove(pod),
        };
        if before == controller {
            return;
        }
        if let Some(before) = before
            && let Some(pods) = self.pods.get_mut(&before)
        {
            pods.remove(pod);
            if pods.is_empty() {
                self.pods.remove(&before);
            }
        }
        if let Some(controller) = controller {
            self.pods.entry(controller).or_default().insert(pod.clone());
        }
    }

    /// The job that a Pod belongs to, by namespace and UID; `None`: that is not known.
    pub fn job_of(&self, pod: &Key) -> Option<Key> {
        let controller = self.controller_of.get(pod)?;
        self.controllers.get(controller).or_else(|| self.jobs.get(controller)).cloned()
    }
}

impl Stored for AttemptObject {
    fn key(&self) -> &Key {
        &self.0.key
    }

    fn version(&self) -> u128 {
        self.0.resource_version
    }
}

impl Stored for ChildJobObject {
    fn key(&self) -> &Key {
        &self.0.key
    }

    fn version(&self) -> u128 {
        self.0.resource_version
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Key {
        Key::new("ns", name)
    }

    fn link(name: &str, version: u128, uid: &str, controller: &str) -> OwnerLink {
        let controller = Some(controller.into()).filter(|uid: &Arc<str>| !uid.is_empty());
        OwnerLink { key: key(name), resource_version: version, uid: uid.into(), controller }
    }

    #[test]
    fn a_pod_belongs_to_the_framework_that_controls_its_config_map() {
        let mut owners = Owners::default();
        owners.set_pod(&key("pod"), Some(key("map")));
        assert_eq!(owners.job_of(&key("pod")), None, "the ConfigMap is not seen yet");
        let shown = Change::Applied(AttemptObject(link("a-attempt", 1, "map", "framework")));
        assert_eq!(owners.apply_attempt(shown), [key("pod")]);
        assert_eq!(owners.job_of(&key("pod")), Some(key("framework")));
        let another = Change::Applied(AttemptObject(link("a-attempt", 2, "other", "framework")));
        assert_eq!(owners.apply_attempt(another), [key("pod")]);
        assert_eq!(owners.job_of(&key("pod")), None, "the next attempt has the name");
    }

    #[test]
    fn a_pod_of_a_job_set_belongs_to_it_and_one_of_a_known_job_to_the_job() {
        let mut owners = Owners::default();
        for pod in ["set-pod", "job-pod", "stranger"] {
            owners.set_pod(&key(pod), Some(key(&format!("{pod}-job"))));
        }
        owners.apply_child_job(Change::Applied(ChildJobObject(link("child", 1, "set-pod-job", "set"))));
        assert_eq!(owners.set_job(&key("job-pod-job"), true), [key("job-pod")].into());
        let jobs = ["set-pod", "job-pod", "stranger"].map(|pod| owners.job_of(&key(pod)));
        assert_eq!(jobs, [Some(key("set")), Some(key("job-pod-job")), None]);
        owners.set_job(&key("job-pod-job"), false);
        assert_eq!(owners.job_of(&key("job-pod")), None);
    }

    #[test]
    fn a_uid_counts_in_its_own_namespace_only() {
        let mut owners = Owners::default();
        owners.apply_attempt(Change::Applied(AttemptObject(link("a-attempt", 1, "map", "framework"))));
        let elsewhere = Key::new("elsewhere", "pod");
        owners.set_pod(&elsewhere, Some(Key::new("elsewhere", "map")));
        assert_eq!(owners.job_of(&elsewhere), None);
    }
}
