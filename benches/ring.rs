//! Benchmarks of the assignment of slots: the hash ring, and the owner of each slot after a change of
//! members.
//!
//! `cargo bench --bench ring -- FILTER` measures. No benchmark fails because it is slow. The leader computes
//! an assignment several times in each renewal interval, mostly at rest.

use std::collections::{BTreeMap, BTreeSet};
use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use framework_message::Slot;
use framework_shard::Incarnation;
use framework_shard::ring::assign;

const MEMBERS: [usize; 3] = [3, 10, 100];

type Owners = BTreeMap<Slot, Option<Incarnation>>;

fn members(count: usize) -> BTreeSet<Incarnation> {
    let member = |number| Incarnation::new(&format!("frameworkcontroller-member-{number}"), "1f0c77e2");
    (0..count).map(member).collect()
}

fn unowned() -> Owners {
    Slot::all().map(|slot| (slot, None)).collect()
}

fn owned(members: &BTreeSet<Incarnation>) -> Owners {
    assign(&unowned(), members).into_iter().map(|(slot, owner)| (slot, Some(owner))).collect()
}

/// The assignment of all slots to so many members, from owners as `before` has them for that number.
fn group(criterion: &mut Criterion, what: &str, before: impl Fn(usize) -> Owners) {
    let mut group = criterion.benchmark_group(format!("slots, {what}"));
    for count in MEMBERS {
        let (owners, members) = (before(count), members(count));
        group.bench_function(BenchmarkId::from_parameter(count), |bencher| {
            bencher.iter(|| assign(black_box(&owners), black_box(&members)));
        });
    }
}

fn changes(criterion: &mut Criterion) {
    group(criterion, "the first owners", |_| unowned());
    group(criterion, "at rest", |count| owned(&members(count)));
    group(criterion, "after one member joined", |count| owned(&members(count - 1)));
    group(criterion, "after one member left", |count| owned(&members(count + 1)));
}

criterion_group!(benches, changes);
criterion_main!(benches);
