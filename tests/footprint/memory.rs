//! The size of the cache, counted by the allocator: 100,000 Pods, and as many Tasks of Frameworks. They come
//! as in production: as pages of a LIST through the client, the decoder and the engine.
//!
//! This is a program of its own, because the counting allocator is that of the whole program. It counts the
//! allocations of the one thread on which everything here runs.

use std::sync::Arc;
use std::time::Duration;

use allocation_counter::{AllocationInfo, measure};
use framework_core::Policy;
use framework_core::classify::Classifier;
use framework_engine::engine::{Engine, EngineSettings};
use framework_engine::event::Event;
use framework_engine::object::PodObject;
use framework_message::{Change, Now};
use framework_runtime::metrics::Metrics;
use framework_runtime::watch::{Kind, Selector, Sink, Turn, watch};
use framework_runtime::wire::FrameworkText;
use jiff::Timestamp;
use tokio::sync::mpsc;

use crate::synthetic::{Phase, SyntheticCluster};

/// The bound on a cached Pod with its place in the index, while it runs and with how it ended: a tenth more
/// than measured. Never to be above 1,000.
const BYTES_PER_POD: [(Phase, usize); 2] = [(Phase::Running, 540), (Phase::Succeeded, 790)];
/// The same of a Task, with its share of its Framework.
const BYTES_PER_TASK: usize = 960;
const PODS: usize = 100_000;
/// Of a Framework.
const TASKS: usize = 20;

fn engine() -> Engine {
    let classifier = Classifier::new(&[]).expect("no rules are valid rules");
    Engine::new(EngineSettings::default(), Arc::new(Policy::new(classifier)))
}

/// Lists all objects of a kind into the engine, and returns the allocations.
fn list<T: Kind>(engine: &mut Engine, synthetic: &SyntheticCluster) -> AllocationInfo {
    measure(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        runtime.expect("a runtime starts").block_on(take_in::<T>(engine, synthetic));
    })
}

async fn take_in<T: Kind>(engine: &mut Engine, synthetic: &SyntheticCluster) {
    let now =
        Now { steady: Duration::from_secs(1), boot: Duration::from_secs(1), wall: Timestamp::UNIX_EPOCH };
    let (sender, mut receiver) = mpsc::channel(4096);
    let sink = Sink::new(sender, Metrics::new(), Arc::default());
    let rng = fastrand::Rng::with_seed(1);
    let watching =
        tokio::spawn(watch::<T>(synthetic.client(), Selector::of::<T>(), sink, Turn::default(), rng));
    while let Some(event) = receiver.recv().await {
        let framework_runtime::event::Event::Engine(event) = event else { panic!("{event:?}") };
        let done = matches!(event, Event::Framework(Change::Synced) | Event::Pod(Change::Synced));
        engine.step(now, event);
        if done {
            break;
        }
    }
    watching.abort();
}

fn whole(bytes: i64) -> usize {
    usize::try_from(bytes).expect("it does not shrink")
}

/// The memory that the Pods take in the end, and the peak on the way, each a Pod.
fn shares(taken: AllocationInfo) -> (usize, usize) {
    let peak = usize::try_from(taken.bytes_max).expect("it fits into memory");
    (whole(taken.bytes_current) / PODS, peak / PODS)
}

#[test]
fn a_cached_pod_takes_under_a_kilobyte_and_a_list_under_twice_that() {
    for (phase, bytes) in BYTES_PER_POD {
        let (mut engine, synthetic) = (engine(), SyntheticCluster::new(PODS / TASKS, TASKS, phase));
        let (steady, peak) = shares(list::<PodObject>(&mut engine, &synthetic));
        assert_eq!(engine.gauges().pods, PODS);
        println!("{PODS} Pods, {phase:?}: {steady} bytes each, {peak} at the peak of the LIST");
        assert!(steady <= bytes, "{steady} bytes a Pod");
        assert!(peak <= 2 * steady, "{peak} bytes a Pod while they are listed, {steady} after it");
        // Listed again, as after a watch that was too far behind: the old ones are there meanwhile.
        let again = list::<PodObject>(&mut engine, &synthetic);
        let (more, peak) = (again.bytes_current / PODS as i64, again.bytes_max as usize / PODS);
        println!("listed again: {more} bytes more each, {peak} at the peak");
        assert!(more.unsigned_abs() < 50, "listed again, each takes {more} bytes more");
        assert!(steady + peak <= 2 * steady, "{peak} bytes a Pod beside {steady}");
    }
}

#[test]
fn a_task_that_is_listed_with_its_framework_takes_little_more_than_a_pod() {
    let (mut engine, synthetic) = (engine(), SyntheticCluster::new(PODS / TASKS, TASKS, Phase::Running));
    let (steady, peak) = shares(list::<FrameworkText>(&mut engine, &synthetic));
    println!("{PODS} Tasks, {TASKS} a Framework: {steady} bytes each, {peak} at the peak of the LIST");
    assert!(steady <= BYTES_PER_TASK, "{steady} bytes a Task");
    assert!(peak <= 2 * steady, "{peak} bytes a Task while they are listed, {steady} after it");
}
