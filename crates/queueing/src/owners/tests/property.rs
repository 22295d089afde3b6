//! Random histories of Pods and of the objects between them and their jobs.

use std::collections::{BTreeMap, BTreeSet};

use framework_message::Key;

use crate::owners::{Between, Named, OWNERS, Owners};

fn key(name: &str) -> Key {
    Key::new("ns", name)
}

impl Owners {
    /// Whether nothing is left of the objects that are gone.
    pub(super) fn is_empty(&self) -> bool {
        let Owners { attempts: _, controllers, uids, parts, jobs, pods, named } = self;
        let links = controllers.is_empty() && uids.is_empty() && parts.is_empty();
        links && jobs.is_empty() && pods.is_empty() && named.is_empty()
    }
}

/// The objects that are there.
#[derive(Default)]
struct Model {
    /// UID and controller of each Job and JobSet that is part of another object.
    links: BTreeMap<(Between, Key), (Key, Key)>,
    jobs: BTreeSet<Key>,
    pods: BTreeMap<Key, Named>,
}

impl Model {
    fn controller_of(&self, uid: &Key) -> Option<&Key> {
        self.links.values().find(|(of, _)| of == uid).map(|(_, controller)| controller)
    }

    /// Whether an object is among the owners of a Pod that count, or its label names it.
    fn leads(&self, pod: &Key, to: &Key) -> bool {
        let Named { controller, consumer } = &self.pods[pod];
        let owners = std::iter::successors(Some(controller), |uid| self.controller_of(uid));
        owners.take(OWNERS).any(|uid| uid == to) || consumer.as_ref() == Some(to)
    }

    /// Whether a Pod belongs to a TrainJob by its Job and its JobSet, and not by its label.
    fn is_by_three(&self, owners: &Owners, pod: &Key) -> bool {
        let Named { controller, consumer } = &self.pods[pod];
        let job = owners.job_of(pod);
        let is_of_train = job.as_ref().is_some_and(|job| job.name.starts_with('t'));
        let is_of_set = self.controller_of(controller).is_some_and(|set| set.name.starts_with('s'));
        is_of_set && is_of_train && *consumer != job
    }
}

/// A random change of one of a few objects. Returns the Pods that may belong to another job now.
fn change(rng: &mut fastrand::Rng, owners: &mut Owners, model: &mut Model) -> BTreeSet<Key> {
    let is_there = rng.u8(0..4) > 0;
    let mut one = |of: &[&str]| key(of[rng.usize(0..of.len())]);
    // An object may be replaced by another one of its name.
    let job = one(&["j1-a", "j1-b", "j2-a", "j2-b"]);
    let set = one(&["s1-a", "s1-b", "s2-a", "s2-b"]);
    let train = one(&["t1", "t2", "t3"]);
    let any = match &*one(&["job", "set", "train"]).name {
        "job" => job.clone(),
        "set" => set.clone(),
        _ => train.clone(),
    };
    let kind = one(&["job", "set", "known", "pod"]);
    let (kind, uid, controller) = match &*kind.name {
        "job" => (Between::Job, job, any),
        "set" => (Between::JobSet, set, any),
        "known" => {
            if is_there {
                model.jobs.insert(any.clone())
            } else {
                model.jobs.remove(&any)
            };
            return owners.set_job(&any, is_there);
        }
        _ => {
            let pod = one(&["p1", "p2", "p3", "p4"]);
            let consumer = Some(train).filter(|train| *train != key("t3"));
            let named = is_there.then_some(Named { controller: any, consumer });
            model.pods.remove(&pod);
            model.pods.extend(named.clone().map(|named| (pod.clone(), named)));
            owners.set_pod(&pod, named);
            return [pod].into();
        }
    };
    let place = (kind, key(&uid.name[..2]));
    model.links.remove(&place);
    if is_there {
        model.links.insert(place.clone(), (uid.clone(), controller.clone()));
    }
    owners.link(place.0, place.1, is_there.then_some((uid.name, controller.name)))
}

#[test]
fn each_pod_whose_job_changes_is_named_in_any_history() {
    let mut by_three = 0;
    for seed in 0..2_000 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let (mut owners, mut model) = (Owners::default(), Model::default());
        let mut known: BTreeMap<Key, Option<Key>> = BTreeMap::new();
        for _ in 0..60 {
            for pod in change(&mut rng, &mut owners, &mut model) {
                known.insert(pod.clone(), owners.job_of(&pod));
            }
            for pod in model.pods.keys() {
                let job = owners.job_of(pod);
                assert_eq!(known[pod], job, "seed {seed}: {pod} {owners:?}");
                assert!(job.is_none_or(|job| model.leads(pod, &job)), "seed {seed}: {pod} {owners:?}");
            }
            by_three += model.pods.keys().filter(|pod| model.is_by_three(&owners, pod)).count();
        }
        for (kind, name) in model.links.into_keys() {
            owners.link(kind, name, None);
        }
        model.pods.keys().for_each(|pod| owners.set_pod(pod, None));
        model.jobs.iter().for_each(|job| drop(owners.set_job(job, false)));
        assert!(owners.is_empty(), "seed {seed}: {owners:?}");
    }
    assert!(by_three > 500, "{by_three}");
}
