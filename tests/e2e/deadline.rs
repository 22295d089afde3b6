//! Frameworks with `activeDeadlineSeconds` on the real API server. The deadline ends them in any state, never
//! early by that server's own clock, once and for all, with nothing left. A Framework that ends before is
//! left alone.

use std::sync::OnceLock;

use framework_api::{Framework, State};
use jiff::SignedDuration;
use kube::api::ListParams;
use serde_json::json;

use crate::cluster::history::Object;
use crate::cluster::recording::Recording;
use crate::cluster::{
    self, Manifest, block_on, code, execute, frameworks, kubectl, lease, manifest, state, task_number,
};
use crate::lifetime::cases::side_by_side;
use crate::lifetime::{self, DEADLINE, EXCEEDED, Fixture, created, metrics, uid, until};

const FOREVER: (&str, &str) = ("run-duration", "forever");
const HANG: (&str, &str) = ("hang-terminating", "true");
/// The controller of these tests: its metrics count their Frameworks and no others.
const CONTROLLER: &str = "deadline";
/// Deadlines for tests in which something has to happen first: on a busy machine a shorter one may pass too
/// early.
const TRIES: [i64; 4] = [5, 10, 20, 60];

fn fixture() -> &'static Fixture {
    static FIXTURE: OnceLock<Fixture> = OnceLock::new();
    FIXTURE.get_or_init(|| {
        let ns = lease::namespace("deadline");
        Fixture::of(&ns, Recording::start(&ns))
    })
}

fn ns() -> &'static str {
    &fixture().namespace
}

fn create(framework: &Manifest) -> Framework {
    framework.create(ns())
}

/// Asserts that its deadline ended a Framework, and that nothing of it is left.
fn assert_exceeded(name: &str) -> Framework {
    let completed = fixture().assert_exceeded(name);
    cluster::assert_nothing_is_left(ns(), name);
    completed
}

/// The controller has done all it would do by the deadline of a Framework: that has passed, and another
/// one's, created now, has been acted on.
fn deadline_passes(seen: &Framework, other: &str) {
    let seconds = seen.spec.active_deadline_seconds.expect("it has a deadline");
    lifetime::until_past(created(seen) + SignedDuration::from_secs(seconds));
    create(&manifest(other).role("a", 1, &[FOREVER]).field(DEADLINE, 1));
    fixture().completed(other);
}

/// Whether it is persisted how the attempt ends.
fn has_end(seen: &Framework) -> bool {
    seen.status.as_ref().is_some_and(|status| status.attempt_status.completion_status.is_some())
}

/// Waits until it is persisted how the attempt ends: the code.
fn end(name: &str) -> i32 {
    code(&fixture().was(name, "ended", has_end)).0
}

/// Lets hanging Pods go.
fn release(name: &str) {
    let selector = format!("--selector=FC_FRAMEWORK_NAME={name}");
    let force = ["--grace-period=0", "--force", "--wait=false"];
    kubectl(&[&["delete", "pods", "--namespace", ns(), &selector], &force[..]].concat());
}

/// Asserts that a Framework ended otherwise and that no deadline has touched it.
fn assert_untouched(name: &str, code: i32) {
    let completed = fixture().completed(name);
    assert_eq!(cluster::code(&completed).0, code, "{name}");
    fixture().assert_one_outcome(name);
    assert!(fixture().notes(name, "DeadlineExceeded").is_empty(), "{name}");
    let conditions = completed.status.expect("a status").conditions;
    assert!(conditions.iter().all(|condition| condition.reason != "DeadlineExceeded"), "{conditions:#?}");
}

/// How many Pods a Framework ever had.
fn pods_of(name: &str) -> usize {
    let prefix = format!("{name}-");
    fixture().recording().look(|changes| {
        let pods = changes.iter().filter_map(|change| match &change.object {
            Object::Pod(pod) => Some((pod.metadata.name.as_deref()?, pod.metadata.uid.as_deref()?)),
            _ => None,
        });
        let of_it: std::collections::BTreeSet<_> = pods.filter(|(pod, _)| pod.starts_with(&prefix)).collect();
        of_it.len()
    })
}

/// How many requests there were to delete a Pod of a Framework by force.
fn forced(name: &str) -> usize {
    let prefix = format!("{name}-a-");
    let requests = fixture().requests();
    let forced = requests.iter().filter(|request| {
        let grace = request.request_object.as_ref().and_then(|body| body.get("gracePeriodSeconds"));
        request.namespace == ns()
            && (request.verb.as_str(), request.resource.as_str()) == ("delete", "pods")
            && request.name.starts_with(&prefix)
            && grace == Some(&json!(0))
    });
    forced.count()
}

mod cases {
    use super::*;

    pub fn a_running_framework_is_ended_and_kubectl_wait_hears_of_it() {
        create(&manifest("running").role("a", 3, &[FOREVER]).field(DEADLINE, 3));
        kubectl(&["wait", "--for=condition=Failed", "fw/running", "--namespace", ns(), "--timeout=120s"]);
        assert_exceeded("running");
    }

    pub fn one_that_ends_before_is_left_alone_when_its_deadline_passes() {
        for seconds in TRIES {
            let name = format!("before{seconds}");
            let seen = create(&manifest(&name).role("a", 2, &[("exit-code", "0")]).field(DEADLINE, seconds));
            if end(&name) == 0 {
                deadline_passes(&seen, &format!("{name}other"));
                return assert_untouched(&name, 0);
            }
        }
        panic!("none ended before its deadline");
    }

    pub fn one_that_is_held_before_its_start_is_ended_and_never_starts() {
        create(
            &manifest("held").role("a", 2, &[FOREVER]).field("executionType", "Create").field(DEADLINE, 2),
        );
        assert_exceeded("held");
        assert_eq!(pods_of("held"), 0);
    }

    pub fn one_whose_pods_wait_to_run_is_ended() {
        create(&manifest("pending").role("a", 2, &[("never-start", "true")]).field(DEADLINE, 2));
        assert_exceeded("pending");
    }

    pub fn one_that_waits_for_its_next_attempt_is_ended() {
        for seconds in TRIES {
            let name = format!("delayed{seconds}");
            // A transient conflict, after which the next attempt waits for a minute at least.
            let failing = manifest(&name).retry(true, 1).role("a", 1, &[("exit-code", "201")]);
            create(&failing.field(DEADLINE, seconds));
            let waited = |seen: &Framework| {
                seen.status
                    .as_ref()
                    .is_some_and(|status| status.retry_policy_status.retry_delay_sec.is_some())
            };
            let waits = |seen: &Framework| waited(seen) || state(seen) == Some(State::Completed);
            if waited(&fixture().was(&name, "waiting for its next attempt", waits)) {
                let completed = assert_exceeded(&name);
                return assert_eq!(completed.status.expect("a status").attempt_status.id, 1);
            }
            assert_exceeded(&name);
        }
        panic!("none waited before its deadline");
    }

    pub fn a_stop_before_the_deadline_stays_when_the_deadline_passes() {
        for seconds in TRIES {
            let name = format!("stopped{seconds}");
            let seen = create(&manifest(&name).role("a", 1, &[FOREVER, HANG]).field(DEADLINE, seconds));
            let is_over = || fixture().versions(&name).iter().any(|(_, seen)| has_end(seen));
            until("its Pod is there, or it is over", || pods_of(&name) > 0 || is_over());
            execute(ns(), &name, "Stop");
            if end(&name) == -210 {
                deadline_passes(&seen, &format!("{name}other"));
                release(&name);
                return assert_untouched(&name, -210);
            }
            release(&name);
            assert_exceeded(&name);
        }
        panic!("none was stopped before its deadline");
    }

    pub fn a_deadline_before_a_stop_stays_when_the_stop_follows() {
        let seen = create(&manifest("latestop").role("a", 1, &[FOREVER, HANG]).field(DEADLINE, 3));
        assert_eq!(end("latestop"), EXCEEDED.0);
        execute(ns(), "latestop", "Stop");
        deadline_passes(&seen, "latestopother");
        release("latestop");
        assert_exceeded("latestop");
    }

    pub fn pods_that_hang_are_forced_after_the_graceful_time_out() {
        for seconds in TRIES {
            let name = format!("hanging{seconds}");
            let hanging = manifest(&name).role("a", 2, &[FOREVER, HANG]).last_role(|role| {
                role["task"]["podGracefulDeletionTimeoutSec"] = json!(1);
            });
            create(&hanging.field(DEADLINE, seconds));
            // A Pod that no node has is deleted at once, and needs no force.
            let ran = fixture().ran_unless_completed(&name, 2).is_some();
            assert_exceeded(&name);
            if ran {
                until("the log has the forced deletions", || forced(&name) >= pods_of(&name));
                return assert_eq!(forced(&name), pods_of(&name));
            }
        }
        panic!("none ran before its deadline");
    }

    pub fn no_retry_policy_gives_another_attempt_after_it() {
        let failing = [("exit-code", "1"), ("run-duration", "300ms")];
        create(&manifest("attempts").retry(false, -2).role("a", 1, &failing).field(DEADLINE, 4));
        let again = manifest("tasks").retry(false, -2).role("a", 2, &failing).task_retry(false, -2);
        create(&again.field(DEADLINE, 4));
        for name in ["attempts", "tasks"] {
            assert_exceeded(name);
            println!("{name}: {} Pods before the deadline", pods_of(name));
        }
        let before = (pods_of("attempts"), pods_of("tasks"));
        let seen = fixture().completed("attempts");
        deadline_passes(&seen, "attemptsother");
        assert_eq!((pods_of("attempts"), pods_of("tasks")), before);
        ["attempts", "tasks"].into_iter().for_each(|name| fixture().assert_one_outcome(name));
    }

    pub fn a_rescale_that_is_under_way_is_cut_off() {
        let shrinks = |seen: &Framework| {
            let task = seen.status.as_ref().and_then(|status| status.task("a", 3));
            task.is_some_and(|task| task.deletion_pending)
        };
        // A busy machine takes seconds until the rescale has begun, which then lasts past the deadline.
        for seconds in [12, 24, 48] {
            let name = format!("rescaled{seconds}");
            let elastic = manifest(&name).role("a", 4, &[FOREVER, HANG]).last_role(|role| {
                role["task"]["podGracefulDeletionTimeoutSec"] = json!(seconds + 3);
            });
            create(&elastic.field(DEADLINE, seconds));
            if fixture().ran_unless_completed(&name, 4).is_some() {
                task_number(ns(), &name, 2);
                let first =
                    fixture().was(&name, "scaled down, or ended", |seen| shrinks(seen) || has_end(seen));
                task_number(ns(), &name, 6);
                if shrinks(&first) && !has_end(&first) {
                    return drop(assert_exceeded(&name));
                }
            }
            assert_exceeded(&name);
        }
        panic!("none was scaled down before its deadline");
    }

    pub fn those_that_race_with_it_have_one_end_each() {
        let racing: Vec<String> = (0..10).map(|number| format!("racing{number}")).collect();
        for (number, name) in racing.iter().enumerate() {
            let run = format!("{}ms", 2500 + 200 * number);
            let pods = [("run-duration", run.as_str()), ("exit-code", "0")];
            create(&manifest(name).retry(false, -1).role("a", 2, &pods).field(DEADLINE, 4));
        }
        let codes: Vec<i32> = racing.iter().map(|name| code(&fixture().completed(name)).0).collect();
        println!("codes by how long the Pods run: {codes:?}");
        deadline_passes(&fixture().completed(&racing[9]), "racingother");
        for (name, code) in racing.iter().zip(codes) {
            match code {
                0 => assert_untouched(name, 0),
                _ => drop(assert_exceeded(name)),
            }
        }
    }

    pub fn the_metrics_count_the_persisted_ends() {
        create(&manifest("counted").role("a", 1, &[FOREVER]).field(DEADLINE, 3600));
        fixture().ran("counted", 1);
        let remaining = |suffix: &str| format!("framework_active_deadline_remaining_seconds_{suffix}");
        until("three have been ended", || value("framework_deadline_exceeded_total") >= 3);
        until("the metrics agree with what was stored", || {
            let ended = fixture().recording().look(|changes| {
                let ended = changes.iter().filter_map(|change| match &change.object {
                    Object::Framework(seen) => {
                        let end = seen.status.as_ref()?.attempt_status.completion_status.as_ref()?;
                        (end.code == EXCEEDED.0).then(|| uid(seen))
                    }
                    _ => None,
                });
                ended.collect::<std::collections::BTreeSet<_>>().len() as u64
            });
            let all = block_on(frameworks(ns()).list(&ListParams::default())).expect("a list").items;
            let live = all.iter().filter(|seen| {
                seen.spec.active_deadline_seconds.is_some() && state(seen) != Some(State::Completed)
            });
            let values = [value("framework_deadline_exceeded_total"), value(&remaining("count"))];
            values == [ended, live.count() as u64]
        });
        let hour = (remaining(r#"bucket{le="3600"}"#), remaining(r#"bucket{le="900"}"#));
        until("one has nearly an hour left", || value(&hour.0) > value(&hour.1));
        execute(ns(), "counted", "Stop");
        assert_untouched("counted", -210);
    }
}

side_by_side!(
    a_running_framework_is_ended_and_kubectl_wait_hears_of_it,
    one_that_ends_before_is_left_alone_when_its_deadline_passes,
    one_that_is_held_before_its_start_is_ended_and_never_starts,
    one_whose_pods_wait_to_run_is_ended,
    one_that_waits_for_its_next_attempt_is_ended,
    a_stop_before_the_deadline_stays_when_the_deadline_passes,
    a_deadline_before_a_stop_stays_when_the_stop_follows,
    pods_that_hang_are_forced_after_the_graceful_time_out,
    no_retry_policy_gives_another_attempt_after_it,
    a_rescale_that_is_under_way_is_cut_off,
    those_that_race_with_it_have_one_end_each,
    the_metrics_count_the_persisted_ends,
);

fn value(series: &str) -> u64 {
    metrics::value(&metrics::scrape(CONTROLLER), series)
}
