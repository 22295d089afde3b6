//! The watch of the Pods in queues, whose label names the slot of their namespace or is missing.

use framework_api::queue::NAMESPACE_SLOT_LABEL;
use framework_message::Slots;
use framework_queueing::PodUse;

use super::*;

/// A Pod of this slot; `None`: its label is missing.
fn pod_of(slot: Option<u8>, name: &str, version: &str) -> Value {
    let mut pod = pod(name, version, "job-attempt");
    if let Some(slot) = slot {
        pod["metadata"]["labels"] = json!({NAMESPACE_SLOT_LABEL: slot.to_string()});
    }
    pod
}

/// Begins to watch by the script.
fn begin(script: &Script, selector: Selector) -> (mpsc::Receiver<Event>, tokio::task::JoinHandle<()>) {
    let (sender, receiver) = mpsc::channel(64);
    let sink = Sink::new(sender, Metrics::new(), Arc::default());
    let (client, rng) = (script.client(), fastrand::Rng::with_seed(1));
    (receiver, tokio::spawn(watch::<PodUse>(client, selector, sink, Turn::default(), rng)))
}

/// The events of a watch until nothing happens any more.
async fn shown(events: &mut mpsc::Receiver<Event>) -> Vec<String> {
    let mut shown = Vec::new();
    while let Ok(Some(event)) = tokio::time::timeout(Duration::from_secs(10), events.recv()).await {
        shown.push(match event {
            Event::Queue(QueueEvent::PodsSelected(share)) if share.list == Slots::ALL => "all".to_owned(),
            Event::Queue(QueueEvent::PodsSelected(share)) => {
                let slots: Vec<String> = share.list.iter().map(|slot| slot.to_string()).collect();
                format!("of {}", slots.join(","))
            }
            Event::Queue(QueueEvent::PodsAreWatched(true)) => "open".to_owned(),
            Event::Queue(QueueEvent::PodsAreWatched(false)) => "closed".to_owned(),
            Event::Queue(QueueEvent::Pod(Change::Restarted)) => "restarted".to_owned(),
            Event::Queue(QueueEvent::Pod(Change::Synced)) => "synced".to_owned(),
            Event::Queue(QueueEvent::Pod(Change::Listed(pod) | Change::Applied(pod))) => {
                pod.key.name.to_string()
            }
            Event::Queue(QueueEvent::Pod(Change::Deleted(pod))) => format!("{} is gone", pod.key.name),
            event => panic!("{event:?}"),
        });
    }
    shown
}

#[tokio::test(start_paused = true)]
async fn pods_that_name_no_slot_are_listed_once_and_those_of_a_grant_alone() {
    let script = Script::new(vec![
        list("10", "", &[pod_of(None, "a", "3")]),
        events(&[("ADDED", pod_of(None, "b", "12"))]),
    ]);
    let (changes, within) = tokio::sync::watch::channel(SlotSelection::whole(0, Slots::NONE));
    let (mut receiver, watching) = begin(&script, Selector::of::<PodUse>().within(within));
    let expected = ["closed", "all", "restarted", "a", "synced", "open", "b", "closed"];
    assert_eq!(shown(&mut receiver).await, expected);
    script.replies.lock().unwrap().extend([
        list("20", "", &[pod_of(Some(7), "a", "18")]),
        events(&[
            // It got the label after it was shown without, and was deleted before the LIST.
            ("MODIFIED", pod_of(Some(7), "b", "16")),
            ("DELETED", pod_of(Some(7), "b", "17")),
            ("MODIFIED", pod_of(Some(7), "a", "18")),
            // It lost the label before the LIST, and gets it back after it.
            ("MODIFIED", pod_of(None, "c", "19")),
            ("MODIFIED", pod_of(Some(7), "c", "21")),
        ]),
    ]);
    changes.send(SlotSelection::whole(1, of(&[7]))).unwrap();
    let expected = ["of 7", "restarted", "a", "synced", "open", "b is gone", "c", "c", "closed"];
    assert_eq!(shown(&mut receiver).await, expected);
    changes.send(SlotSelection::whole(1, Slots::NONE)).unwrap();
    assert_eq!(shown(&mut receiver).await, ["of ", "restarted", "synced"]);
    watching.abort();
    let asked = script.asked();
    let selectors: Vec<(&str, usize, bool)> = asked
        .iter()
        .map(|uri| {
            let (_, selector) = uri.split_once("namespace-slot+").unwrap();
            let (word, slots) = selector.split_once("+%28").unwrap();
            let count = slots.split_once("%29").unwrap().0.split("%2C").count();
            (word, count, uri.contains("watch=true"))
        })
        .collect();
    let expected = [
        ("notin", 256, false),
        ("notin", 256, true),
        ("notin", 256, true),
        ("in", 1, false),
        ("notin", 255, true),
        ("notin", 255, true),
        ("notin", 256, true),
    ];
    assert_eq!(selectors, expected, "{asked:?}");
}

#[tokio::test(start_paused = true)]
async fn between_a_part_and_all_slots_only_the_difference_is_listed() {
    let script = Script::new(vec![list("10", "", &[pod_of(Some(7), "a", "3")]), events(&[])]);
    let (changes, within) = tokio::sync::watch::channel(SlotSelection::whole(1, of(&[7])));
    let (mut receiver, watching) = begin(&script, Selector::of::<PodUse>().within(within));
    let expected = ["closed", "all", "restarted", "a", "synced", "open", "closed"];
    assert_eq!(shown(&mut receiver).await, expected);
    let others = Slots::ALL.without(of(&[7]));
    script.replies.lock().unwrap().extend([list("20", "", &[pod_of(Some(9), "b", "4")]), events(&[])]);
    changes.send(SlotSelection { grant: 2, slots: Slots::ALL, list: others }).unwrap();
    let seen = shown(&mut receiver).await;
    assert_eq!(seen[1..], ["restarted", "b", "synced", "open", "closed"]);
    assert_eq!(seen[0].split(',').count(), 255, "{seen:?}");
    changes.send(SlotSelection { grant: 2, slots: of(&[7]), list: Slots::NONE }).unwrap();
    assert_eq!(shown(&mut receiver).await, ["of ", "restarted", "synced"]);
    watching.abort();
    let asked = script.asked();
    let lists = asked.iter().filter(|uri| !uri.contains("watch=true"));
    let selectors: Vec<_> = lists.map(|uri| uri.contains("namespace-slot+notin")).collect();
    assert_eq!(selectors, [true, false], "all, and then the other slots: {asked:?}");
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_fails_shows_no_changes_until_it_is_open_again() {
    let failed = (200, "this is no event".to_owned());
    let script = Script::new(vec![
        list("10", "", &[]),
        failed,
        (503, String::new()),
        events(&[("ADDED", pod_of(None, "a", "11"))]),
    ]);
    let (mut receiver, watching) = begin(&script, Selector::of::<PodUse>());
    let expected = ["closed", "restarted", "synced", "open"];
    // After the bad line the stream might have gone on.
    let expected = expected.into_iter().chain(["closed", "open", "closed", "open", "a", "closed"]);
    assert_eq!(shown(&mut receiver).await, expected.collect::<Vec<_>>());
    watching.abort();
}

#[tokio::test(start_paused = true)]
async fn the_grant_of_all_slots_lists_what_names_no_slot_too() {
    let script = Script::new(vec![list("10", "", &[pod_of(None, "a", "3")])]);
    let (changes, within) = tokio::sync::watch::channel(SlotSelection::whole(0, Slots::NONE));
    let (mut receiver, watching) = begin(&script, Selector::of::<PodUse>().within(within));
    assert_eq!(shown(&mut receiver).await, ["closed", "all", "restarted", "a", "synced"]);
    script.replies.lock().unwrap().push_back(list("20", "", &[pod_of(None, "a", "3")]));
    changes.send(SlotSelection::whole(1, Slots::ALL)).unwrap();
    assert_eq!(shown(&mut receiver).await, ["all", "restarted", "a", "synced"]);
    watching.abort();
    let asked = script.asked();
    let lists: Vec<_> = asked.iter().filter(|uri| !uri.contains("watch=true")).collect();
    assert!(lists.len() == 2 && !lists[1].contains("namespace-slot"), "{asked:?}");
}
