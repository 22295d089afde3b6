//! Slot labels that others set: copies of manifests have that of another Framework, and users edit them.

use framework_api::queue::FINALIZER;
use framework_message::Slot;
use framework_sim::{Fault, Options, Rule, SimCluster, User, Verb, check};
use serde_json::{Value, json};

use crate::queue::furnish;
use crate::replicas::{replica_with, shared};
use crate::simulation::controller::{Controller, Setup};
use crate::simulation::life::calm;
use crate::simulation::manifest::{SLOT, framework};
use crate::simulation::{SECOND, pass, simulate, slots};

/// The label of every Framework is that of its UID.
fn are_right(user: &User) -> bool {
    let slot = |framework: &framework_sim::Object| {
        Slot::of(framework["metadata"]["uid"].as_str().expect("a UID")).to_string()
    };
    user.list("frameworks").iter().all(|one| one["metadata"]["labels"][SLOT] == slot(one))
}

fn has_label(framework: &framework_sim::Object) -> bool {
    framework["metadata"]["labels"][SLOT].is_string()
}

/// A label that names a slot of a replica other than that of the Framework.
fn foreign(cluster: &SimCluster, uid: &str) -> Value {
    let history = cluster.history();
    let own = slots::owner(&history, Slot::of(uid));
    let other =
        Slot::all().find(|slot| slots::owner(&history, *slot) != own).expect("there are two replicas");
    other.to_string().into()
}

#[test]
fn a_framework_with_the_label_of_another_slot_is_found_and_run() {
    simulate(1, Options { keep_trace: false, ..calm() }, |cluster| async move {
        let user = cluster.user();
        let setup = Setup::default();
        let (one, two) = (replica_with(&cluster, 1, setup.clone()), replica_with(&cluster, 2, setup));
        shared(&cluster, &[&one, &two]).await;
        // Each slot's number, so that half of the labels name a slot of another replica; and no numbers.
        let labels =
            (0..10).map(|n| (n * 25).to_string()).chain(["none", "256", "007", ""].map(str::to_owned));
        for (number, label) in labels.enumerate() {
            let mut copy = framework(&format!("f{number}")).role("w", 1).value();
            copy["metadata"]["labels"][SLOT] = label.into();
            user.create(copy).expect("the name is free");
        }
        let over =
            |user: &User| user.list("frameworks").iter().all(|one| one["status"]["state"] == "Completed");
        assert!(cluster.until(SECOND * 60, over).await, "not all have run");
        // A status write may come before a label, which is tried again then.
        assert!(cluster.until(SECOND * 10, are_right).await, "not all have their label");
        check::at_quiescence(&cluster.history()).unwrap();
    });
}

#[test]
fn a_label_that_is_edited_while_its_framework_runs_is_put_right() {
    simulate(1, Options { keep_trace: false, ..calm() }, |cluster| async move {
        let user = cluster.user();
        let setup = Setup::default();
        let log = setup.log.clone();
        let (one, two) = (replica_with(&cluster, 1, setup.clone()), replica_with(&cluster, 2, setup));
        shared(&cluster, &[&one, &two]).await;
        framework("f").role("w", 2).fate("run-ms", "20000").create(&user);
        let runs = |user: &User| {
            user.get("frameworks", "f").is_some_and(|one| one["status"]["state"] == "AttemptRunning")
        };
        assert!(cluster.until(SECOND * 60, runs).await, "it never runs");
        let uid = user.get("frameworks", "f").expect("it is there")["metadata"]["uid"].clone();
        for _ in 0..3 {
            let edited = foreign(&cluster, uid.as_str().expect("text"));
            user.patch("frameworks", "f", json!({"metadata": {"labels": {SLOT: edited}}}))
                .expect("it is there");
            pass(SECOND * 2).await;
            assert!(are_right(&user));
        }
        let over = |user: &User| {
            user.get("frameworks", "f").is_some_and(|one| one["status"]["state"] == "Completed")
        };
        assert!(cluster.until(SECOND * 60, over).await, "it does not end");
        let made = cluster.history().of("pods").filter(|change| change.creates()).count();
        assert_eq!(made, 2, "no Task runs twice");
        let ends = log.lines().into_iter().filter(|line| line.trigger == "OnFrameworkDeletion");
        assert_eq!(ends.count(), 0, "nobody deleted it");
        pass(SECOND * 10).await;
        check::at_quiescence(&cluster.history()).unwrap();
    });
}

/// The policy against that covers no subresources and no admins.
#[test]
fn a_pod_and_a_config_map_with_the_label_of_another_slot_get_theirs_back() {
    for (plural, object) in [("pods", "f-w-0"), ("configmaps", "f-attempt")] {
        simulate(1, Options { keep_trace: false, ..calm() }, |cluster| async move {
            let user = cluster.user();
            let setup = Setup::default();
            let (one, two) = (replica_with(&cluster, 1, setup.clone()), replica_with(&cluster, 2, setup));
            shared(&cluster, &[&one, &two]).await;
            framework("f").role("w", 2).fate("run-ms", "20000").create(&user);
            let state = |user: &User, state: &str| {
                user.get("frameworks", "f").is_some_and(|one| one["status"]["state"] == state)
            };
            let runs = |user: &User| state(user, "AttemptRunning");
            assert!(cluster.until(SECOND * 60, runs).await, "it never runs");
            let uid = user.get("frameworks", "f").expect("it is there")["metadata"]["uid"].clone();
            let other = foreign(&cluster, uid.as_str().expect("text"));
            for edited in [other, "none".into()] {
                user.patch(plural, object, json!({"metadata": {"labels": {SLOT: edited}}}))
                    .expect("it is there");
                pass(SECOND * 3).await;
                let label =
                    user.get(plural, object).expect("it is there")["metadata"]["labels"][SLOT].clone();
                assert_eq!(label, Slot::of(uid.as_str().expect("text")).to_string(), "of {plural}");
            }
            let over = |user: &User| state(user, "Completed");
            assert!(cluster.until(SECOND * 60, over).await, "it does not end");
            check::at_quiescence(&cluster.history()).unwrap();
        });
    }
}

/// One watch shows the Pods of both slots, until one of them moves to another replica.
#[test]
fn a_pod_with_the_label_of_another_slot_ends_though_that_slot_moves() {
    simulate(1, Options { keep_trace: false, ..calm() }, |cluster| async move {
        let user = cluster.user();
        let setup = Setup::default();
        let (one, two) = (replica_with(&cluster, 1, setup.clone()), replica_with(&cluster, 2, setup.clone()));
        shared(&cluster, &[&one, &two]).await;
        for index in 0..24 {
            framework(&format!("f{index}")).role("w", 1).fate("run-ms", "120000").create(&user);
        }
        let all = |user: &User, state: &str| {
            user.list("frameworks").iter().all(|one| one["status"]["state"] == state)
        };
        assert!(cluster.until(SECOND * 60, |user| all(user, "AttemptRunning")).await, "they never run");
        let history = cluster.history();
        for (number, framework) in user.list("frameworks").iter().enumerate() {
            let own = Slot::of(framework["metadata"]["uid"].as_str().expect("text"));
            let owner = slots::owner(&history, own);
            let mut others = Slot::all().skip(number * 8).filter(|slot| *slot != own);
            let other = others.find(|slot| slots::owner(&history, *slot) == owner).expect("it has several");
            let pod = format!("{}-w-0", framework["metadata"]["name"].as_str().expect("text"));
            let edited = json!({"metadata": {"labels": {SLOT: other.to_string()}}});
            user.patch("pods", &pod, edited).expect("it is there");
        }
        let three = replica_with(&cluster, 3, setup);
        shared(&cluster, &[&one, &two, &three]).await;
        assert!(all(&user, "AttemptRunning"), "no Pod is gone");
        assert!(cluster.until(SECOND * 200, |user| all(user, "Completed")).await, "not all end");
        let made = cluster.history().of("pods").filter(|change| change.creates()).count();
        assert_eq!(made, 24, "no Task runs twice");
        check::at_quiescence(&cluster.history()).unwrap();
    });
}

#[test]
fn a_framework_whose_label_is_refused_keeps_no_slots_where_they_are() {
    simulate(1, Options { keep_trace: false, ..calm() }, |cluster| async move {
        let user = cluster.user();
        let setup = Setup::default();
        for name in ["f", "refused"] {
            framework(name).role("w", 1).fate("run-ms", "150000").create(&user);
        }
        let one = replica_with(&cluster, 1, setup.clone());
        let label = Rule::new(Fault::Invalid).verb(Verb::Patch).plural("frameworks").name("refused");
        cluster.faults(|faults| faults.script(label.times(u32::MAX)));
        let runs = |user: &User| {
            user.list("frameworks").iter().all(|one| one["status"]["state"] == "AttemptRunning")
        };
        assert!(cluster.until(SECOND * 60, runs).await, "they never run");
        let two = replica_with(&cluster, 2, setup);
        pass(SECOND * 45).await;
        assert_eq!(slots::shares(&cluster.history()).expect("a map").len(), 1, "it is awaited first");
        pass(SECOND * 30).await;
        shared(&cluster, &[&one, &two]).await;
        cluster.faults(framework_sim::Faults::unscript);
        let over =
            |user: &User| user.list("frameworks").iter().all(|one| one["status"]["state"] == "Completed");
        assert!(cluster.until(SECOND * 300, over).await, "not all have ended");
        assert!(are_right(&user));
        let made = cluster.history().of("pods").filter(|change| change.creates()).count();
        assert_eq!(made, 2, "no Task runs twice");
        check::at_quiescence(&cluster.history()).unwrap();
    });
}

/// A Framework has begun, and none of its Pods are there yet, when a second replica comes and the API server
/// refuses the label. The next owner of its slot never sees it, and may not take it for gone.
#[test]
fn a_framework_without_its_label_keeps_what_its_unit_reserves() {
    simulate(1, Options { keep_trace: false, ..calm() }, |cluster| async move {
        let user = cluster.user();
        furnish(&user, 8);
        let mut setup = Setup::default();
        setup.policy.queueing = true;
        let pod = Rule::new(Fault::Unavailable).verb(Verb::Create).plural("pods");
        let label = Rule::new(Fault::Invalid).verb(Verb::Patch).plural("frameworks");
        cluster.faults(|faults| [pod, label].map(|rule| faults.script(rule.times(u32::MAX))));
        let one = replica_with(&cluster, 1, setup.clone());
        for index in 0..8 {
            framework(&format!("f{index}")).role("w", 1).queue("q").create(&user);
        }
        let begun = |user: &User| {
            user.list("frameworks").iter().all(|one| one["status"]["state"] == "AttemptPreparing")
        };
        assert!(cluster.until(SECOND * 60, begun).await, "not all are released");
        let two = replica_with(&cluster, 2, setup);
        pass(SECOND * 70).await;
        shared(&cluster, &[&one, &two]).await;
        pass(SECOND * 60).await;
        let reserves = |unit: &framework_sim::Object| {
            unit["metadata"]["finalizers"].as_array().is_some_and(|all| all.contains(&FINALIZER.into()))
        };
        let reserved = |user: &User| user.list("queueunits").iter().filter(|unit| reserves(unit)).count();
        assert_eq!(reserved(&user), 8, "none has ended");
        cluster.faults(framework_sim::Faults::unscript);
        let over =
            |user: &User| user.list("frameworks").iter().all(|one| one["status"]["state"] == "Completed");
        assert!(cluster.until(SECOND * 400, over).await, "not all end");
        assert!(cluster.until(SECOND * 60, |user| reserved(user) == 0).await, "all have ended");
        check::at_quiescence(&cluster.history()).unwrap();
    });
}

/// No event shows the deletion of a Framework that has lost its label.
#[test]
fn a_framework_that_is_deleted_without_its_label_gives_its_quota_back() {
    simulate(1, Options { keep_trace: false, ..calm() }, |cluster| async move {
        let user = cluster.user();
        furnish(&user, 8);
        let mut setup = Setup::default();
        setup.policy.queueing = true;
        let (one, two) = (replica_with(&cluster, 1, setup.clone()), replica_with(&cluster, 2, setup));
        shared(&cluster, &[&one, &two]).await;
        framework("f").role("w", 1).queue("q").fate("run-ms", "600000").create(&user);
        let runs = |user: &User| {
            user.get("frameworks", "f").is_some_and(|one| one["status"]["state"] == "AttemptRunning")
        };
        assert!(cluster.until(SECOND * 60, runs).await, "it never runs");
        let label = Rule::new(Fault::Invalid).verb(Verb::Patch).plural("frameworks");
        cluster.faults(|faults| faults.script(label.times(u32::MAX)));
        user.patch("frameworks", "f", json!({"metadata": {"labels": {SLOT: null}}})).expect("it is there");
        // Its owner reads it, and finds it alive.
        pass(SECOND * 5).await;
        user.delete("frameworks", "f").expect("it is there");
        let is_over = |user: &User| user.list("queueunits").is_empty();
        assert!(cluster.until(SECOND * 120, is_over).await, "its unit keeps its quota");
        let is_collected = |user: &User| user.get("configmaps", "f-attempt").is_none();
        assert!(cluster.until(SECOND * 60, is_collected).await, "the garbage collector leaves it");
        cluster.faults(framework_sim::Faults::unscript);
        check::at_quiescence(&cluster.history()).unwrap();
    });
}

/// Where Frameworks come all the time, there is always one that has no label yet.
#[test]
fn a_framework_that_comes_later_keeps_no_slots_from_a_new_replica() {
    simulate(1, Options { keep_trace: false, ..calm() }, |cluster| async move {
        let user = cluster.user();
        let setup = Setup::default();
        let (one, two) = (replica_with(&cluster, 1, setup.clone()), replica_with(&cluster, 2, setup.clone()));
        shared(&cluster, &[&one, &two]).await;
        let label = Rule::new(Fault::Invalid).verb(Verb::Patch).plural("frameworks").name("late");
        cluster.faults(|faults| faults.script(label.times(u32::MAX)));
        framework("late").role("w", 1).create(&user);
        let three = replica_with(&cluster, 3, setup);
        pass(SECOND * 30).await;
        assert_eq!(slots::shares(&cluster.history()).expect("a map").len(), 3, "it waits for the label");
        cluster.faults(framework_sim::Faults::unscript);
        let over = |user: &User| {
            user.get("frameworks", "late").is_some_and(|one| one["status"]["state"] == "Completed")
        };
        assert!(cluster.until(SECOND * 60, over).await, "its owner does not find it");
        shared(&cluster, &[&one, &two, &three]).await;
        check::at_quiescence(&cluster.history()).unwrap();
    });
}

/// No watch shows a newer version after such an answer, and no absence: the label is tried again.
#[test]
fn a_label_that_a_proxy_answers_with_a_conflict_is_tried_again() {
    simulate(1, Options { keep_trace: false, ..calm() }, |cluster| async move {
        let user = cluster.user();
        let setup = Setup::default();
        let (one, two) = (replica_with(&cluster, 1, setup.clone()), replica_with(&cluster, 2, setup));
        shared(&cluster, &[&one, &two]).await;
        let conflict = Rule::new(Fault::Conflict).verb(Verb::Patch).plural("frameworks").name("f");
        cluster.faults(|faults| faults.script(conflict.times(3)));
        framework("f").role("w", 1).create(&user);
        let over = |user: &User| {
            user.get("frameworks", "f").is_some_and(|one| one["status"]["state"] == "Completed")
        };
        assert!(cluster.until(SECOND * 60, over).await, "it never gets its label");
        assert!(are_right(&user));
    });
}

/// Each replica also sees the Frameworks that another one is to label.
#[test]
fn a_new_framework_gets_its_label_at_once_beside_those_of_another_replica() {
    simulate(1, Options { keep_trace: false, ..calm() }, |cluster| async move {
        let user = cluster.user();
        let setup = Setup::default();
        let (one, two) = (replica_with(&cluster, 1, setup.clone()), replica_with(&cluster, 2, setup));
        shared(&cluster, &[&one, &two]).await;
        for index in 0..40 {
            framework(&format!("f{index}")).role("w", 1).create(&user);
            pass(SECOND / 10).await;
        }
        assert!(cluster.until(SECOND * 5, are_right).await, "not all have their label");
        let history = cluster.history();
        let moments = |name: &str| {
            let mut of_it = history.of("frameworks").filter(move |change| change.name == name);
            let created = of_it.next().expect("it was created").at;
            let labelled = of_it.find(|change| change.new.as_ref().is_some_and(|new| has_label(new)));
            labelled.expect("it was labelled").at - created
        };
        let waited: Vec<_> = (0..40).map(|index| moments(&format!("f{index}"))).collect();
        let late = waited.iter().filter(|waited| **waited > SECOND / 5).count();
        assert_eq!(late, 0, "{waited:?}");
    });
}

/// Starts two replicas. Then 300 Frameworks come at once, at 40 requests a second of which labels may take a
/// quarter.
async fn crowded(cluster: &SimCluster) -> [Controller; 2] {
    let mut setup = Setup::default();
    setup.settings.qps = 40.0;
    let replicas = [1, 2].map(|number| replica_with(cluster, number, setup.clone()));
    shared(cluster, &replicas.each_ref()).await;
    for index in 0..300 {
        framework(&format!("f{index}")).role("w", 1).execution("Create").create(&cluster.user());
    }
    replicas
}

#[test]
fn two_replicas_set_no_more_labels_a_second_than_one_may() {
    simulate(1, Options { keep_trace: false, ..calm() }, |cluster| async move {
        let _replicas = crowded(&cluster).await;
        assert!(cluster.until(SECOND * 90, are_right).await, "not all have their label");
        let history = cluster.history();
        let is_label =
            |old: &framework_sim::Object, new: &framework_sim::Object| !has_label(old) && has_label(new);
        let moments: Vec<_> = history
            .of("frameworks")
            .filter(
                |change| matches!((&change.old, &change.new), (Some(old), Some(new)) if is_label(old, new)),
            )
            .map(|change| change.at)
            .collect();
        assert_eq!(moments.len(), 300, "each is labelled once");
        let least = moments.windows(100).map(|some| some[99] - some[0]).min().expect("there are 300");
        assert!(least > SECOND * 9, "100 labels in {least:?}");
    });
}

/// The labels of one namespace take half a minute.
#[test]
fn frameworks_without_a_label_in_one_namespace_delay_no_other() {
    simulate(1, Options { keep_trace: false, ..calm() }, |cluster| async move {
        let (user, _replicas) = (cluster.user(), crowded(&cluster).await);
        pass(SECOND).await;
        let others = ["aa", "zz"].map(|namespace| user.within(namespace));
        others.iter().for_each(|other| framework("f").role("w", 1).execution("Create").create(other));
        let has = |user: &User| user.get("frameworks", "f").is_some_and(|one| has_label(&one));
        let have = |_: &User| others.iter().all(has);
        assert!(cluster.until(SECOND * 2, have).await, "they wait for the others");
        assert!(!are_right(&user), "most of the others wait");
    });
}

/// The API server takes long for one label.
#[test]
fn a_label_without_an_answer_delays_no_other() {
    simulate(1, Options { keep_trace: false, ..calm() }, |cluster| async move {
        let user = cluster.user();
        let setup = Setup::default();
        let (one, two) = (replica_with(&cluster, 1, setup.clone()), replica_with(&cluster, 2, setup));
        shared(&cluster, &[&one, &two]).await;
        let silent = Rule::new(Fault::Hang(None)).verb(Verb::Patch).plural("frameworks").name("a");
        cluster.faults(|faults| faults.script(silent.times(1)));
        framework("a").role("w", 1).create(&user);
        pass(SECOND).await;
        for index in 0..8 {
            framework(&format!("f{index}")).role("w", 1).create(&user);
        }
        let labelled = |user: &User| user.list("frameworks").iter().filter(|one| has_label(one)).count();
        assert!(cluster.until(SECOND * 2, |user| labelled(user) == 8).await, "they wait for the answer");
        assert!(cluster.until(SECOND * 60, are_right).await, "it is not tried again");
    });
}
