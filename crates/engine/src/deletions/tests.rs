//! Which Pods are told of as gone, event by event.

use super::*;
use framework_api::Time;
use framework_core::observed::{Deletion, PodPhase};
use framework_message::Key;
use serde_json::value::to_raw_value;

const NAME: &str = "job-w-0";

fn facts(uid: &str, grace_sec: Option<i64>) -> PodFacts {
    let at = Time::floor(jiff::Timestamp::UNIX_EPOCH);
    PodFacts {
        uid: uid.into(),
        config_map_uid: "map".into(),
        phase: PodPhase::Running,
        deletion: grace_sec.map(|grace_sec| Deletion { at, grace_sec }),
        node_name: String::new(),
        pod_ip: String::new(),
        host_ip: String::new(),
        end: None,
        unwatched: false,
    }
}

/// As a DELETED event shows it.
fn event(uid: &str, grace_sec: Option<i64>) -> PodObject {
    let last = grace_sec.map(|_| to_raw_value(&uid).unwrap());
    let (key, name) = (Key::new("ns", "job"), NAME.to_owned());
    PodObject { key, name, resource_version: 9, facts: facts(uid, grace_sec), labelled: true, last }
}

/// UIDs of those that are told of, and whether they are whole.
fn gone(departures: &mut Departures) -> Vec<(String, bool)> {
    let told = departures.take_gone().into_iter();
    told.map(|pod| (pod.uid, matches!(pod.state, LastState::Whole(_)))).collect()
}

fn whole(uid: &str) -> Vec<(String, bool)> {
    vec![(uid.to_owned(), true)]
}

fn partly(uid: &str) -> Vec<(String, bool)> {
    vec![(uid.to_owned(), false)]
}

#[test]
fn an_event_that_shows_no_time_left_is_an_end() {
    let mut departures = Departures::default();
    departures.unselected(&event("a", Some(0)));
    assert_eq!(gone(&mut departures), whole("a"));
    assert!(departures.is_empty(), "told once");
}

#[test]
fn a_pod_that_lost_its_label_is_told_of_only_if_it_is_gone_after_all() {
    for grace in [None, Some(30)] {
        let mut departures = Departures::default();
        departures.unselected(&event("a", grace));
        assert_eq!(gone(&mut departures), []);
        departures.present(NAME, "a", false);
        departures.confirmed(NAME, "a");
        assert_eq!(gone(&mut departures), [], "it was found alive");

        departures.unselected(&event("a", grace));
        departures.confirmed(NAME, "other");
        assert_eq!(gone(&mut departures), []);
        departures.confirmed(NAME, "a");
        assert_eq!(gone(&mut departures), partly("a"), "it changed since, and nobody saw");

        departures.unselected(&event("a", grace));
        departures.unasked();
        assert_eq!(gone(&mut departures), [], "nobody knows of its end");
        assert!(departures.is_empty());
    }
}

#[test]
fn what_a_list_misses_is_asked_for_or_told_of_incomplete() {
    let mut departures = Departures::default();
    departures.unlisted("x", &facts("ending", Some(0)), 5);
    departures.unlisted("y", &facts("recorded", None), 5);
    departures.unlisted("z", &facts("unknown", Some(30)), 5);
    departures.listed(|uid| uid == "recorded");
    assert_eq!(gone(&mut departures), [partly("ending"), partly("unknown")].concat());
    assert!(!departures.is_empty(), "a GET is awaited");
    departures.confirmed("y", "recorded");
    assert_eq!(gone(&mut departures), partly("recorded"));

    departures.unlisted("y", &facts("recorded", None), 5);
    departures.listed(|_| true);
    departures.unasked();
    assert_eq!(gone(&mut departures), partly("recorded"), "its Framework is gone, nobody asks");
}

#[test]
fn a_pod_that_a_reply_calls_gone_is_told_of_when_the_event_comes() {
    let mut departures = Departures::default();
    departures.gone(NAME, &facts("a", None), 5, true);
    departures.confirmed(NAME, "a");
    departures.unasked();
    assert_eq!(gone(&mut departures), []);
    departures.unselected(&event("a", Some(0)));
    assert_eq!(gone(&mut departures), whole("a"));
    departures.gone(NAME, &facts("b", None), 5, true);
    departures.unselected(&event("b", Some(30)));
    assert_eq!(gone(&mut departures), partly("b"), "it lost its label first");
}

#[test]
fn a_pod_that_no_event_will_show_is_told_of_incomplete() {
    let mut departures = Departures::default();
    departures.gone(NAME, &facts("a", None), 5, false);
    assert_eq!(gone(&mut departures), partly("a"), "it had no label");
    departures.gone(NAME, &facts("b", None), 5, true);
    departures.listed(|_| true);
    assert_eq!(gone(&mut departures), partly("b"), "the watch goes on from the LIST");
    departures.gone(NAME, &facts("c", None), 5, true);
    departures.present(NAME, "d", false);
    assert_eq!(gone(&mut departures), [], "a GET may be ahead of the watch");
    departures.present(NAME, "d", true);
    assert_eq!(gone(&mut departures), partly("c"), "its name is taken");
    departures.gone(NAME, &facts("e", None), 5, true);
    departures.gone(NAME, &facts("f", None), 6, true);
    assert_eq!(gone(&mut departures), partly("e"));
}

#[test]
fn a_pod_that_is_released_is_not_told_of() {
    let mut departures = Departures::default();
    departures.unselected(&event("a", Some(30)));
    departures.released(NAME, "a");
    departures.confirmed(NAME, "a");
    assert_eq!(gone(&mut departures), []);
}
