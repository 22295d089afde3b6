//! The slot of a namespace goes from one replica to another while a unit of it is released. The new owner may
//! not release the other unit, for which there is no room then.

use std::time::Duration;

use framework_api::queue::NAMESPACE_SLOT_LABEL;
use framework_core::Defect;
use framework_message::Slot;
use framework_sim::check::queue::Blind;
use framework_sim::{Fault, NAMESPACE, Options, Rule, SimCluster, User, Verb};
use serde_json::json;

use crate::queue::furnish;
use crate::replicas::{replica_with, shared};
use crate::simulation::controller::{Controller, Setup, member_of};
use crate::simulation::life::calm;
use crate::simulation::manifest::framework;
use crate::simulation::walk::queues::broken_promise;
use crate::simulation::{SECOND, pass, seeds, simulate, slots};

/// An interleaving, by its seed and the rule that the replicas lack.
type Interleaving = fn(u64, Option<Defect>) -> Result<(), String>;

/// How the owner of the namespace goes.
#[derive(Clone, Copy, Debug)]
enum Leaves {
    ByStop,
    ByCrash,
}

/// Two replicas, a queue, and a quota whose only place is taken.
struct Fixture {
    cluster: SimCluster,
    user: User,
    owner: Controller,
    other: Controller,
}

impl Fixture {
    /// `lack` is the rule that the replicas lack.
    async fn new(cluster: SimCluster, lack: Option<Defect>) -> Self {
        let user = cluster.user();
        let queue = json!({ "apiVersion": "queue.k8s.io/v1alpha1", "kind": "Queue",
            "metadata": { "name": "q" }, "spec": {} });
        let quota = json!({ "apiVersion": "v1", "kind": "ResourceQuota",
            "metadata": { "name": "room" }, "spec": { "hard": { "pods": "1" } } });
        for object in [queue, quota] {
            user.create(object).expect("the name is free");
        }
        let mut setup = Setup::default();
        setup.policy.queueing = true;
        lack.into_iter().for_each(|rule| setup.policy.defects.insert(rule));
        let (one, two) = (replica_with(&cluster, 1, setup.clone()), replica_with(&cluster, 2, setup));
        shared(&cluster, &[&one, &two]).await;
        let owner = slots::owner(&cluster.history(), Slot::of(NAMESPACE)).expect("the slot has an owner");
        let (owner, other) = if owner == one.name { (one, two) } else { (two, one) };
        let fixture = Fixture { cluster, user, owner, other };
        fixture.unit("holder", 0).await;
        assert!(fixture.comes("holder", "Dequeued").await, "there is room for it");
        fixture
    }

    /// A user makes a unit, and it is in the queue.
    async fn unit(&self, name: &str, priority: i32) {
        let unit = json!({ "apiVersion": "queue.k8s.io/v1alpha1", "kind": "QueueUnit",
            "metadata": { "name": name },
            "spec": {
                "consumerRef": { "apiVersion": "example.com/v1", "kind": "Train", "name": name },
                "queue": "q", "priority": priority, "resource": { "pods": 1 },
            } });
        self.user.create(unit).expect("the name is free");
        let name = name.to_owned();
        let is_queued = move |user: &User| {
            user.get("queueunits", &name).is_some_and(|unit| unit["status"]["phase"].is_string())
        };
        assert!(self.cluster.until(SECOND * 10, is_queued).await, "it is not taken in");
    }

    async fn comes(&self, name: &str, phase: &str) -> bool {
        let (name, phase) = (name.to_owned(), phase.to_owned());
        let is_there = move |user: &User| {
            user.get("queueunits", &name).is_some_and(|unit| unit["status"]["phase"] == *phase)
        };
        self.cluster.until(SECOND * 10, is_there).await
    }

    /// There is room for one more unit.
    fn make_room(&self) {
        let hard = json!({ "spec": { "hard": { "pods": "2" } } });
        self.user.patch("resourcequotas", "room", hard).expect("it is there");
    }

    /// The owner goes, the other one takes over, and in the end exactly one more unit is released.
    async fn end(self, leaves: Leaves) -> Result<(), String> {
        match leaves {
            Leaves::ByStop => self.owner.stop().await.expect("a stop is no error"),
            Leaves::ByCrash => self.owner.crash().await,
        }
        shared(&self.cluster, &[&self.other]).await;
        pass(SECOND * 60).await;
        broken_promise(&self.cluster.history(), Blind::default()).map_or(Ok(()), |(what, _)| Err(what))?;
        let released = |unit: &framework_sim::Object| unit["status"]["phase"] == "Dequeued";
        let count = self.user.list("queueunits").iter().filter(|unit| released(unit)).count();
        if count == 2 { Ok(()) } else { Err(format!("{count} units are released")) }
    }
}

/// The watch of the other replica does not show a release.
fn unshown(seed: u64, lack: Option<Defect>) -> Result<(), String> {
    simulate(seed, Options { keep_trace: false, ..calm() }, |cluster| async move {
        let fixture = Fixture::new(cluster, lack).await;
        fixture.unit("waits", 0).await;
        fixture.cluster.freeze_watches(&fixture.other.name, "queueunits", SECOND * 100);
        fixture.unit("urgent", 10).await;
        fixture.make_room();
        assert!(fixture.comes("urgent", "Dequeued").await, "there is room for it");
        fixture.end(Leaves::ByStop).await
    })
}

/// The release of one unit hangs on its way. Then another unit comes to the front.
fn late(seed: u64, leaves: Leaves, lack: Option<Defect>) -> Result<(), String> {
    simulate(seed, Options { keep_trace: false, ..calm() }, |cluster| async move {
        let fixture = Fixture::new(cluster, lack).await;
        fixture.unit("first", 1).await;
        fixture.unit("second", 0).await;
        pass(SECOND * 3).await;
        let late = Rule::new(Fault::Hang(Some(SECOND * 12)));
        let late = late.verb(Verb::UpdateStatus).plural("queueunits").who(&fixture.owner.name).times(1);
        fixture.cluster.faults(|faults| faults.script(late));
        fixture.make_room();
        pass(Duration::from_millis(500)).await;
        let front = json!({ "spec": { "priority": 10 } });
        fixture.user.patch("queueunits", "second", front).expect("it waits");
        // The leader learns that the owner leaves, and then of its slots. Otherwise it may give them back:
        // they come to it once the Lease has lapsed, when the release has landed.
        let member = member_of(&fixture.other.name);
        fixture.cluster.freeze_watches(&member, "configmaps", SECOND);
        fixture.end(leaves).await
    })
}

#[test]
fn a_release_that_the_new_owners_watch_has_not_shown_counts() {
    assert_eq!(unshown(1, None), Ok(()));
}

#[test]
fn a_release_that_lands_late_finds_its_room_after_a_stop_and_a_crash() {
    for leaves in [Leaves::ByStop, Leaves::ByCrash] {
        assert_eq!(late(1, leaves, None), Ok(()), "{leaves:?}");
    }
}

/// The LISTs of Jobs and Pods in queues may take long. A slot that is granted meanwhile would wait for them.
#[test]
fn objects_that_no_slot_selects_are_listed_before_the_first_slot_comes() {
    simulate(1, Options { keep_trace: false, ..calm() }, |cluster| async move {
        let mut setup = Setup::default();
        setup.policy.queueing = true;
        let one = replica_with(&cluster, 1, setup.clone());
        shared(&cluster, &[&one]).await;
        let two = replica_with(&cluster, 2, setup);
        shared(&cluster, &[&one, &two]).await;
        let history = cluster.history();
        let owns = |map: &framework_sim::Object| {
            map["data"].to_string().contains("owner\\\":\\\"frameworkcontroller-member-host-2")
        };
        let granted = history
            .of("configmaps")
            .find(|change| change.name == slots::MAP && change.new.as_deref().is_some_and(owns));
        let granted = granted.expect("it has slots").at;
        let lists = history.exchanges.iter().filter(|one| *one.who == *two.name && one.verb == Verb::List);
        let first = |plural: &str| lists.clone().find(|one| &*one.plural == plural).map(|one| one.at);
        for plural in ["jobs", "configmaps", "pods", "queues", "resourcequotas", "priorityclasses"] {
            assert!(first(plural).expect("it is listed") < granted, "{plural}: {:?}", first(plural));
        }
        assert!(first("queueunits").expect("it lists units") >= granted);
    });
}

/// Without its Pods, the use of a job would count twice: as reserved, and as that of others.
#[test]
fn the_next_owner_of_a_namespace_counts_the_pods_of_its_jobs_once() {
    simulate(1, Options { keep_trace: false, ..calm() }, |cluster| async move {
        let user = cluster.user();
        furnish(&user, 4);
        let mut setup = Setup::default();
        setup.policy.queueing = true;
        let replicas = [1, 2, 3].map(|incarnation| replica_with(&cluster, incarnation, setup.clone()));
        shared(&cluster, &replicas.each_ref()).await;
        let job = |name: &str| framework(name).role("w", 2).fate("run-ms", "forever").queue("q");
        let is_running = |user: &User, job: &str| {
            user.get("frameworks", job).is_some_and(|job| job["status"]["state"] == "AttemptRunning")
        };
        job("first").create(&user);
        assert!(cluster.until(SECOND * 120, |user| is_running(user, "first")).await);
        let slot = Slot::of(NAMESPACE).to_string();
        for (plural, name) in [("pods", "first-w-0"), ("pods", "first-w-1"), ("configmaps", "first-attempt")]
        {
            let object = user.get(plural, name).expect("it is there");
            assert_eq!(object["metadata"]["labels"][NAMESPACE_SLOT_LABEL], slot.as_str(), "{name}");
        }
        // As one that an earlier build made.
        let unlabelled = json!({ "metadata": { "labels": { NAMESPACE_SLOT_LABEL: null } } });
        user.patch("pods", "first-w-0", unlabelled).expect("it is there");
        let owner = slots::owner(&cluster.history(), Slot::of(NAMESPACE)).expect("the slot has an owner");
        let (leaving, staying): (Vec<_>, Vec<_>) = replicas.into_iter().partition(|one| one.name == owner);
        for one in leaving {
            one.stop().await.expect("a stop is no error");
        }
        shared(&cluster, &staying.iter().collect::<Vec<_>>()).await;
        job("second").create(&user);
        assert!(cluster.until(SECOND * 60, |user| is_running(user, "second")).await, "there is room");
        job("third").create(&user);
        pass(SECOND * 60).await;
        assert!(!is_running(&user, "third"), "there is no room");
        assert_eq!(broken_promise(&cluster.history(), Blind::default()), None);
    });
}

/// A release in the shadow of the old owner: each of the three rules closes one way to it.
#[test]
fn each_rule_of_shared_queues_that_is_switched_off_is_missed() {
    let cases: [(Defect, Interleaving); 3] = [
        (Defect::ReleaseUnlisted, unshown),
        (Defect::HandOverEarly, |seed, lack| late(seed, Leaves::ByStop, lack)),
        (Defect::ForgetHold, |seed, lack| late(seed, Leaves::ByCrash, lack)),
    ];
    for (rule, interleaving) in cases {
        let found = seeds::until_wrong(|seed| interleaving(seed, Some(rule)));
        let (count, what) = found.unwrap_or_else(|| panic!("{rule:?}: nothing goes wrong"));
        eprintln!("{rule:?}: after {count} seeds: {what}");
        assert!(what.contains("3 are held and 0 used by others, of 2"), "{rule:?}: {what}");
    }
}
