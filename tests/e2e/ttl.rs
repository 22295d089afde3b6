//! Frameworks with `ttlSecondsAfterFinished` on the real API server: the ones that are deleted, when by that
//! server's own clock, by which request, and the reasons that delay a deletion.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use framework_api::{Framework, State};
use framework_testcluster::audit::Record;
use kube::api::{ListParams, PostParams};

use crate::cluster::history::{Change, Object, What};
use crate::cluster::recording::Recording;
use crate::cluster::snapshots::logged;
use crate::cluster::{
    self, Manifest, apply, block_on, frameworks, installed, kubectl, lease, log_of, manifest, state,
};
use crate::lifetime::cases::side_by_side;
use crate::lifetime::{self, DEADLINE, Fixture, TTL, expiry, is_retirement, metrics, uid, until};

/// The controller of these tests: its metrics count their Frameworks and no others.
const CONTROLLER: &str = "ttl";
/// The finalizer on a Framework that another program waits for.
const FOREIGN: &str = "test.example.com/held";
/// How many Frameworks have both fields at once.
const MANY: usize = 60;

fn fixture() -> &'static Fixture {
    static FIXTURE: OnceLock<Fixture> = OnceLock::new();
    FIXTURE.get_or_init(|| {
        let ns = lease::namespace("ttl");
        Fixture::of(&ns, Recording::start(&ns))
    })
}

/// A Framework whose only Task ends at once with this exit code.
fn quick(name: &str, exit: &str) -> Manifest {
    manifest(name).role("a", 1, &[("exit-code", exit)])
}

fn create(framework: &Manifest) -> Framework {
    framework.create(&fixture().namespace)
}

/// The controller has done all it would do by now: another Framework, created now, has expired and is gone.
fn another_one_expires(name: &str) {
    create(&quick(name, "0").field(TTL, 1));
    fixture().gone(&fixture().completed(name));
}

/// The Framework as it is now, which is not being deleted.
fn kept(name: &str) -> Framework {
    let seen = block_on(frameworks(&fixture().namespace).get(name)).expect("it is kept");
    assert_eq!(seen.metadata.deletion_timestamp, None, "{name} is being deleted");
    seen
}

/// Ends by itself, and is deleted so many seconds later.
fn expires(name: &str, exit: &str, seconds: i32) {
    create(&quick(name, exit).field(TTL, seconds));
    let completed = fixture().completed(name);
    assert_eq!(cluster::code(&completed).0.to_string(), exit);
    fixture().gone(&completed);
    fixture().assert_deleted_once(&completed, expiry(&completed));
    cluster::assert_nothing_is_left(&fixture().namespace, name);
    let note = fixture().event(name, "ShortTTLSecondsAfterFinished");
    assert!(note.contains(&format!("spec.ttlSecondsAfterFinished is {seconds}")), "{note}");
}

mod cases {
    use super::*;

    pub fn without_it_a_framework_is_kept() {
        create(&quick("unset", "0"));
        let completed = fixture().completed("unset");
        another_one_expires("unsetother");
        assert_eq!(uid(&kept("unset")), uid(&completed));
        assert!(fixture().deletes("unset").is_empty());
    }

    pub fn before_it_has_passed_nobody_deletes() {
        create(&quick("early", "0").field(TTL, 3600));
        fixture().completed("early");
        another_one_expires("earlyother");
        kept("early");
        assert!(fixture().deletes("early").is_empty());
        assert!(fixture().notes("early", "ShortTTLSecondsAfterFinished").is_empty(), "an hour is not short");
    }

    pub fn once_it_has_passed_after_a_success_the_framework_is_deleted_once() {
        expires("succeeded", "0", 3);
    }

    pub fn once_it_has_passed_after_a_failure_the_framework_is_deleted_once() {
        expires("failed", "1", 2);
    }

    pub fn zero_deletes_at_once_and_the_history_reports_the_end_all_the_same() {
        expires("zero", "0", 0);
        let completed = fixture().completed("zero");
        until("the history has the Framework as it ended", || {
            logged(&log_of(CONTROLLER), &fixture().namespace).iter().any(|snapshot| {
                let ended = snapshot.object["status"]["state"] == serde_json::json!(State::Completed);
                snapshot.trigger == "OnFrameworkDeletion" && snapshot.meta("uid") == uid(&completed) && ended
            })
        });
    }

    pub fn with_both_fields_the_deadline_ends_it_and_then_it_is_deleted() {
        let both = manifest("both").role("a", 2, &[("run-duration", "forever")]);
        create(&both.field(DEADLINE, 3).field(TTL, 2));
        let completed = fixture().assert_exceeded("both");
        fixture().gone(&completed);
        fixture().assert_deleted_once(&completed, expiry(&completed));
        cluster::assert_nothing_is_left(&fixture().namespace, "both");
    }

    pub fn all_that_it_owns_goes_before_it() {
        // It owns all of it before it starts.
        let owner = create(&quick("owner", "0").field(TTL, 4).field("executionType", "Create"));
        let reference = format!(
            "ownerReferences: [{{apiVersion: frameworkcontroller.microsoft.com/v1, kind: Framework, \
             name: owner, uid: {}, blockOwnerDeletion: true}}]",
            uid(&owner)
        );
        let pod = "{restartPolicy: Never, containers: [{name: main, image: busybox}]}";
        let owned = format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: owned\n  {reference}\n---\n\
             apiVersion: v1\nkind: Pod\nmetadata:\n  name: owned\n  {reference}\nspec: {pod}\n"
        );
        apply(&fixture().namespace, &owned);
        cluster::execute(&fixture().namespace, "owner", "Start");
        fixture().gone(&owner);
        let ends = |changes: &[Change]| {
            let gone = changes.iter().filter(|change| change.what == What::Gone);
            gone.filter_map(|change| match &change.object {
                Object::Framework(seen) if uid(seen) == uid(&owner) => Some(("owner", change.version)),
                Object::ConfigMap(seen) if seen.metadata.name.as_deref() == Some("owned") => {
                    Some(("map", change.version))
                }
                Object::Pod(seen) if seen.metadata.name.as_deref() == Some("owned") => {
                    Some(("pod", change.version))
                }
                _ => None,
            })
            .collect::<BTreeMap<_, _>>()
        };
        // Each kind has a watch of its own, so that what went first may be seen last.
        fixture().recording().wait("all of it is gone", |changes| ends(changes).len() == 3);
        let ends = fixture().recording().look(ends);
        assert!(ends["map"] < ends["owner"] && ends["pod"] < ends["owner"], "{ends:?}");
        cluster::assert_nothing_is_left(&fixture().namespace, "owner");
    }

    pub fn somebody_elses_finalizer_holds_it_and_it_is_deleted_once() {
        let mut held = quick("held", "0").field(TTL, 1).object();
        held.metadata.finalizers = Some(vec![FOREIGN.to_owned()]);
        block_on(frameworks(&fixture().namespace).create(&PostParams::default(), &held)).expect("accepted");
        let completed = fixture().completed("held");
        let holds = |seen: &Framework| {
            let finalizers = seen.metadata.finalizers.as_deref();
            seen.metadata.deletion_timestamp.is_some() && finalizers == Some(&[FOREIGN.to_owned()])
        };
        fixture().was("held", "held by nothing else", holds);
        another_one_expires("heldother");
        fixture().assert_deleted_once(&completed, expiry(&completed));
        let free = ["patch", "fw", "held", "--namespace", &fixture().namespace, "--type=merge", "-p"];
        kubectl(&[&free[..], &[r#"{"metadata": {"finalizers": null}}"#]].concat());
        fixture().gone(&completed);
        fixture().assert_deleted_once(&completed, expiry(&completed));
        let versions = fixture().versions("held");
        let began: Vec<_> =
            versions.iter().filter_map(|(_, seen)| seen.metadata.deletion_timestamp.as_ref()).collect();
        assert!(!began.is_empty() && began.iter().all(|at| *at == began[0]), "{began:?}");
    }

    pub fn another_one_of_the_same_name_is_not_deleted_in_its_place() {
        create(&quick("again", "0").field(TTL, 5));
        let first = fixture().completed("again");
        cluster::delete(&fixture().namespace, "again");
        fixture().gone(&first);
        let second = create(&quick("again", "0").field(TTL, 3600));
        lifetime::until_past(expiry(&first));
        another_one_expires("againother");
        assert_eq!(uid(&kept("again")), uid(&second));
        // On a busy machine the first one may have expired before it was deleted.
        for delete in fixture().deletes("again") {
            let body = delete.request_object.as_ref().expect("it says which");
            assert_eq!(body.pointer("/preconditions/uid").and_then(|uid| uid.as_str()), Some(uid(&first)));
        }
    }

    pub fn a_refused_deletion_is_tried_again_says_so_and_holds_nobody_else_up() {
        let refused = create(&manifest("refused").role("a", 1, &[]).field(TTL, 0));
        apply(&fixture().namespace, POLICY);
        let dry = ["delete", "fw", "refused", "--namespace", &fixture().namespace, "--dry-run=server"];
        until("the policy is in force", || {
            let output = installed().kubectl(&dry).expect("kubectl runs");
            output.stderr.contains("the test keeps it")
        });
        create(&quick("refusedother", "0").field(TTL, 1));
        cluster::execute(&fixture().namespace, "refused", "Stop");
        let completed = fixture().completed("refused");
        let series =
            r#"frameworkcontroller_api_requests_total{code="422",resource="frameworks",verb="delete"}"#;
        until("the metric counts two refusals", || value(series) >= 2);
        let note = fixture().event("refused", "DeletionFailed");
        assert!(note.contains("the test keeps it") && note.contains("(422)"), "{note}");
        fixture().gone(&fixture().completed("refusedother"));
        kept("refused");

        let policy = ["validatingadmissionpolicybinding/test-ttl", "validatingadmissionpolicy/test-ttl"];
        kubectl(&["delete", policy[0], policy[1]]);
        fixture().gone(&refused);
        let deletes = fixture().logged_deletes("refused");
        deletes.iter().for_each(|delete| lifetime::assert_is_deletion(delete, &refused, expiry(&completed)));
        let (last, before) = deletes.split_last().expect("it was deleted");
        assert!(last.code == 200 && before.iter().all(|delete| delete.code == 422), "{deletes:#?}");
        assert_backs_off(before);
    }

    pub fn the_metrics_count_the_deletions_in_the_audit_log() {
        until("five have gone", || value("framework_ttl_deletions_total") >= 5);
        until("the metrics agree with the audit log", || {
            let accepted = |request: &Record| is_retirement(request) && request.code == 200;
            let deleted = fixture().requests();
            let deleted = deleted.iter().filter(|request| accepted(request)).count() as u64;
            let all =
                block_on(frameworks(&fixture().namespace).list(&ListParams::default())).expect("a list");
            let waits = |seen: &&Framework| {
                let is_kept = seen.metadata.deletion_timestamp.is_none();
                state(seen) == Some(State::Completed)
                    && is_kept
                    && seen.spec.ttl_seconds_after_finished.is_some()
            };
            let pending = all.items.iter().filter(waits).count() as u64;
            let logged = [
                value("framework_ttl_deletions_total"),
                value("framework_ttl_deletion_latency_seconds_count"),
                value("framework_ttl_pending_deletions"),
            ];
            logged == [deleted, deleted, pending]
        });
    }

    pub fn many_with_both_fields_at_once_have_one_end_each_and_leave_nothing() {
        let many: Vec<String> = (0..MANY).map(|number| format!("many{number:02}")).collect();
        for (number, name) in many.iter().enumerate() {
            let (run, exit) = (format!("{}ms", number % 8 * 700), (number / 2 % 2).to_string());
            let ends = [("run-duration", run.as_str()), ("exit-code", &exit)];
            let pods = if number % 2 == 0 { &ends[..] } else { &[("run-duration", "forever")] };
            let deadline = i64::try_from(4 + number % 3).expect("a few seconds");
            let both = manifest(name).role("a", 2, pods).retry(false, i32::from(number % 4 == 0) * -2);
            create(&both.field(DEADLINE, deadline).field(TTL, number % 3));
        }
        let completed: Vec<Framework> = many.iter().map(|name| fixture().completed(name)).collect();
        completed.iter().for_each(|seen| fixture().gone(seen));
        let requests = logged_retirements(&many);
        let mut exceeded = 0;
        for (name, seen) in many.iter().zip(&completed) {
            fixture().assert_one_outcome(name);
            exceeded += usize::from(cluster::code(seen).0 == lifetime::EXCEEDED.0);
            let deletes: Vec<&Record> = requests.iter().filter(|request| request.name == *name).collect();
            assert_eq!(deletes.len(), 1, "{name}: {deletes:#?}");
            lifetime::assert_is_deletion(deletes[0], seen, expiry(seen));
        }
        let label = ListParams::default().labels(&format!("FC_FRAMEWORK_NAME in ({})", many.join(",")));
        let left = block_on(cluster::pods(&fixture().namespace).list(&label)).expect("a list").items;
        assert!(left.is_empty(), "Pods are left over: {left:#?}");
        let left = block_on(cluster::config_maps(&fixture().namespace).list(&label)).expect("a list").items;
        assert!(left.is_empty(), "ConfigMaps are left over: {left:#?}");
        println!("{exceeded} of {MANY} ended by their deadlines");
        assert!(exceeded >= MANY / 2, "those that run forever: {exceeded}");
    }
}

side_by_side!(
    without_it_a_framework_is_kept,
    before_it_has_passed_nobody_deletes,
    once_it_has_passed_after_a_success_the_framework_is_deleted_once,
    once_it_has_passed_after_a_failure_the_framework_is_deleted_once,
    zero_deletes_at_once_and_the_history_reports_the_end_all_the_same,
    with_both_fields_the_deadline_ends_it_and_then_it_is_deleted,
    all_that_it_owns_goes_before_it,
    somebody_elses_finalizer_holds_it_and_it_is_deleted_once,
    another_one_of_the_same_name_is_not_deleted_in_its_place,
    a_refused_deletion_is_tried_again_says_so_and_holds_nobody_else_up,
    the_metrics_count_the_deletions_in_the_audit_log,
    many_with_both_fields_at_once_have_one_end_each_and_leave_nothing,
);

/// Forbids every user to delete one Framework.
const POLICY: &str = "apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: test-ttl}
spec:
  matchConstraints:
    resourceRules:
    - apiGroups: [frameworkcontroller.microsoft.com]
      apiVersions: ['*']
      operations: [DELETE]
      resources: [frameworks]
  validations:
  - expression: oldObject.metadata.name != 'refused'
    message: the test keeps it
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: test-ttl}
spec: {policyName: test-ttl, validationActions: [Deny]}
";

fn value(series: &str) -> u64 {
    metrics::value(&metrics::scrape(CONTROLLER), series)
}

/// The controller's requests to delete Frameworks, once those of that name are among them: the log has a
/// deletion a moment after its effect.
fn logged_retirements(names: &[String]) -> Vec<Record> {
    let mut requests = Vec::new();
    until("the audit log has the deletions", || {
        requests = fixture().requests();
        requests.retain(is_retirement);
        let is_logged = |name: &String| requests.iter().any(|one| one.name == *name && one.code == 200);
        names.iter().all(is_logged)
    });
    requests
}

/// Asserts that each wait was longer than the one before: 1 s, 2 s and so on, of which up to a quarter is
/// left to chance.
fn assert_backs_off(requests: &[Record]) {
    for (number, pair) in requests.windows(2).enumerate() {
        let least = jiff::SignedDuration::from_millis(750 << number.min(5));
        let waited = pair[1].received.duration_since(pair[0].received);
        assert!(waited >= least, "after {} refusals it waited {waited:?}", number + 1);
    }
}
