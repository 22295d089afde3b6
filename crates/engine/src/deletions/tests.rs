//! Which Pods are reported as gone, event by event.

use super::*;
use framework_api::Time;
use framework_core::observed::{Deletion, PodPhase};
use framework_message::Key;
use serde_json::value::to_raw_value;

const NAME: &str = "job-w-0";

fn facts(uid: &str, grace_sec: Option<i64>) -> PodFacts {
    let at = Time::floor(jiff::Timestamp::UNIX_EPOCH);
    let deletion = grace_sec.map(|grace_sec| Deletion { at, grace_sec });
    PodFacts { deletion, ..PodFacts::new(uid, "map", PodPhase::Running) }
}

/// A Pod as a DELETED event shows it.
fn event(uid: &str, grace_sec: Option<i64>) -> PodObject {
    let last = grace_sec.map(|_| to_raw_value(&uid).unwrap());
    let (key, name) = (Key::new("ns", "job"), NAME.to_owned());
    PodObject { key, name, resource_version: 9, facts: facts(uid, grace_sec), label: None, last }
}

/// UIDs of the Pods that are reported as gone, and whether the whole Pod is known.
fn gone(deletions: &mut Deletions) -> Vec<(String, bool)> {
    let pods = deletions.take_gone().into_iter();
    pods.map(|pod| (pod.uid, matches!(pod.state, LastState::Whole(_)))).collect()
}

fn whole(uid: &str) -> Vec<(String, bool)> {
    vec![(uid.to_owned(), true)]
}

fn partly(uid: &str) -> Vec<(String, bool)> {
    vec![(uid.to_owned(), false)]
}

#[test]
fn an_event_that_shows_no_time_left_is_an_end() {
    let mut deletions = Deletions::default();
    deletions.unselected(&event("a", Some(0)));
    assert_eq!(gone(&mut deletions), whole("a"));
    assert!(deletions.is_empty(), "reported once");
}

#[test]
fn a_pod_that_lost_its_label_is_reported_only_if_it_is_gone_after_all() {
    for grace in [None, Some(30)] {
        let mut deletions = Deletions::default();
        deletions.unselected(&event("a", grace));
        assert_eq!(gone(&mut deletions), []);
        deletions.present(NAME, "a", false);
        deletions.confirmed(NAME, "a");
        assert_eq!(gone(&mut deletions), [], "it was found alive");

        deletions.unselected(&event("a", grace));
        deletions.confirmed(NAME, "other");
        assert_eq!(gone(&mut deletions), []);
        deletions.confirmed(NAME, "a");
        assert_eq!(gone(&mut deletions), partly("a"), "it changed since, and nobody saw");

        deletions.unselected(&event("a", grace));
        deletions.unasked();
        assert_eq!(gone(&mut deletions), [], "nobody knows of its end");
        assert!(deletions.is_empty());
    }
}

#[test]
fn a_pod_that_a_list_misses_is_asked_for_or_reported_incomplete() {
    let mut deletions = Deletions::default();
    deletions.unlisted("x", &facts("ending", Some(0)), 5);
    deletions.unlisted("y", &facts("recorded", None), 5);
    deletions.unlisted("z", &facts("unknown", Some(30)), 5);
    deletions.listed(|uid| uid == "recorded");
    assert_eq!(gone(&mut deletions), [partly("ending"), partly("unknown")].concat());
    assert!(!deletions.is_empty(), "a GET is awaited");
    deletions.confirmed("y", "recorded");
    assert_eq!(gone(&mut deletions), partly("recorded"));

    deletions.unlisted("y", &facts("recorded", None), 5);
    deletions.listed(|_| true);
    deletions.unasked();
    assert_eq!(gone(&mut deletions), partly("recorded"), "its Framework is gone, nobody asks");
}

#[test]
fn a_pod_that_a_reply_calls_gone_is_reported_when_the_event_comes() {
    let mut deletions = Deletions::default();
    deletions.gone(NAME, &facts("a", None), 5, true);
    deletions.confirmed(NAME, "a");
    deletions.unasked();
    assert_eq!(gone(&mut deletions), []);
    deletions.unselected(&event("a", Some(0)));
    assert_eq!(gone(&mut deletions), whole("a"));
    deletions.gone(NAME, &facts("b", None), 5, true);
    deletions.unselected(&event("b", Some(30)));
    assert_eq!(gone(&mut deletions), partly("b"), "it lost its label first");
}

#[test]
fn a_pod_that_no_event_will_show_is_reported_incomplete() {
    let mut deletions = Deletions::default();
    deletions.gone(NAME, &facts("a", None), 5, false);
    assert_eq!(gone(&mut deletions), partly("a"), "it had no label");
    deletions.gone(NAME, &facts("b", None), 5, true);
    deletions.listed(|_| true);
    assert_eq!(gone(&mut deletions), partly("b"), "the watch goes on from the LIST");
    deletions.gone(NAME, &facts("c", None), 5, true);
    deletions.present(NAME, "d", false);
    assert_eq!(gone(&mut deletions), [], "a GET may be ahead of the watch");
    deletions.present(NAME, "d", true);
    assert_eq!(gone(&mut deletions), partly("c"), "its name is taken");
    deletions.gone(NAME, &facts("e", None), 5, true);
    deletions.gone(NAME, &facts("f", None), 6, true);
    assert_eq!(gone(&mut deletions), partly("e"));
}

#[test]
fn a_pod_that_is_released_is_not_reported() {
    let mut deletions = Deletions::default();
    deletions.unselected(&event("a", Some(30)));
    deletions.released(NAME, "a");
    deletions.confirmed(NAME, "a");
    assert_eq!(gone(&mut deletions), []);
}
