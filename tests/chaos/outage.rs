//! Frameworks whose `ttlSecondsAfterFinished` or `activeDeadlineSeconds` passes while the controller is down,
//! the API server is away, or the controller's clock is wrong. None is ended or deleted early, and none is
//! forgotten. Also the retention of all Frameworks beside a Framework's own.

use framework_api::Framework;
use jiff::{SignedDuration, Timestamp};

use crate::cluster::lease::{Alone, namespace};
use crate::cluster::{self, Manifest, installed, manifest, start_controller};
use crate::disturbance::{Crashed, Stopped, record};
use crate::lifetime::clock::start_off_by;
use crate::lifetime::{self, DEADLINE, Fixture, TTL, created, ended, expiry, metrics, until_past};

const HOUR: i64 = 3600;
const FOREVER: (&str, &str) = ("run-duration", "forever");

/// A controller that ends with this value.
struct Controller(u32);

impl Drop for Controller {
    fn drop(&mut self) {
        // A test that failed may have ended it already.
        let _ = installed().kill_hosted(self.0);
    }
}

fn quick(name: &str) -> Manifest {
    manifest(name).role("a", 1, &[("exit-code", "0")])
}

/// Recorded from another API server: a recording goes on after its test, while the next one stops the first.
fn fixture(namespace: &str) -> Fixture {
    Fixture::of(namespace, record(namespace))
}

fn deadline_of(seen: &Framework) -> Timestamp {
    created(seen) + SignedDuration::from_secs(seen.spec.active_deadline_seconds.expect("it has one"))
}

/// One Framework that has finished and one that runs, with so many seconds left to each.
///
/// A busy machine may not start the second before its deadline: then another one gets four times as long.
fn pair(fixture: &Fixture, number: usize, seconds: i64) -> [Framework; 2] {
    let done = format!("done{number}");
    quick(&done).field(TTL, seconds).create(&fixture.namespace);
    let ran = (0..4).find_map(|retries: u32| {
        let busy = format!("busy{number}{}", "again".repeat(retries as usize));
        let deadline = (seconds + 2) * 4_i64.pow(retries);
        manifest(&busy).role("a", 2, &[FOREVER]).field(DEADLINE, deadline).create(&fixture.namespace);
        fixture.ran_unless_completed(&busy, 2)
    });
    [fixture.completed(&done), ran.expect("it runs within minutes")]
}

/// When the later one of a pair is due.
fn due([done, busy]: &[Framework; 2]) -> Timestamp {
    expiry(done).max(deadline_of(busy))
}

/// Asserts that both are acted on, once, and not before they are due.
fn assert_acted_on(fixture: &Fixture, [done, busy]: &[Framework; 2]) {
    let name = done.metadata.name.as_deref().expect("a name");
    // A garbage collector that starts beside the API server may see the Framework go half a minute later.
    fixture.was(name, "being deleted", |seen| seen.metadata.deletion_timestamp.is_some());
    let mut deletes = Vec::new();
    lifetime::until("the audit log has the deletion", || {
        deletes = fixture.deletes(name);
        // A server that has just started knows of no rights, and does not read a request that it refuses.
        deletes.retain(|delete| delete.code != 403);
        !deletes.is_empty()
    });
    deletes.iter().for_each(|delete| lifetime::assert_is_deletion(delete, done, expiry(done)));
    fixture.assert_exceeded(busy.metadata.name.as_deref().expect("a name"));
}

#[test]
fn a_restarted_controller_acts_on_missed_and_on_future_due_times() {
    let _alone = Alone::wait();
    let ns = namespace("outage-controller");
    let controller = Controller(start_controller("controller", ""));
    let fixture = fixture(&ns).under_chaos();
    let later = pair(&fixture, 2, 9);
    let missed = pair(&fixture, 1, 2);
    drop(controller);
    until_past(due(&missed));
    let _next = Controller(start_controller("controller", ""));
    assert_acted_on(&fixture, &missed);
    assert_acted_on(&fixture, &later);
    ["busy1", "busy2"].into_iter().for_each(|name| cluster::assert_nothing_is_left(&ns, name));
}

#[test]
fn an_api_server_outage_delays_deadline_and_ttl_and_loses_neither() {
    let _alone = Alone::wait();
    let ns = namespace("outage-server");
    let _controller = Controller(start_controller("controller", ""));
    let fixture = fixture(&ns).under_chaos();

    let frozen = pair(&fixture, 1, 2);
    let stopped = Stopped::now();
    let rest = due(&frozen).duration_since(Timestamp::now()).unsigned_abs();
    stopped.for_a_while(rest + std::time::Duration::from_secs(1));
    drop(stopped);
    assert_acted_on(&fixture, &frozen);

    let orphaned = pair(&fixture, 2, 2);
    let crashed = Crashed::now();
    until_past(due(&orphaned));
    drop(crashed);
    assert_acted_on(&fixture, &orphaned);
    ["busy1", "busy2"].into_iter().for_each(|name| cluster::assert_nothing_is_left(&ns, name));
}

/// Ends the Frameworks that are due, and nothing else, under a wall clock that is so many seconds ahead.
fn acts_in_time_by_the_servers_clock(name: &'static str, ahead: i64) {
    let _alone = Alone::wait();
    let ns = namespace(name);
    let _controller = Controller(start_off_by(name, ahead, ""));
    let fixture = fixture(&ns);
    let kept = [quick("kept").field(TTL, HOUR - 600), manifest("goeson").role("a", 1, &[FOREVER])];
    kept[0].create(&ns);
    kept[1].clone().field(DEADLINE, HOUR - 600).create(&ns);
    let due = pair(&fixture, 1, 2);
    assert_acted_on(&fixture, &due);
    assert!(fixture.deletes("kept").is_empty());
    let seen = fixture.versions("goeson").pop().expect("it is there").1;
    assert_eq!(seen.status.and_then(|status| status.attempt_status.completion_status), None);
}

#[test]
fn a_controller_whose_clock_is_an_hour_ahead_is_not_early() {
    acts_in_time_by_the_servers_clock("clock-ahead", HOUR);
}

#[test]
fn a_controller_whose_clock_is_an_hour_behind_is_not_late() {
    acts_in_time_by_the_servers_clock("clock-behind", -HOUR);
}

#[test]
fn the_earlier_of_retention_and_its_own_ttl_deletes_a_framework() {
    let _alone = Alone::wait();
    let ns = namespace("retention");
    let _controller = Controller(start_controller("retaining", "frameworkCompletedRetainSec: 3"));
    let fixture = fixture(&ns);
    for (name, ttl) in [("retained", None), ("patient", Some(HOUR)), ("hasty", Some(1))] {
        let framework = quick(name);
        ttl.map_or(framework.clone(), |ttl| framework.field(TTL, ttl)).create(&ns);
    }
    for (name, seconds) in [("retained", 3), ("patient", 3), ("hasty", 1)] {
        let completed = fixture.completed(name);
        fixture.gone(&completed);
        fixture.assert_deleted_once(&completed, ended(&completed) + SignedDuration::from_secs(seconds));
    }
    let count = || metrics::value(&metrics::scrape("retaining"), "framework_ttl_deletions_total");
    assert_eq!(count(), 1, "retention is no TTL");
}
