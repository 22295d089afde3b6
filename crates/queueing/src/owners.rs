//! Which job a Pod uses a quota for, by the UIDs of its owners.
//!
//! A Pod of a Framework is controlled by the ConfigMap of an attempt, which the Framework controls. A Pod of
//! a Job is controlled by the Job, which a job of another kind may control. That may be a JobSet, which a
//! TrainJob controls. The outermost of them that is a known job has the Pod. Annotations and names decide
//! nothing: a user can copy them. A label with the UID of the job counts only where the owners lead to no
//! known job, nor to a Framework. It is for operators that have an object of their own between both, such as
//! a RayCluster. Of the jobs of other operators it proves nothing.
//!
//! A Pod whose owners are not all known is of no job, so that it counts as others' use. Its job may reserve
//! the same amount meanwhile: counted twice it delays a release, counted by nobody it would exceed the quota.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use framework_message::{Change, Key, SlotSelection};

use crate::consumer::JobKind;
use crate::object::OwnerLink;
use crate::store::Store;
use crate::units_by_job::drop_from;

/// How many owners of a Pod count: a Job, its JobSet, and the TrainJob of that.
const OWNERS: usize = 3;

/// A kind of objects between Pods and jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Between {
    /// The ConfigMap of an attempt with the label of a queue. A Framework controls it.
    Attempt,
    /// A batch/v1 Job that another object controls, such as a JobSet, or the launcher of an MPIJob.
    Job,
    /// A JobSet that another object controls, such as a TrainJob.
    JobSet,
}

impl Between {
    /// The kind of jobs that may be parts of others; `None`: it is none of these.
    pub fn of(kind: &JobKind) -> Option<Self> {
        let job_set = || kind.is_job_set().then_some(Between::JobSet);
        kind.is_job().then_some(Between::Job).or_else(job_set)
    }
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
    /// The Jobs and JobSets that an object controls, by namespace and UID.
    parts: BTreeMap<Key, BTreeSet<Key>>,
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

    /// A LIST of the ConfigMaps begins, which shows this share. Returns the Pods that may belong to another
    /// job now.
    pub fn select(&mut self, share: SlotSelection) -> BTreeSet<Key> {
        let left = self.attempts.select(share).into_iter();
        left.flat_map(|key| self.link(Between::Attempt, key, None)).collect()
    }

    /// The object of that name has this UID, and an object with that UID controls it; `None`: it is no part
    /// of another one. Returns the Pods that may belong to another job now.
    pub fn link(&mut self, kind: Between, key: Key, link: Option<(Arc<str>, Arc<str>)>) -> BTreeSet<Key> {
        let namespace = Arc::clone(&key.namespace);
        let of = |uid: Arc<str>| Key { namespace: Arc::clone(&namespace), name: uid };
        let link = link.map(|(uid, controller)| (of(uid), of(controller)));
        let before = match &link {
            Some((now, _)) => self.uids.insert((kind, key), now.clone()),
            None => self.uids.remove(&(kind, key)),
        };
        let known = before.as_ref().and_then(|uid| Some((uid.clone(), self.controllers.get(uid)?.clone())));
        if known == link {
            // Most changes of a job are of its status.
            return BTreeSet::new();
        }
        if let Some((uid, controller)) = &known {
            self.controllers.remove(uid);
            drop_from(&mut self.parts, controller, uid);
        }
        if let Some((uid, controller)) = link.clone() {
            if kind != Between::Attempt {
                self.parts.entry(controller.clone()).or_default().insert(uid.clone());
            }
            self.controllers.insert(uid, controller);
        }
        let changed = [known, link].into_iter().flatten();
        changed.flat_map(|(uid, _)| self.pods_of(&uid)).collect()
    }

    /// The Pods that name this object, and those of its parts.
    pub fn pods_of(&self, uid: &Key) -> BTreeSet<Key> {
        let (mut pods, mut owners) = (BTreeSet::new(), vec![uid]);
        for _ in 0..OWNERS {
            pods.extend(owners.iter().filter_map(|uid| self.pods.get(uid)).flatten().cloned());
            owners = owners.into_iter().filter_map(|uid| self.parts.get(uid)).flatten().collect();
        }
        pods
    }

    /// A job with this UID is known, or no longer. Returns its Pods.
    pub fn set_job(&mut self, uid: &Key, is_known: bool) -> BTreeSet<Key> {
        let is_news = if is_known { self.jobs.insert(uid.clone()) } else { self.jobs.remove(uid) };
        if is_news { self.pods_of(uid) } else { BTreeSet::new() }
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
            drop_from(&mut self.pods, uid, pod);
        }
        for uid in named.iter().flat_map(Named::uids) {
            self.pods.entry(uid.clone()).or_default().insert(pod.clone());
        }
    }

    /// The job that a Pod belongs to, by namespace and UID; `None`: that is not known.
    pub fn job_of(&self, pod: &Key) -> Option<Key> {
        let named = self.named.get(pod)?;
        let beyond = self.controllers.get(&named.controller);
        let outermost = beyond.and_then(|uid| self.controllers.get(uid));
        self.by_owner(named).or_else(|| self.by_label(named)).or(outermost).or(beyond).cloned()
    }

    /// Whether nothing but its label names the job that a Pod belongs to.
    pub fn is_by_label(&self, pod: &Key) -> bool {
        let by_label = |named: &Named| self.by_owner(named).is_none() && self.by_label(named).is_some();
        self.named.get(pod).is_some_and(by_label)
    }

    /// The known job that the owners of a Pod lead to.
    fn by_owner<'a>(&'a self, Named { controller, .. }: &'a Named) -> Option<&'a Key> {
        let is_job = |uid: &&Key| self.jobs.contains(*uid);
        match self.controllers.get(controller) {
            Some(beyond) => self.controllers.get(beyond).filter(is_job).or(Some(beyond).filter(is_job)),
            None => Some(controller).filter(is_job),
        }
    }

    /// The known job that the label of a Pod names, if its owners lead to no Framework.
    fn by_label<'a>(&'a self, Named { controller, consumer }: &'a Named) -> Option<&'a Key> {
        // A Framework is not among the known jobs, and its ConfigMap leads to it.
        let is_part = |of: &Key| self.parts.get(of).is_some_and(|parts| parts.contains(controller));
        let is_of_framework = self.controllers.get(controller).is_some_and(|of| !is_part(of));
        consumer.as_ref().filter(|uid| self.jobs.contains(*uid) && !is_of_framework)
    }
}

#[cfg(test)]
mod tests;
