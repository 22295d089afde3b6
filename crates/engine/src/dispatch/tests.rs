//! The order of requests, key by key.

use super::recent::MEMORY;
use super::rotation::TURN;
use super::*;
use std::collections::BTreeSet;

fn key(name: &str) -> Key {
    Key::new("ns", name)
}

/// The names in the order in which they are served, for names with this many requests each.
fn order(dispatch: &mut Dispatch, class: Class, left: &[(&'static str, usize)]) -> Vec<&'static str> {
    let mut left = left.to_vec();
    for (name, _) in &left {
        for _ in 0..3 {
            dispatch.offer(class, &key(name));
        }
    }
    let mut order = Vec::new();
    while let Some((class, key)) = dispatch.take() {
        let (name, left) = left.iter_mut().find(|(name, _)| **name == *key.name).unwrap();
        order.push(*name);
        *left -= 1;
        if *left > 0 {
            dispatch.offer(class, &key);
        }
    }
    order
}

#[test]
fn records_go_before_deletes_and_deletes_before_creates() {
    let mut dispatch = Dispatch::default();
    dispatch.offer(Class::Create, &key("a"));
    dispatch.offer(Class::Delete, &key("b"));
    dispatch.offer(Class::Record, &key("c"));
    let order: Vec<_> = std::iter::from_fn(|| dispatch.take()).map(|(class, _)| class).collect();
    assert_eq!(order, Class::ALL);
}

#[test]
fn a_turn_is_not_shared_and_the_next_ones_come_in_rotation() {
    let mut dispatch = Dispatch::default();
    let order = order(&mut dispatch, Class::Create, &[("big", 100), ("large", 70), ("a", 1)]);
    let turn = TURN as usize;
    assert_eq!(order.len(), 171);
    assert!(order[..turn].iter().all(|name| *name == "big"), "{order:?}");
    let rest: Vec<_> = order[turn..].chunk_by(|one, next| one == next).map(<[_]>::len).collect();
    // In its first turn, "large" shares with the remaining turns of "big".
    assert!(rest.iter().all(|taken| *taken <= turn), "{rest:?}");
    let done = |name| order.iter().rposition(|one| *one == name).unwrap();
    assert!(done("a") < done("large") && done("large") < order.len(), "{order:?}");
}

#[test]
fn a_small_framework_waits_for_no_turn_of_a_large_one() {
    for class in [Class::Delete, Class::Create] {
        let mut dispatch = Dispatch::default();
        dispatch.offer(Class::Delete, &key("big"));
        for _ in 0..TURN + 1 {
            let (class, key) = dispatch.take().unwrap();
            dispatch.offer(class, &key);
        }
        // "big" is in its second turn. Each of the small ones is served immediately, or after one
        // request.
        for number in 0..100 {
            let small = key(&format!("small{number}"));
            dispatch.offer(class, &small);
            let served: Vec<Key> = (0..2)
                .map(|_| {
                    let (class, taken) = dispatch.take().unwrap();
                    if taken != small {
                        dispatch.offer(class, &taken);
                    }
                    taken
                })
                .collect();
            assert!(served.contains(&small), "{class:?} {number}: {served:?}");
            assert!(served.contains(&key("big")), "{class:?} {number}: {served:?}");
        }
    }
}

#[test]
fn the_kept_budget_is_shared_by_first_turns_and_the_others() {
    let mut dispatch = Dispatch::default();
    let serve = |dispatch: &mut Dispatch| {
        let part = dispatch.part();
        let (class, taken) = dispatch.take().unwrap();
        if taken == key("big") {
            dispatch.offer(class, &taken);
        }
        (part, taken)
    };
    dispatch.offer(Class::Create, &key("big"));
    for request in 0..3 * TURN {
        // The first request after the first turn was earned by the last request of that turn.
        let part = if request <= TURN { Part::Whole } else { Part::Upper };
        assert_eq!(serve(&mut dispatch), (part, key("big")), "{request}");
    }
    dispatch.offer(Class::Create, &key("small"));
    assert_eq!(serve(&mut dispatch), (Part::Whole, key("small")));
    assert_eq!(serve(&mut dispatch), (Part::Whole, key("big")), "it is its turn");
    assert_eq!(serve(&mut dispatch), (Part::Upper, key("big")));
    dispatch.offer(Class::Record, &key("big"));
    assert_eq!(serve(&mut dispatch), (Part::Whole, key("big")), "a record");
}

#[test]
fn requests_sent_long_ago_are_forgotten_and_take_no_memory() {
    let mut dispatch = Dispatch::default();
    for number in 0..5 * MEMORY {
        dispatch.offer(Class::Create, &key(&number.to_string()));
        dispatch.take().unwrap();
    }
    assert!(dispatch.recent.len() as u64 <= 2 * MEMORY, "{}", dispatch.recent.len());
}

/// The namespaces of the next requests, each key of which has more to send.
fn served(dispatch: &mut Dispatch, requests: usize) -> Vec<String> {
    let mut served = Vec::new();
    for _ in 0..requests {
        let Some((class, key)) = dispatch.take() else { break };
        dispatch.offer(class, &key);
        served.push(key.namespace.to_string());
    }
    served
}

#[test]
fn a_namespace_of_thousands_makes_another_wait_for_one_request() {
    for class in Class::ALL {
        let mut dispatch = Dispatch::default();
        for number in 0..5000 {
            dispatch.offer(class, &Key::new("many", &number.to_string()));
        }
        served(&mut dispatch, 100);
        let own = Key::new("few", "own");
        for step in 0..1000 {
            dispatch.offer(class, &own);
            let mut waited = 0;
            loop {
                let (class, key) = dispatch.take().unwrap();
                if key == own {
                    break;
                }
                dispatch.offer(class, &key);
                waited += 1;
            }
            assert!(waited <= 1, "{class:?}, step {step}: {waited}");
            // It asks again somewhat later, as a Framework does that waits for a reply.
            served(&mut dispatch, 3);
        }
    }
}

#[test]
fn two_namespaces_that_want_all_get_half_each() {
    let mut dispatch = Dispatch::default();
    for number in 0..5000 {
        dispatch.offer(Class::Record, &Key::new("many", &number.to_string()));
    }
    served(&mut dispatch, 100);
    dispatch.offer(Class::Create, &Key::new("one", "large"));
    let served = served(&mut dispatch, 2000);
    let large = served.iter().filter(|namespace| *namespace == "one").count();
    assert!((900..1100).contains(&large), "{large} of 2000");
}

#[test]
fn the_kept_budget_is_there_for_a_light_namespace() {
    let mut dispatch = Dispatch::default();
    dispatch.offer(Class::Create, &Key::new("many", "large"));
    served(&mut dispatch, 100);
    assert_eq!(dispatch.part(), Part::Upper);
    dispatch.offer(Class::Create, &Key::new("few", "own"));
    assert_eq!(dispatch.part(), Part::Whole);
    assert_eq!(&*dispatch.take().unwrap().1.namespace, "few");
    dispatch.offer(Class::Record, &Key::new("many", "large"));
    assert_eq!(dispatch.part(), Part::Upper, "from now on it is kept from records, too");
}

/// Lets a namespace without much on its way go next. Returns the namespace that does.
fn next(dispatch: &mut Dispatch, full: &[&str]) -> String {
    dispatch.let_others_pass(|namespace| full.contains(&namespace));
    let (class, key) = dispatch.take().unwrap();
    dispatch.offer(class, &key);
    key.namespace.to_string()
}

#[test]
fn a_namespace_with_much_on_its_way_lets_others_pass() {
    let mut dispatch = Dispatch::default();
    for namespace in ["a", "b", "c"] {
        dispatch.offer(Class::Create, &Key::new(namespace, "large"));
    }
    assert_eq!(next(&mut dispatch, &[]), "a");
    assert_eq!(next(&mut dispatch, &["a"]), "b", "though the turn of a lasts");
    assert_eq!(next(&mut dispatch, &["a", "b"]), "c");
    let all: BTreeSet<String> = (0..3).map(|_| next(&mut dispatch, &["a", "b", "c"])).collect();
    assert_eq!(all.len(), 3, "none is stopped");
    let mut alone = Dispatch::default();
    alone.offer(Class::Create, &Key::new("a", "large"));
    assert_eq!(next(&mut alone, &["a"]), "a");
}

#[test]
fn a_light_namespace_waits_for_no_heavy_one_though_several_want_all() {
    let mut dispatch = Dispatch::default();
    for namespace in ["many", "more"] {
        (0..500).for_each(|n| dispatch.offer(Class::Record, &Key::new(namespace, &n.to_string())));
    }
    served(&mut dispatch, 500);
    for _ in 0..20 {
        dispatch.let_others_pass(|_| false);
        assert_eq!(dispatch.part(), Part::Upper, "the rest is kept");
        served(&mut dispatch, 1);
        dispatch.offer(Class::Create, &Key::new("few", "own"));
        dispatch.let_others_pass(|_| false);
        assert_eq!(&*dispatch.take().unwrap().1.namespace, "few");
        // It has half on its way, and the heavy ones have less.
        dispatch.offer(Class::Create, &Key::new("few", "own"));
        dispatch.let_others_pass(|namespace| namespace == "few");
        assert_ne!(&*dispatch.take().unwrap().1.namespace, "few");
        dispatch.let_others_pass(|_| false);
        assert_eq!(&*dispatch.take().unwrap().1.namespace, "few");
    }
}

#[test]
fn records_without_end_do_not_stop_the_creates_of_their_namespace() {
    let mut dispatch = Dispatch::default();
    for number in 0..40 {
        dispatch.offer(Class::Record, &key(&format!("patched{number}")));
    }
    dispatch.offer(Class::Create, &key("own"));
    let mut creates = 0;
    for _ in 0..340 {
        let (class, key) = dispatch.take().unwrap();
        creates += usize::from(class == Class::Create);
        dispatch.offer(class, &key);
    }
    assert_eq!(creates, 20, "one after 16 records");
}

#[test]
fn namespaces_that_are_gone_take_no_memory() {
    let mut dispatch = Dispatch::default();
    for number in 0..5000 {
        dispatch.offer(Class::Create, &Key::new(&format!("ns{number}"), "own"));
        dispatch.take().unwrap();
    }
    assert!(dispatch.rotations.len() <= EMPTY + 1, "{}", dispatch.rotations.len());
    assert!(dispatch.usage.len() <= 1100, "{}", dispatch.usage.len());
}
