//! Which job a Pod uses a quota for, by the UIDs of its owners.
//!
//! A Pod of a Framework is controlled by the ConfigMap of an attempt, which the Framework controls. A Pod of
//! a Job is controlled by the Job, which a JobSet may control, or a job of another kind. Labels, annotations
//! and names decide nothing: a user can copy them.
//!
//! A Pod whose owners are not all known is of no job, so that it counts as others' use. Its job may reserve
//! the same amount meanwhile: counted twice it delays a release, counted by nobody it would exceed the quota.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use framework_message::{Change, Key};

use crate::object::{OwnerKind, OwnerLink};
use crate::store::{Store, Stored};

/// The objects between Pods and jobs.
#[derive(Debug, Default)]
pub struct Owners {
    links: BTreeMap<OwnerKind, Store<OwnerLink>>,
    /// The kind and the controller of each of them, by namespace and UID.
    controllers: BTreeMap<Key, (OwnerKind, Key)>,
    /// Namespace and UID of each object that is shown.
    uids: BTreeMap<(OwnerKind, Key), Key>,
    /// Jobs, by namespace and UID.
    jobs: BTreeSet<Key>,
    /// Pods by their controller.
    pods: BTreeMap<Key, BTreeSet<Key>>,
    controller_of: BTreeMap<Key, Key>,
}

impl Owners {
    /// Whether each kind was listed that every cluster has. The Jobs of operators are watched only where
    /// there are such operators.
    pub fn is_synced(&self) -> bool {
        let is_synced = |kind| self.links.get(&kind).is_some_and(Store::is_synced);
        is_synced(OwnerKind::Attempt) && is_synced(OwnerKind::JobOfJobSet)
    }

    /// Takes in a change of an object between. Returns the Pods that may belong to another job now.
    pub fn apply(&mut self, kind: OwnerKind, change: Change<OwnerLink>) -> BTreeSet<Key> {
        let store = self.links.entry(kind).or_default();
        let changed: Vec<_> =
            store.apply(change).into_iter().map(|key| (store.get(&key).cloned(), key)).collect();
        changed.into_iter().flat_map(|(link, key)| self.link(kind, key, link)).collect()
    }

    fn link(&mut self, kind: OwnerKind, key: Key, link: Option<OwnerLink>) -> BTreeSet<Key> {
        let namespace = Arc::clone(&key.namespace);
        let of = |uid: &Arc<str>| Key { namespace: Arc::clone(&namespace), name: Arc::clone(uid) };
        let now = link.as_ref().map(|link| of(&link.uid));
        let before = match &now {
            Some(now) => self.uids.insert((kind, key), now.clone()),
            None => self.uids.remove(&(kind, key)),
        };
        // Its labels may have moved it to the other watch of Jobs, which shows it already.
        if let Some(before) =
            before.as_ref().filter(|uid| self.controllers.get(uid).is_some_and(|(of, _)| *of == kind))
        {
            self.controllers.remove(before);
        }
        if let Some((uid, controller)) = now.as_ref().zip(link.and_then(|link| link.controller)) {
            self.controllers.insert(uid.clone(), (kind, of(&controller)));
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

    /// The job that a Pod belongs to, by namespace and UID; `None`: that is not known. A Job that itself
    /// waits in a queue is the job, even if a controller of another kind made it.
    pub fn job_of(&self, pod: &Key) -> Option<Key> {
        let controller = self.controller_of.get(pod)?;
        let is_job = self.jobs.contains(controller);
        let (_, owner) = match self.controllers.get(controller) {
            Some((OwnerKind::JobOfOperator, _)) if is_job => return Some(controller.clone()),
            None if is_job => return Some(controller.clone()),
            found => found?,
        };
        Some(owner.clone())
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

    fn link(name: &str, version: u128, uid: &str, controller: &str) -> OwnerLink {
        let controller = Some(controller.into()).filter(|uid: &Arc<str>| !uid.is_empty());
        OwnerLink { key: key(name), resource_version: version, uid: uid.into(), controller }
    }

    #[test]
    fn a_pod_belongs_to_the_framework_that_controls_its_config_map() {
        let mut owners = Owners::default();
        owners.set_pod(&key("pod"), Some(key("map")));
        assert_eq!(owners.job_of(&key("pod")), None, "the ConfigMap is not seen yet");
        let shown = Change::Applied(link("a-attempt", 1, "map", "framework"));
        assert_eq!(owners.apply(OwnerKind::Attempt, shown), [key("pod")].into());
        assert_eq!(owners.job_of(&key("pod")), Some(key("framework")));
        let another = Change::Applied(link("a-attempt", 2, "other", "framework"));
        assert_eq!(owners.apply(OwnerKind::Attempt, another), [key("pod")].into());
        assert_eq!(owners.job_of(&key("pod")), None, "the next attempt has the name");
    }

    #[test]
    fn a_pod_of_a_job_set_belongs_to_it_and_one_of_a_known_job_to_the_job() {
        let mut owners = Owners::default();
        for pod in ["set-pod", "job-pod", "stranger"] {
            owners.set_pod(&key(pod), Some(key(&format!("{pod}-job"))));
        }
        owners.apply(OwnerKind::JobOfJobSet, Change::Applied(link("child", 1, "set-pod-job", "set")));
        assert_eq!(owners.set_job(&key("job-pod-job"), true), [key("job-pod")].into());
        let jobs = ["set-pod", "job-pod", "stranger"].map(|pod| owners.job_of(&key(pod)));
        assert_eq!(jobs, [Some(key("set")), Some(key("job-pod-job")), None]);
        owners.set_job(&key("job-pod-job"), false);
        assert_eq!(owners.job_of(&key("job-pod")), None);
    }

    #[test]
    fn a_pod_of_a_launcher_belongs_to_the_job_that_controls_its_job() {
        let mut owners = Owners::default();
        let (mut pod, launcher) =
            (|pod| owners.set_pod(&key(pod), Some(key("job"))), OwnerKind::JobOfOperator);
        pod("launcher-0");
        let shown = Change::Applied(link("launcher", 1, "job", "mpi"));
        assert_eq!(owners.apply(launcher, shown), [key("launcher-0")].into());
        assert_eq!(owners.job_of(&key("launcher-0")), Some(key("mpi")));
        // A Job in a queue that a CronJob made is a job of its own.
        assert_eq!(owners.set_job(&key("job"), true), [key("launcher-0")].into());
        assert_eq!(owners.job_of(&key("launcher-0")), Some(key("job")));
        owners.set_job(&key("job"), false);
        let gone = Change::Deleted(link("launcher", 2, "job", "mpi"));
        assert_eq!(owners.apply(launcher, gone), [key("launcher-0")].into());
        assert_eq!(owners.job_of(&key("launcher-0")), None, "its owners are not all known");
    }

    #[test]
    fn a_uid_counts_in_its_own_namespace_only() {
        let mut owners = Owners::default();
        owners.apply(OwnerKind::Attempt, Change::Applied(link("a-attempt", 1, "map", "framework")));
        let elsewhere = Key::new("elsewhere", "pod");
        owners.set_pod(&elsewhere, Some(Key::new("elsewhere", "map")));
        assert_eq!(owners.job_of(&elsewhere), None);
    }
}
