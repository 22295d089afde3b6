//! Several replicas share the Frameworks: one that ends, by a signal or a crash, is replaced by the others.

use std::time::{Duration, Instant};

use crate::cluster::history::Recording;
use crate::cluster::lease::{Alone, namespace};
use crate::cluster::replicas::Replicas;
use crate::cluster::{self, completed, kubectl, log_of, manifest};

const FRAMEWORKS: usize = 24;

fn name(index: usize) -> String {
    format!("job{index:02}")
}

/// Frameworks of three Tasks that run for some seconds, some of which fail once.
fn create(namespace: &str) {
    for index in 0..FRAMEWORKS {
        let fate = [("run-duration", "6s"), ("exit-code", "200"), ("only-task-attempt", "0")];
        let fate = if index % 3 == 0 { &fate[..] } else { &fate[..1] };
        manifest(&name(index)).role("worker", 3, fate).task_retry(true, 0).create(namespace);
    }
}

/// Runs the Frameworks to their ends, with a disturbance once they run.
fn run(namespace: &str, disturb: impl FnOnce() -> Duration) -> Duration {
    let recording = Recording::start(namespace);
    create(namespace);
    for index in 0..FRAMEWORKS {
        cluster::running(namespace, &name(index), 3);
    }
    let took = disturb();
    for index in 0..FRAMEWORKS {
        completed(namespace, &name(index));
    }
    recording.end().assert_promises_are_kept();
    took
}

#[test]
fn replicas_that_come_and_go_lose_nothing_and_run_nothing_twice() {
    let _alone = Alone::wait();
    let mut replicas = Replicas::none();
    replicas.start("a", "");
    replicas.await_shares();
    let ns = namespace("replicas");
    // One replica alone gives Frameworks no label; with the second one they get it, while they run.
    let took = run(&ns, || {
        replicas.start("b", "");
        replicas.await_shares()
    });
    println!("a second replica had its share after {took:?}");
    let ns = namespace("replicas-crash");
    let took = run(&ns, || {
        replicas.kill("a");
        replicas.forget("a");
        replicas.await_shares()
    });
    println!("a replica that was killed had lost its slots after {took:?}");
    cluster::until("the Event that says so", || {
        let told = kubectl(&["describe", "lease", "frameworkcontroller-leader", "--namespace", "default"]);
        told.contains("SlotsMoved").then_some(())?;
        let [a, b] = ["a", "b"].map(|host| format!("frameworkcontroller-member-{host}"));
        told.contains(&format!("slots of {a} went to {b}, which waits for requests")).then_some(())
    });
    replicas.start("c", "");
    replicas.await_shares();
    let ns = namespace("replicas-stop");
    let took = run(&ns, || {
        let begun = Instant::now();
        let status = replicas.stop("c");
        assert!(status.success(), "{status}\n{}", log_of("c"));
        let took = begun.elapsed();
        replicas.await_shares();
        took
    });
    println!("a replica that was stopped had handed over after {took:?}");
}
