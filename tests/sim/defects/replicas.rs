//! Each rule of sharding switched off: the walk of replicas finds a slot with two owners, or a request of
//! one that is not an owner.

use framework_core::Defect;
use framework_shard::defect::Defect as ShardDefect;

use crate::simulation::walk::Manner;
use crate::simulation::walk::replicas::walk;

/// A rule must be missed within so many walks.
const PATIENCE: u64 = 60;

/// A rule that a walk lacks.
#[derive(Clone, Copy, Debug)]
enum Rule {
    OfFrameworks(Defect),
    OfSlots(ShardDefect),
    /// The admission policy that compares epochs.
    Epochs,
}

/// The first seed from `from` on whose walk breaks a promise, and the message.
fn first(rule: Rule, from: u64) -> Option<(u64, String)> {
    let change = |policy: &mut framework_core::Policy| {
        if let Rule::OfFrameworks(rule) = rule {
            policy.defects.insert(rule);
        }
    };
    let lack = if let Rule::OfSlots(rule) = rule { Some(rule) } else { None };
    let lacks_epoch_policy = matches!(rule, Rule::Epochs);
    (from..from + PATIENCE).find_map(|seed| {
        let manner = Manner { policy: Some(&change), lacks_epoch_policy, ..Manner::default() };
        Some((seed, walk(seed, manner, lack).walked.broken?.what))
    })
}

#[test]
fn the_walk_of_replicas_misses_each_rule_that_is_switched_off() {
    // Two owners at a time show rarely: the walks begin near a seed that shows them.
    let cases = [
        (Rule::OfSlots(ShardDefect::TakeOverAtOnce), 50),
        (Rule::OfFrameworks(Defect::HandOverEarly), 0),
        (Rule::OfFrameworks(Defect::ForgetHold), 0),
        (Rule::Epochs, 0),
    ];
    let unmissed = cases.map(|(rule, from)| {
        let found = first(rule, from);
        let what = found.as_ref().map(|(seed, what)| format!("by seed {seed}, from {from} on: {what}"));
        eprintln!("{rule:?}: {}", what.as_deref().unwrap_or("not found"));
        found.is_none().then(|| format!("{rule:?}"))
    });
    let unmissed: Vec<_> = unmissed.into_iter().flatten().collect();
    assert!(unmissed.is_empty(), "nothing goes wrong without {unmissed:?}");
}
