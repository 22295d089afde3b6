//! The cached facts about objects, event by event.

use super::sweep::Listed;
use super::*;
use framework_api::Time;
use framework_core::classify::{ContainerEnd, ContainerTerminated, TerminalPhase, TerminatedPod};
use framework_core::observed::{ConfigMapFacts, Deletion};
use framework_message::Key;

fn pod(uid: &str, resource_version: u128) -> PodObject {
    let facts = PodFacts::new(uid, "map", PodPhase::Running);
    PodObject {
        key: Key::new("ns", "job"),
        name: "job-w-0".into(),
        resource_version,
        facts,
        label: None,
        last: None,
    }
}

fn terminating(uid: &str, resource_version: u128) -> PodObject {
    let mut pod = pod(uid, resource_version);
    pod.facts.deletion = Some(Deletion { at: Time::floor(jiff::Timestamp::UNIX_EPOCH), grace_sec: 30 });
    pod
}

/// A Pod as the API server shows it last: a deletion leaves it no time.
fn removed(uid: &str, resource_version: u128) -> PodObject {
    let mut pod = terminating(uid, resource_version);
    pod.facts.deletion.as_mut().unwrap().grace_sec = 0;
    pod
}

fn succeeded(uid: &str, resource_version: u128) -> PodObject {
    let mut pod = pod(uid, resource_version);
    pod.facts.phase = PodPhase::Succeeded;
    pod
}

fn config_map(uid: &str, resource_version: u128) -> ConfigMapObject {
    let facts = ConfigMapFacts { uid: uid.into(), framework_uid: Some("fw".into()), deleting: false };
    ConfigMapObject { key: Key::new("ns", "job"), resource_version, facts, label: None }
}

/// A Pod with the label of this slot, whose UID is its name.
fn labelled(uid: &str, resource_version: u128, slot: u8) -> PodObject {
    PodObject { name: uid.into(), label: Some(Slot(slot)), ..pod(uid, resource_version) }
}

/// A LIST of everything.
fn all(number: u64) -> Listed {
    Listed { number, slots: Slots::ALL, others: true }
}

fn slots(slot: u8) -> Slots {
    [Slot(slot)].into_iter().collect()
}

fn uids(known: &ObjectCache) -> Vec<&str> {
    known.objects.pods.values().map(|pod| pod.uid.as_str()).collect()
}

#[test]
fn only_a_higher_version_applies() {
    let mut known = ObjectCache::default();
    assert!(known.apply_pod(succeeded("a", 7), Source::Watch, 1));
    assert!(!known.apply_pod(pod("a", 6), Source::Watch, 1), "a late event is no news");
    assert_eq!(known.objects.pods.get("job-w-0").unwrap().phase, PodPhase::Succeeded);
    assert!(
        !known.apply_pod(succeeded("a", 8), Source::Watch, 1),
        "a newer version that shows the same is no news"
    );
    assert!(known.apply_config_map(config_map("m", 3), Source::Watch, 1));
    assert!(!known.apply_config_map(config_map("old", 2), Source::Watch, 1));
    assert_eq!(known.objects.config_map.as_ref().unwrap().uid, "m");
}

#[test]
fn a_disappearance_counts_when_the_object_was_ending() {
    for (seen, deleted, gone) in [
        (pod("a", 1), pod("a", 2), false),
        (pod("a", 1), removed("a", 2), true),
        // A user may also remove the label of a Pod that is terminating.
        (pod("a", 1), terminating("a", 2), false),
        (succeeded("a", 1), succeeded("a", 2), true),
    ] {
        let mut known = ObjectCache::default();
        known.apply_pod(seen, Source::Watch, 1);
        assert!(known.delete_pod(&deleted));
        assert!(uids(&known).is_empty());
        assert_eq!(known.objects.gone.contains("a"), gone);
    }
}

fn ended(uid: &str, resource_version: u128, exit_code: i32) -> PodObject {
    let terminated = ContainerTerminated { exit_code, ..ContainerTerminated::default() };
    let mut pod = pod(uid, resource_version);
    pod.facts.phase = PodPhase::Failed;
    pod.facts.end = Some(Box::new(TerminatedPod {
        phase: TerminalPhase::Failed,
        pod_name: pod.name.clone(),
        reason: String::new(),
        message: String::new(),
        containers: vec![ContainerEnd { name: "main".into(), terminated: Some(terminated) }],
    }));
    pod
}

/// The exit code of a Pod that ended by itself.
fn exit_code(pod: Option<&PodFacts>) -> Option<i32> {
    Some(pod?.own_end()?.containers[0].terminated.as_ref()?.exit_code)
}

#[test]
fn the_end_of_a_pod_outlives_its_deletion_by_others() {
    let deletions: [fn(&mut ObjectCache); 4] = [
        |known| _ = known.delete_pod(&removed("a", 9)),
        |known| _ = known.sweep_pods(all(2)),
        |known| known.pod_gone("job-w-0", "a"),
        |known| _ = known.apply_pod(pod("b", 9), Source::Watch, 1),
    ];
    for delete in deletions {
        let mut known = ObjectCache::default();
        known.apply_pod(ended("a", 1, 7), Source::Watch, 1);
        delete(&mut known);
        assert!(known.objects.gone.contains("a"));
        assert_eq!(exit_code(known.objects.left_pods.get("a")), Some(7));
    }
}

#[test]
fn the_first_time_when_a_pod_was_seen_running_is_kept() {
    let mut known = ObjectCache::default();
    let ran = |second| Some(Time::floor(jiff::Timestamp::from_second(second).unwrap()));
    for (version, second) in [(1, 10), (2, 20)] {
        let mut running = pod("a", version);
        running.facts.ran_at = ran(second);
        let is_news = known.apply_pod(running, Source::Watch, 1);
        assert_eq!(is_news, version == 1);
    }
    known.apply_pod(ended("a", 3, 7), Source::Watch, 1);
    assert_eq!(known.objects.pod("job-w-0", "a").unwrap().ran_at, ran(10));
    known.delete_pod(&removed("a", 4));
    assert_eq!(known.objects.left_pods.get("a").unwrap().ran_at, ran(10));
}

#[test]
fn the_end_of_a_pod_that_the_controller_deletes_is_not_kept() {
    let mut known = ObjectCache::default();
    known.apply_pod(ended("a", 1, 7), Source::Watch, 1);
    known.objects.deletes.insert("a".to_owned());
    known.delete_pod(&removed("a", 2));
    assert!(known.objects.left_pods.is_empty());
}

#[test]
fn the_end_that_was_seen_before_a_deletion_stays_the_pods_own() {
    let mut known = ObjectCache::default();
    let held = |resource_version| {
        let mut pod = ended("a", resource_version, 137);
        pod.facts.deletion = removed("a", 1).facts.deletion;
        pod
    };
    known.apply_pod(ended("a", 1, 7), Source::Watch, 1);
    known.apply_pod(held(2), Source::Watch, 1);
    assert_eq!(exit_code(known.objects.pod("job-w-0", "a")), Some(7));
    // It leaves the cache without being gone, and a GET shows it again.
    known.objects.drop_pod("job-w-0");
    known.apply_pod(held(3), Source::Reply, 1);
    assert_eq!(exit_code(known.objects.pod("job-w-0", "a")), Some(7));
    let mut known = ObjectCache::default();
    known.apply_pod(terminating("a", 1), Source::Watch, 1);
    known.apply_pod(held(2), Source::Watch, 1);
    assert_eq!(exit_code(known.objects.pod("job-w-0", "a")), None, "the deletion ended it");
}

#[test]
fn a_deletion_before_the_reply_to_the_create_is_remembered() {
    let mut known = ObjectCache::default();
    known.delete_pod(&removed("never seen", 2));
    assert!(known.objects.gone.contains("never seen"));
}

#[test]
fn a_new_holder_of_a_name_proves_that_the_old_one_is_gone() {
    let mut known = ObjectCache::default();
    known.apply_pod(pod("a", 1), Source::Watch, 1);
    known.apply_pod(pod("b", 5), Source::Reply, 1);
    assert_eq!(uids(&known), ["b"]);
    assert!(known.objects.gone.contains("a"));
    assert!(!known.apply_pod(succeeded("a", 3), Source::Watch, 1), "the watch lags and must not revive it");
    assert_eq!(uids(&known), ["b"]);
    known.delete_pod(&removed("a", 4));
    assert_eq!(uids(&known), ["b"], "the deletion of the old one is not the new one's");
}

#[test]
fn an_object_that_counts_as_gone_and_lives_is_doubted_and_then_taken_back() {
    let mut known = ObjectCache::default();
    known.apply_pod(pod("a", 1), Source::Watch, 1);
    known.pod_gone("job-w-0", "a");
    assert!(known.objects.gone.contains("a"));
    assert!(!known.apply_pod(terminating("a", 2), Source::Watch, 1), "its end is on its way");
    assert!(known.apply_pod(pod("a", 3), Source::Watch, 1), "a GET is to decide");
    assert!(uids(&known).is_empty() && !known.objects.gone.contains("a"));
    assert!(known.remove_tombstone("a") && !known.remove_tombstone("a"));
    assert!(known.apply_pod(pod("a", 3), Source::Reply, 1));
    assert_eq!(uids(&known), ["a"]);
}

#[test]
fn a_released_pod_is_taken_back_at_a_later_version_only() {
    let mut known = ObjectCache::default();
    known.begin_read();
    known.apply_pod(pod("a", 1), Source::Watch, 1);
    known.pod_released("job-w-0", "a", 5);
    assert!(!known.apply_pod(pod("a", 4), Source::Reply, 1), "a reply from before");
    assert!(uids(&known).is_empty());
    assert!(known.apply_pod(pod("a", 6), Source::Watch, 1));
    assert_eq!(uids(&known), ["a"]);
    assert!(!known.objects.gone.contains("a"));
}

#[test]
fn a_reply_older_than_the_deletion_revives_nothing() {
    let mut known = ObjectCache::default();
    known.begin_read();
    known.apply_pod(pod("a", 1), Source::Watch, 1);
    known.delete_pod(&removed("a", 9));
    assert!(!known.apply_pod(pod("a", 8), Source::Reply, 1));
    known.end_read();
    assert!(uids(&known).is_empty());
    assert!(known.tombstones.is_empty(), "nothing on its way, nothing to remember");
}

#[test]
fn a_watch_that_hangs_while_pods_come_and_go_takes_bounded_memory() {
    let mut known = ObjectCache::default();
    for number in 0..MOST_TOMBSTONES + 100 {
        let uid = format!("{number:09}");
        known.apply_pod(pod(&uid, 1), Source::Watch, 1);
        known.pod_gone("job-w-0", &uid);
        known.apply_pod(pod(&uid, 2), Source::Watch, 1);
        assert!(uids(&known).is_empty(), "the watch is behind");
    }
    assert_eq!(known.tombstones.len(), MOST_TOMBSTONES);
}

#[test]
fn a_config_map_whose_label_cannot_be_given_back_awaits_no_watch() {
    let mut known = ObjectCache::default();
    known.begin_read();
    known.apply_config_map(config_map("m", 5), Source::Reply, 1);
    known.end_read();
    known.config_map_removed("m");
    known.forget_unwatched(None);
    assert!(known.objects.config_map.is_none() && known.objects.deletes.is_empty());
}

#[test]
fn foreign_pods_that_come_and_go_leave_bounded_memory() {
    let mut known = ObjectCache::default();
    let foreign = |name: &str, pod: PodObject| PodObject { name: name.into(), ..pod };
    known.delete_pod(&removed("ours", 1));
    for number in 0..20_000 {
        let uid = format!("{number:09}");
        known.apply_pod(foreign(&uid, pod(&uid, 1)), Source::Watch, 1);
        known.delete_pod(&foreign(&uid, removed(&uid, 2)));
        known.deletions.take_gone();
        assert!(known.objects.gone.contains(&uid), "the last one is always remembered");
    }
    assert!(known.objects.gone.len() <= MOST_GONE, "{}", known.objects.gone.len());
    let confirm = Action::ConfirmPod { name: "job-w-0".into(), uid: "ours".into() };
    assert!(!known.makes_pointless(&confirm), "a GET confirms again what was forgotten");
}

#[test]
fn a_pod_that_lost_its_label_is_found_alive_and_kept() {
    let mut known = ObjectCache::default();
    known.apply_pod(pod("a", 1), Source::Watch, 1);
    // The watch shows the old object, at the version of the change that removed the label.
    known.delete_pod(&pod("a", 5));
    known.begin_read();
    assert!(known.apply_pod(pod("a", 5), Source::Reply, 1));
    known.end_read();
    assert!(known.objects.pods.get("job-w-0").unwrap().unwatched);
    assert!(!known.delete_pod(&pod("a", 5)), "what the GET showed is as new as that event");
    assert!(known.apply_pod(pod("a", 6), Source::Watch, 1), "the label is back");
    assert!(!known.objects.pods.get("job-w-0").unwrap().unwatched);
}

#[test]
fn a_list_replaces_the_known_objects() {
    let mut known = ObjectCache::default();
    for (name, pod) in [("listed", pod("a", 1)), ("missing", pod("b", 2)), ("ended", succeeded("c", 3))] {
        known.apply_pod(PodObject { name: name.into(), ..pod }, Source::Watch, 1);
    }
    known.apply_config_map(config_map("m", 4), Source::Watch, 1);
    // The second LIST shows one of them, in the known version; the watch adds one before the LIST is
    // complete.
    known.apply_pod(PodObject { name: "listed".into(), ..pod("a", 1) }, Source::Watch, 2);
    known.apply_pod(PodObject { name: "new".into(), ..pod("d", 9) }, Source::Watch, 2);
    assert!(known.sweep_pods(all(2)));
    assert!(known.sweep_config_map(all(2)));
    assert_eq!(uids(&known), ["a", "d"]);
    assert_eq!(known.objects.gone.iter().collect::<Vec<_>>(), ["c"], "b may have lost its label only");
    assert_eq!(known.objects.config_map, None);
}

#[test]
fn a_list_of_some_slots_ends_the_objects_with_their_labels() {
    let mut known = ObjectCache::default();
    for pod in [labelled("a", 1, 3), labelled("b", 1, 7), PodObject { name: "c".into(), ..pod("c", 1) }] {
        known.apply_pod(pod, Source::Watch, 1);
    }
    let list = |slot, others| Listed { number: 2, slots: slots(slot), others };
    assert!(!known.sweep_pods(list(9, false)));
    assert!(known.sweep_pods(list(7, false)));
    assert_eq!(uids(&known), ["a", "c"]);
    assert!(known.sweep_pods(list(9, true)));
    assert_eq!(uids(&known), ["a"]);
}

#[test]
fn objects_of_a_lost_slot_leave_and_are_not_gone() {
    let mut known = ObjectCache::default();
    known.begin_read();
    known.apply_pod(labelled("a", 5, 3), Source::Watch, 1);
    // It has ended, and waits to be deleted.
    known.apply_pod(PodObject { label: Some(Slot(3)), ..succeeded("b", 5) }, Source::Watch, 1);
    known.apply_pod(labelled("c", 5, 7), Source::Watch, 1);
    let map = ConfigMapObject { label: Some(Slot(3)), ..config_map("m", 5) };
    known.apply_config_map(map, Source::Watch, 1);
    assert!(!known.lose(slots(9)) && known.lose(slots(3)) && !known.lose(slots(3)));
    assert_eq!((uids(&known), &known.objects.config_map), (vec!["c"], &None));
    assert!(known.objects.gone.is_empty(), "only a GET shows that");
    assert!(known.deletions.is_empty(), "the next owner sees their ends");
    assert!(!known.apply_pod(labelled("a", 4, 7), Source::Reply, 1), "a reply from before");
    assert!(known.apply_pod(labelled("a", 5, 3), Source::Reply, 1), "it is there");
}

#[test]
fn objects_with_labels_of_others_leave_unless_only_a_reply_showed_them() {
    for (source, leaves) in [(Source::Watch, true), (Source::Reply, false)] {
        let mut known = ObjectCache::default();
        known.apply_pod(labelled("a", 5, 3), source, 1);
        known.apply_config_map(config_map("m", 5), source, 1);
        assert!(!known.pod_relabelled(&labelled("b", 6, 7)), "another one");
        assert!(!known.config_map_relabelled(&config_map("n", 6)), "another one");
        assert_eq!(known.pod_relabelled(&labelled("a", 6, 7)), leaves);
        assert_eq!(known.config_map_relabelled(&config_map("m", 6)), leaves);
        assert_eq!((uids(&known).is_empty(), known.objects.config_map.is_none()), (leaves, leaves));
        assert!(known.objects.gone.is_empty(), "only a GET shows that");
    }
}

#[test]
fn a_pod_is_of_the_slot_by_which_the_watch_last_showed_it() {
    let mut known = ObjectCache::default();
    known.apply_pod(labelled("a", 5, 7), Source::Reply, 1);
    assert!(!known.lose(slots(7)), "the watch has not shown it");
    known.apply_pod(labelled("a", 5, 7), Source::Watch, 1);
    // The watch is yet to show that its label is back.
    known.apply_pod(labelled("a", 6, 3), Source::Reply, 1);
    assert!(!known.lose(slots(3)) && known.lose(slots(7)));
}

#[test]
fn a_pod_that_only_a_reply_showed_is_asked_for_again_after_a_list() {
    let mut known = ObjectCache::default();
    known.apply_pod(pod("a", 1), Source::Watch, 1);
    // While the next LIST runs, a GET shows the Pod; it may end before the LIST is read.
    known.apply_pod(pod("a", 5), Source::Reply, 2);
    known.sweep_pods(all(2));
    assert!(uids(&known).is_empty());
    assert!(!known.objects.gone.contains("a"), "it may be alive: a GET will tell");
}

#[test]
fn a_gone_pod_is_in_no_other_set() {
    let mut known = ObjectCache::default();
    known.apply_pod(pod("a", 1), Source::Watch, 1);
    for set in [&mut known.objects.deletes, &mut known.objects.forced_deletes, &mut known.objects.confirms] {
        set.insert("a".to_owned());
    }
    known.pod_gone("job-w-0", "a");
    let Objects { deletes, forced_deletes, confirms, gone, pods, .. } = &known.objects;
    assert!(deletes.is_empty() && forced_deletes.is_empty() && confirms.is_empty() && pods.is_empty());
    assert!(gone.contains("a"));
}

#[test]
fn acts_that_events_made_pointless_are_known_as_such() {
    let create = |config_map_uid: &str| Action::CreatePod {
        name: "job-w-0".into(),
        task_role: "w".into(),
        task_index: 0,
        instance: Instance::TaskAttempt {
            config_map_uid: config_map_uid.into(),
            task_uid: "task".into(),
            attempt_id: 0,
        },
    };
    let delete = || Action::DeletePod { name: "job-w-0".into(), uid: "a".into(), force: false };
    let confirm = || Action::ConfirmPod { name: "job-w-0".into(), uid: "a".into() };
    let pointless = |known: &ObjectCache| {
        [create("map"), create("other"), delete(), confirm()].map(|action| known.makes_pointless(&action))
    };
    let mut known = ObjectCache::default();
    assert_eq!(pointless(&known), [true, true, true, false], "no owner, nothing to delete");
    known.apply_config_map(config_map("map", 1), Source::Watch, 1);
    assert_eq!(pointless(&known), [false, true, true, false], "the owner is there");
    known.apply_pod(pod("a", 2), Source::Reply, 1);
    assert_eq!(pointless(&known), [true, true, false, false], "it is there, and the watch has not shown it");
    known.apply_pod(pod("a", 2), Source::Watch, 1);
    assert_eq!(pointless(&known), [true, true, false, true]);
    known.delete_pod(&removed("a", 3));
    assert_eq!(pointless(&known), [false, true, true, true], "it is gone");
}
