//! Each rule of sharding switched off: the walk of replicas finds a slot with two owners, or a request of
//! one that is not an owner.

use framework_core::Defect;
use framework_shard::defect::Defect as ShardDefect;

use crate::simulation::walk::Manner;
use crate::simulation::walk::replicas::{Lack, walk};

/// A rule must be missed within so many walks.
const PATIENCE: u64 = 60;

/// The first seed whose walk breaks a promise, and the message.
fn first(rule: Option<Defect>, lack: Lack) -> Option<(u64, String)> {
    let change = |policy: &mut framework_core::Policy| {
        if let Some(rule) = rule {
            policy.defects.insert(rule);
        }
    };
    (0..PATIENCE).find_map(|seed| {
        let manner = Manner { policy: Some(&change), ..Manner::default() };
        Some((seed, walk(seed, manner, lack).walked.broken?.what))
    })
}

#[test]
fn the_walk_of_replicas_misses_each_rule_that_is_switched_off() {
    let cases = [
        (None, Some(ShardDefect::TakeOverAtOnce)),
        (Some(Defect::HandOverEarly), None),
        (Some(Defect::ForgetHold), None),
    ];
    let unmissed = cases.map(|(rule, lack)| {
        let found = first(rule, lack);
        let what = found.as_ref().map(|(seed, what)| format!("after {} seeds: {what}", seed + 1));
        eprintln!("{rule:?} {lack:?}: {}", what.as_deref().unwrap_or("not found"));
        found.is_none().then(|| format!("{rule:?} {lack:?}"))
    });
    let unmissed: Vec<_> = unmissed.into_iter().flatten().collect();
    assert!(unmissed.is_empty(), "nothing goes wrong without {unmissed:?}");
}
