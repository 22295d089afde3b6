//! Benchmarks of evaluations, alone and in batches, and of the compression of a status.
//!
//! `cargo bench --bench evaluation -- FILTER` measures; `docs/evaluation.md` has the results. No benchmark
//! fails because it is slow.

#[path = "../tests/footprint/steady_state.rs"]
mod steady_state;

use std::hint::black_box;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use framework_api::codec::{self, Effort};
use framework_api::config::CompressionCodec;
use framework_api::pod_failure::{ContainerPattern, PodFailureRule, PodPattern};
use framework_core::classify::{Classifier, ContainerEnd, ContainerTerminated, TerminalPhase, TerminatedPod};
use framework_core::{Moment, Observed, Plan, Policy, sync};
use rayon::prelude::*;
use steady_state::{Job, SteadyState, moment, policy};

/// Tasks of one Framework.
const SIZES: [usize; 4] = [1, 20, 1000, 10_000];

/// One call of the core.
fn one(criterion: &mut Criterion) {
    let policy = policy();
    let makers: [fn(usize) -> Job; 4] = [Job::steady, Job::moved, Job::all_moved, Job::waiting];
    for (what, make) in ["at rest", "one event", "all changed", "no Pods yet"].into_iter().zip(makers) {
        let mut group = criterion.benchmark_group(format!("sync, {what}"));
        for tasks in SIZES {
            let job = make(tasks);
            group.throughput(Throughput::Elements(tasks as u64));
            group.bench_function(BenchmarkId::from_parameter(tasks), |bencher| {
                bencher.iter(|| sync(black_box(&job.observed()), moment(), &policy));
            });
        }
    }
}

/// One event of a Pod, from the watch to the end of the turn.
fn event(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("one event of a Pod");
    for tasks in SIZES {
        let mut state = SteadyState::one(tasks);
        group.bench_function(BenchmarkId::from_parameter(tasks), |bencher| {
            bencher.iter_custom(|times| {
                let events: Vec<_> = (0..times).map(|_| state.moved("job", tasks / 2)).collect();
                let begun = std::time::Instant::now();
                for event in events {
                    state.step(event);
                    black_box(state.turn());
                }
                let took = begun.elapsed();
                state.settle();
                took
            });
        });
    }
}

/// Batches of Frameworks of one size, each with one event, on one core and on all cores.
fn batches(criterion: &mut Criterion) {
    let policy = policy();
    for tasks in [1, 20, 200, 2000] {
        let job = Job::moved(tasks);
        for size in [2, 4, 8, 16, 64, 256] {
            if tasks * size > 40_000 {
                continue;
            }
            let mut group = criterion.benchmark_group(format!("batch of {size} with {tasks} Tasks each"));
            group.throughput(Throughput::Elements((tasks * size) as u64));
            let batch = vec![(job.observed(), moment()); size];
            group.bench_function("one core", |bencher| bencher.iter(|| on_one(&batch, &policy)));
            group.bench_function("all cores", |bencher| bencher.iter(|| on_all(&batch, &policy)));
        }
    }
}

fn on_one(batch: &[(Observed<'_>, Moment)], policy: &Policy) -> Vec<Plan> {
    batch.iter().map(|(observed, moment)| sync(observed, *moment, policy)).collect()
}

fn on_all(batch: &[(Observed<'_>, Moment)], policy: &Policy) -> Vec<Plan> {
    batch.par_iter().map(|(observed, moment)| sync(observed, *moment, policy)).collect()
}

/// Compressing the status of a Framework, and reading it back.
fn codecs(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("codec, 1000 Tasks");
    group.sample_size(10);
    let job = Job::steady(1000);
    let json = serde_json::to_vec(job.roles()).unwrap();
    group.throughput(Throughput::Bytes(json.len() as u64));
    group.bench_function("JSON alone", |bencher| {
        bencher.iter_batched(Vec::new, |to| serde_json::to_writer(to, job.roles()), BatchSize::LargeInput);
    });
    for (codec, name) in [(CompressionCodec::Zstd, "zstd"), (CompressionCodec::Gzip, "gzip")] {
        for effort in [Effort::Fast, Effort::Good, Effort::Best] {
            let text = codec::encode_json(&job.roles(), codec, effort).unwrap();
            let what = format!("{name} {effort:?}: {} to {} bytes", json.len(), text.len());
            group.bench_function(&what, |bencher| {
                bencher.iter(|| codec::encode_json(black_box(&job.roles()), codec, effort));
            });
            group.bench_function(format!("{what}, back"), |bencher| {
                bencher.iter(|| codec::decode(black_box(&text)));
            });
        }
    }
}

/// A failed Pod whose message of 4 KiB meets none of many patterns: each is tried.
fn classification(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("classify a Pod, 4 KiB of message");
    let message = "worker 17: step 4096 of 8192 took 0.731 s, loss 0.0132\n".repeat(75);
    let end = ContainerTerminated { message, exit_code: 7, ..ContainerTerminated::default() };
    let pod = TerminatedPod {
        phase: TerminalPhase::Failed,
        pod_name: "job-worker-0".to_owned(),
        reason: String::new(),
        message: String::new(),
        containers: vec![ContainerEnd { name: "main".to_owned(), terminated: Some(end) }],
    };
    type Text = fn(i32) -> String;
    let texts: [(&str, Text); 2] = [
        ("a word", |rule| format!("(?msi)error number {rule}")),
        ("any text before it", |rule| format!("(?ms)^.*(took|loss).*error number {rule}$")),
    ];
    for (what, text) in texts {
        for rules in [50, 500] {
            let rules: Vec<_> = (1..=rules).map(|rule| by_message(rule, text(rule))).collect();
            let classifier = Classifier::new(&rules).expect("they are sound");
            assert_eq!(classifier.classify(&pod).code, 7, "no rule matches");
            group.bench_function(format!("{} rules, {what}", rules.len()), |bencher| {
                bencher.iter(|| classifier.classify(black_box(&pod)));
            });
        }
    }
}

/// A rule whose code no container of the benchmark has.
fn by_message(rule: i32, regex: String) -> PodFailureRule {
    let container = ContainerPattern { message_regex: Some(regex), ..ContainerPattern::default() };
    let pattern = PodPattern { containers: vec![container], ..PodPattern::default() };
    PodFailureRule { code: 1000 + rule, phrase: String::new(), r#type: None, pod_patterns: vec![pattern] }
}

criterion_group!(benches, one, event, batches, codecs, classification);
criterion_main!(benches);
