//! `kubectl framework` on a real API server: it shows the stored state.

use jiff::Timestamp;
use serde_json::Value;

use crate::cluster::lease::Shared;
use crate::cluster::plugin::{completions, output, run};
use crate::cluster::{completed, manifest, running, until};
use crate::queue::{QUEUEING, furnish, gang, queued};

fn json(namespace: &str, arguments: &[&str]) -> Value {
    let text = output(namespace, &[arguments, &["--output=json"]].concat());
    serde_json::from_str(&text).expect("it is JSON")
}

#[test]
fn why_names_the_rule_that_ended_a_framework() {
    let _controller = Shared::controller("queue", QUEUEING);
    furnish("pluginfails", 20);
    let ns = "pluginfails";
    let fails = [("exit-code", "7"), ("run-duration", "1s")];
    manifest("fails").role("keeps", 1, &[]).role("w", 1, &fails).task_retry(false, 1).create(ns);
    completed(ns, "fails");

    let why = output(ns, &["why", "fw/fails"]);
    for words in [
        "completion policy: 1 Task of TaskRole w failed, and minFailedTaskCount is 1",
        "retry policy of the Framework: not retried, because maxRetryCount is 0 and 0 retries count",
        "retry policy of TaskRole w: 1 Task (w-0 as ",
        "not retried, because maxRetryCount is 1 and 1 retry counts",
        "nothing more: it is Completed",
    ] {
        assert!(why.contains(words), "{words:?} is missing:\n{why}");
    }
    let tree = json(ns, &["tree", "fails"]);
    let roles = tree["children"][0]["children"].as_array().expect("TaskRoles below the ConfigMap");
    assert_eq!((&roles[1]["name"], &roles[1]["children"][0]["retried"]), (&"w".into(), &1.into()));
    assert_eq!(json(ns, &["get", "fails"])["status"]["state"], "Completed");
    let list = output(ns, &["get", "-o", "wide"]);
    assert!(list.starts_with("NAME") && list.contains("QUEUE") && list.contains("Completed"), "{list}");
    assert!(!list.contains('\x1b'), "no colours where there is no terminal");

    until("its Events are shown", || {
        let history = output(ns, &["history", "fails"]);
        let shows = |words: &str| history.contains(words);
        ["TaskRetrying", "Failed", "FirstRan"].iter().all(|words| shows(words)).then_some(())
    });
    assert_eq!(completions(ns, &["why", "f"]), "fails\n:4\n");
    assert_eq!(completions(ns, &["why", "x"]), ":4\n");

    let (succeeded, text, complaint) = run(ns, &["why", "other"]);
    assert_eq!((succeeded, text.as_str()), (false, ""));
    assert_eq!(complaint, "error: there is no Framework \"other\" in the namespace \"pluginfails\"\n");
}

#[test]
fn why_names_the_place_in_the_queue_and_the_missing_amount() {
    let _controller = Shared::controller("queue", QUEUEING);
    furnish("pluginwaits", 4);
    let ns = "pluginwaits";
    gang(ns, "first", 3);
    running(ns, "first", 3);
    for name in ["second", "third"] {
        gang(ns, name, 2);
        queued(ns, name, "True", "InsufficientQuota");
        // Of two units that are created within one second, the UIDs decide the order.
        let second = Timestamp::now().as_second();
        until("its second is over", || (Timestamp::now().as_second() > second).then_some(()));
    }
    // The use that the quota shows follows its Pods.
    let why = until("the use of the quota is shown", || {
        let why = json(ns, &["why", "third"]);
        why["queue"][0]["missing"][0].is_string().then_some(why)
    });
    let unit = &why["queue"][0];
    assert_eq!((&unit["place"], &unit["before"]), (&1.into(), &1.into()), "{why}");
    assert_eq!(unit["directlyBefore"], "framework-second");
    let missing = "pods: requests 2, 1 too many: quota \"room\" allows 4, 3 are used now";
    assert_eq!(unit["missing"][0], missing);
    let text = output(ns, &["why", "third"]);
    for words in ["release from the queue \"q\": InsufficientQuota: no room", missing, "1 before it in its"] {
        assert!(text.contains(words), "{words:?} is missing:\n{text}");
    }
    let tree = output(ns, &["tree", "third"]);
    assert!(tree.contains("├─QueueUnit/framework-third") && !tree.contains("ConfigMap"), "{tree}");
    let tree = output(ns, &["tree", "first"]);
    assert!(tree.contains("ConfigMap/first-attempt") && tree.contains("Task/a-2"), "{tree}");
    let top = json(ns, &["top"]);
    assert_eq!(top["source"], "requested", "no use is measured: {top}");
    let of = |name: &str| top["items"].as_array().expect("a list").iter().find(|item| item["name"] == *name);
    let counts = |name: &str| of(name).map(|item| (item["running"].clone(), item["waiting"].clone()));
    assert_eq!(counts("first"), Some((3.into(), 0.into())), "{top}");
    assert_eq!(counts("third"), Some((0.into(), 2.into())), "{top}");
}

fn generation(namespace: &str, name: &str) -> Value {
    json(namespace, &["get", name])["metadata"]["generation"].clone()
}

#[test]
fn a_framework_is_started_scaled_awaited_and_stopped() {
    let _controller = Shared::controller("queue", QUEUEING);
    furnish("pluginchanges", 20);
    let ns = "pluginchanges";
    manifest("held").role("w", 1, &[]).field("executionType", "Create").create(ns);
    assert_eq!(output(ns, &["start", "held"]), "framework/held started\n");
    assert_eq!(output(ns, &["wait", "fw/held", "--for=running"]), "framework/held is running\n");

    assert_eq!(output(ns, &["scale", "held", "w=3"]), "framework/held scaled: w from 1 to 3\n");
    running(ns, "held", 3);
    let before = generation(ns, "held");
    assert_eq!(output(ns, &["scale", "held", "w=3"]), "framework/held unchanged: w has 3 already\n");
    assert_eq!(generation(ns, "held"), before, "nothing was sent");
    let (succeeded, _, complaint) = run(ns, &["scale", "held", "ps=3"]);
    assert!(!succeeded && complaint.contains("there is no TaskRole \"ps\"; there are w"), "{complaint}");

    let (succeeded, _, complaint) = run(ns, &["wait", "held", "--timeout=1s"]);
    let expected = "error: timed out after 1s: the Framework \"held\" in the namespace \"pluginchanges\" is \
                    AttemptRunning, --for=succeeded was not reached\n";
    assert_eq!((succeeded, complaint.as_str()), (false, expected));
    assert_eq!(output(ns, &["stop", "held"]), "framework/held stopped\n");
    output(ns, &["wait", "held", "--for=failed", "--timeout=60s"]);
    let (succeeded, _, complaint) = run(ns, &["wait", "held", "--timeout=60s"]);
    assert!(!succeeded && complaint.contains("it ended as StopFrameworkRequested -210"), "{complaint}");
    let fields = &json(ns, &["get", "held"])["metadata"]["managedFields"];
    let by_plugin: Vec<&Value> = fields
        .as_array()
        .expect("a list")
        .iter()
        .filter(|entry| entry["manager"] == "kubectl-framework")
        .collect();
    let text = serde_json::to_string(&by_plugin).expect("it is JSON");
    assert!(text.contains("f:taskNumber") && text.contains("f:executionType"), "{text}");
    assert!(!text.contains("f:task\"") && !text.contains("f:labels"), "it wrote no other field: {text}");
}
