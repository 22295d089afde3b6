//! Many completed Frameworks that are all due in one second, in the simulated cluster with the production
//! controller. The controller sends nothing while they wait, and then a few questions and as many DELETEs as
//! Frameworks.
//!
//! `FRAMEWORK_SIM_TIMERS` chooses how many; the gate does a slice.

use std::time::Duration;

use framework_api::{Framework, Time};
use framework_sim::{History, Meta, Options, SimCluster, Verb, check};
use serde_json::{Value, json};

use crate::finished::finished;
use crate::simulation::controller::{Controller, Setup};
use crate::simulation::life::calm;
use crate::simulation::{self, SECOND, pass, simulate};

/// How many in the gate.
const MANY: usize = 1_000;
/// Seconds after their completion at which all are due.
const TTL: u32 = 2 * 3600;
const QPS: u32 = 5_000;

fn many() -> usize {
    let named = std::env::var("FRAMEWORK_SIM_TIMERS").ok();
    named.map_or(MANY, |text| text.parse().expect("FRAMEWORK_SIM_TIMERS is a number"))
}

/// Frameworks that complete now.
fn complete(cluster: &SimCluster) {
    let user = cluster.user();
    let now = Time::floor(cluster.clock().server_now());
    let mut status: Option<Value> = None;
    for index in 0..many() {
        let name = format!("job{index}");
        let job = simulation::manifest::framework(&name).kept_for(TTL.into());
        let created = user.create(job.value()).expect("it is accepted");
        let status = status.get_or_insert_with(|| {
            let framework: Framework =
                serde_json::from_value(Value::clone(&created)).expect("our own types read it");
            json!(finished(&framework, now))
        });
        status["attemptStatus"]["configMapName"] = json!(format!("{name}-attempt"));
        user.patch_status("frameworks", &name, status.clone()).expect("it is accepted");
    }
}

/// The requests of controllers, except LISTs and watches: DELETEs, questions for the time, and all others.
fn asked(history: &History, from: Duration) -> (usize, usize, usize) {
    let counted = history.exchanges.iter().filter(|one| {
        one.at >= from && !matches!(one.verb, Verb::List | Verb::Watch) && &*one.plural != "events"
    });
    counted.fold((0, 0, 0), |(deletes, questions, others), one| match one.verb {
        Verb::Delete => (deletes + 1, questions, others),
        Verb::Other => (deletes, questions + 1, others),
        _ => (deletes, questions, others + 1),
    })
}

/// When the first and the last DELETE was sent.
fn span(history: &History) -> (Duration, Duration) {
    let mut deletes = history.exchanges.iter().filter(|one| one.verb == Verb::Delete).map(|one| one.at);
    let first = deletes.next().expect("there are some");
    (first, deletes.next_back().unwrap_or(first))
}

/// Lets all expire under a controller that is killed so long after their completion; another follows.
fn expire(killed: Duration, started: Duration) -> (History, Duration) {
    let options = Options { keep_trace: false, ..calm() };
    simulate(1, options, |cluster| async move {
        let mut setup = Setup::default();
        (setup.settings.qps, setup.settings.burst) = (QPS.into(), QPS);
        complete(&cluster);
        let completed = cluster.clock().elapsed();
        let first = Controller::start(&cluster, 1, 1, &setup);
        pass(killed).await;
        first.crash().await;
        pass(started.saturating_sub(killed)).await;
        let _second = Controller::start(&cluster, 2, 2, &setup);
        let user = cluster.user();
        let mut waited = 0;
        while !user.list("frameworks").iter().all(|framework| framework.deleting()) {
            pass(SECOND * 60).await;
            waited += 1;
            assert!(waited < TTL, "they are never deleted");
        }
        assert!(cluster.settle(SECOND * 60, SECOND * 600).await, "changes go on and on");
        assert_eq!(user.list("frameworks").len(), 0, "left over");
        (cluster.history(), completed)
    })
}

#[test]
fn many_due_in_one_second_survive_a_restart_with_few_time_requests() {
    let wave = SECOND * u32::try_from(many()).expect("few") / QPS;
    let (early, due) = (SECOND * (TTL / 2), SECOND * TTL);
    // While they wait, in the midst of their deletion, and away over the expiry.
    let (midst, late) = (due + wave / 2, due + SECOND * 100);
    for (killed, started) in [(early, early), (midst, midst), (early, late)] {
        let (history, completed) = expire(killed, started);
        let due = completed + SECOND * TTL;
        let (deletes, questions, others) = asked(&history, Duration::ZERO);
        let (first, last) = span(&history);
        eprintln!(
            "{} Frameworks, killed at {killed:?}, next one at {started:?}: {deletes} DELETEs, {questions} questions, {others} \
             others; the first {:?} after the expiry, the last {:?}",
            many(),
            first.saturating_sub(due),
            last.saturating_sub(due),
        );
        check::lifetime::check(&history, i64::MAX).unwrap();
        assert!(first >= due, "{first:?} is before {due:?}");
        // Those on their way when the first controller was killed may be asked for once more.
        assert!((many()..=many() + 200).contains(&deletes), "{deletes} DELETEs");
        // Each controller asks when it starts, and when they are due.
        assert!(questions <= 12, "{questions} questions");
        assert_eq!(others, 0);
        // No request is sent while all wait, but for the time once they may be due: it is known to
        // within a second.
        let sent = history.exchanges.iter().filter(|one| {
            let may_be_due = due.saturating_sub(SECOND);
            let waits = one.at > completed + SECOND * 60 && one.at < may_be_due.min(completed + killed);
            waits && !matches!(one.verb, Verb::List | Verb::Watch)
        });
        assert_eq!(sent.count(), 0, "something was asked for while all waited");
    }
}
