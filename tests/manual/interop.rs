//! The manual's section Interop: its requests as written, by curl and by kubectl, and their answers; and
//! docs/manual/interop.md, command by command.

use std::time::Instant;

use framework_api::Framework;
use serde_json::{Value, json};

use crate::cluster::{
    self, apply, block_on, code, completed, kubectl, manifest, namespace, running, with_controller,
};

mod curl;
mod patches;

use curl::{Curl, GROUP, Shell};
use patches::{add_role, delete_role, start, stop, task_number, task_number_and_policy};

const PAGE: &str = include_str!("../../docs/manual/interop.md");

/// The blocks of the page, in order: language and text.
fn blocks() -> Vec<(&'static str, &'static str)> {
    let fenced = PAGE.split("```").skip(1).step_by(2);
    fenced.map(|block| block.split_once('\n').expect("a fence ends its line")).collect()
}

/// The commands of a block. A watch is repeated until it shows something: a slow server ends it before it has
/// sent all.
fn patient(block: &str) -> String {
    let command = |line: &str| {
        if !line.contains("timeoutSeconds=") {
            return format!("{line}\n");
        }
        format!(
            "for again in 1 2 3 4 5 6 7 8 9; do\n  said=$({line})\n  \
             case $said in *ADDED*) break;; esac\ndone\nprintf '%s\\n' \"$said\"\n"
        )
    };
    block.lines().map(command).collect()
}

/// Asserts that a text has all these lines, as parts of its own, in this order.
fn assert_says(said: &str, expected: &str, of: &str) {
    let mut lines = said.lines();
    for line in expected.lines() {
        assert!(
            lines.any(|seen| seen.contains(line)),
            "{of}\ndoes not say {line:?} in its place, but\n{said}"
        );
    }
}

#[test]
fn every_command_of_the_page_does_what_it_says() {
    const MARK: &str = "end of a block of the page";
    let shell = Shell::new();
    let blocks = blocks();
    let manifest = blocks.iter().find(|(language, _)| *language == "yaml").expect("job.yaml").1;
    std::fs::write(shell.0.path().join("job.yaml"), manifest).expect("the file is written");
    let commands: Vec<&str> =
        blocks.iter().filter(|(kind, _)| *kind == "sh").map(|(_, text)| *text).collect();
    // One shell for all, because the other blocks use variables that the first blocks set.
    let script = commands.iter().map(|block| format!("{}echo; echo '{MARK}'\n", patient(block)));
    let script: String = script.collect();
    let output = shell.run(&script);
    let said = String::from_utf8_lossy(&output.stdout);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{complaint}");

    let mut said = said.split(MARK);
    let mut checked = 0;
    for (place, (language, block)) in blocks.iter().enumerate() {
        if *language != "sh" {
            continue;
        }
        let said = said.next().expect("each block has its output");
        if let Some(("text", expected)) = blocks.get(place + 1) {
            assert_says(said, expected, block);
            checked += 1;
        }
    }
    assert_eq!(checked, blocks.iter().filter(|(language, _)| *language == "text").count());
    assert!(checked > 10, "{checked} blocks");
}

#[test]
fn frameworks_are_created_from_json_and_yaml_once() {
    let ns = namespace("interop-create");
    let curl = Curl::new();
    let all = format!("/namespaces/{ns}/frameworks");
    let json = manifest("j").role("w", 1, &[]).text();
    let yaml = "apiVersion: frameworkcontroller.microsoft.com/v1
kind: Framework
metadata: {name: yaml}
spec:
  taskRoles:
  - name: w
    taskNumber: 1
    task: {pod: {spec: {restartPolicy: Never, containers: [{name: main, image: busybox}]}}}
";
    for (kind, body, name) in [("application/json", json.as_str(), "j"), ("application/yaml", yaml, "yaml")] {
        let created = curl.send("POST", &all, kind, body);
        assert_eq!(created.code, 201, "{}", created.body);
        assert_eq!(created.framework().metadata.name.as_deref(), Some(name));
        let again = curl.send("POST", &all, kind, body);
        assert_eq!((again.code, again.json()["reason"].as_str()), (409, Some("AlreadyExists")));
        running(&ns, name, 1);
    }
    let refused = curl.send("POST", &all, "application/json", &json.replace("\"j\"", "\"Not Allowed\""));
    assert_eq!((refused.code, refused.json()["kind"].as_str()), (422, Some("Status")));
    let missing = curl.send("POST", "/namespaces/nowhere/frameworks", "application/json", &json);
    assert_eq!(missing.code, 404, "{}", missing.body);
}

#[test]
fn every_patch_of_the_manual_gets_the_answer_of_its_table() {
    let ns = namespace("interop-patch");
    let curl = Curl::new();
    let one = format!("/namespaces/{ns}/frameworks/job");
    manifest("job").role("w", 2, &[]).policy(1, 2).create(&ns);
    let role = manifest("x").role("extra", 1, &[]).object().spec.task_roles.remove(0);
    let role = serde_json::to_value(role).expect("JSON");
    let patches = [
        (start(), 200),
        (task_number(0, "w", 3), 200),
        (task_number(0, "other", 4), 422),
        (task_number(1, "w", 4), 422),
        (task_number_and_policy(0, "w", 4, 4, 2), 200),
        (task_number_and_policy(0, "other", 5, 5, 2), 422),
        (add_role(&role), 200),
        (delete_role(0, "extra"), 422),
        (delete_role(7, "extra"), 422),
        (delete_role(1, "extra"), 200),
        (stop(), 200),
        (start(), 422),
    ];
    for (operations, expected) in &patches {
        let before = curl.get(&one).framework().spec;
        let answer = curl.patch(&one, operations);
        assert_eq!(answer.code, *expected, "{operations}: {}", answer.body);
        if *expected == 200 {
            assert_eq!(answer.json()["kind"], "Framework");
        } else {
            assert_eq!(
                (&answer.json()["kind"], &answer.json()["reason"]),
                (&json!("Status"), &json!("Invalid"))
            );
            assert_eq!(curl.get(&one).framework().spec, before, "a refused patch changes nothing");
        }
        let missing = curl.patch(&format!("/namespaces/{ns}/frameworks/nosuch"), operations);
        assert_eq!((missing.code, missing.json()["reason"].as_str()), (404, Some("NotFound")));
    }
    let spec = curl.get(&one).framework().spec;
    let policy = spec.task_roles[0].framework_attempt_completion_policy;
    assert_eq!((spec.task_roles.len(), spec.task_roles[0].task_number), (1, 4));
    assert_eq!((policy.min_succeeded_task_count, policy.min_failed_task_count), (4, 2));
    assert_eq!(code(&completed(&ns, "job")).0, -210);
}

#[test]
fn the_tasks_that_a_patch_asks_for_run() {
    let ns = namespace("interop-rescale");
    let curl = Curl::new();
    let one = format!("/namespaces/{ns}/frameworks/job");
    let text = manifest("job").role("w", 2, &[]).policy(1, 2).text().replace("\"Start\"", "\"Create\"");
    apply(&ns, &text);
    let waiting = |what: &str, is: fn(&Framework) -> bool| cluster::wait(&ns, "job", what, is);
    waiting("about to be started", |job| {
        cluster::state(job) == Some(framework_api::State::AttemptCreationPending)
    });
    assert_eq!(curl.patch(&one, &start()).code, 200);
    running(&ns, "job", 2);
    assert_eq!(curl.patch(&one, &task_number_and_policy(0, "w", 3, 3, 1)).code, 200);
    running(&ns, "job", 3);
    let role = serde_json::to_value(&manifest("x").role("extra", 2, &[]).object().spec.task_roles[0]);
    assert_eq!(curl.patch(&one, &add_role(&role.expect("JSON"))).code, 200);
    running(&ns, "job", 5);
    assert_eq!(curl.patch(&one, &task_number(1, "extra", 1)).code, 200);
    running(&ns, "job", 4);
    assert_eq!(curl.patch(&one, &delete_role(1, "extra")).code, 200);
    let left = waiting("without the TaskRole", |job| {
        job.status.as_ref().is_some_and(|status| status.task_roles().len() == 1)
    });
    assert!(left.status.expect("a status").task("extra", 0).is_none());
    let gone = block_on(cluster::pods(&ns).get_opt("job-extra-0")).expect("an answer");
    assert!(gone.is_none(), "its Task is only taken from the status once its Pod is gone");
}

#[test]
fn a_delete_answers_with_the_framework_while_its_pods_end() {
    let ns = namespace("interop-delete");
    let curl = Curl::new();
    let bodies = [
        ("application/json", "{\n  \"propagationPolicy\": \"Foreground\"\n}"),
        ("application/yaml", "propagationPolicy: Foreground\n"),
    ];
    for (kind, body) in bodies {
        let one = format!("/namespaces/{ns}/frameworks/job");
        manifest("job").role("w", 2, &[("stop-delay", "500ms")]).create(&ns);
        running(&ns, "job", 2);
        let deleting = curl.send("DELETE", &one, kind, body);
        assert_eq!(
            (deleting.code, &deleting.json()["kind"]),
            (200, &json!("Framework")),
            "{}",
            deleting.body
        );
        let meta = deleting.framework().metadata;
        assert!(meta.deletion_timestamp.is_some());
        assert_eq!(meta.finalizers, Some(vec!["foregroundDeletion".to_owned()]));
        kubectl(&["wait", "--for=delete", "fw/job", "--namespace", &ns, "--timeout=60s"]);
        cluster::assert_nothing_is_left(&ns, "job");
        let gone = curl.send("DELETE", &one, kind, body);
        assert_eq!((gone.code, gone.json()["reason"].as_str()), (404, Some("NotFound")));
        assert_eq!(curl.get(&one).code, 404);
    }
    // Without a body it is a background deletion: the Framework is gone before its Pods are.
    manifest("job").role("w", 1, &[]).create(&ns);
    running(&ns, "job", 1);
    let deleted = curl.send("DELETE", &format!("/namespaces/{ns}/frameworks/job"), "", "");
    assert_eq!((deleted.code, &deleted.json()["status"]), (200, &json!("Success")));
    assert_eq!(deleted.json()["kind"], "Status");
}

#[test]
fn lists_select_by_label_and_name_and_come_in_pages() {
    let (ns, elsewhere) = (namespace("interop-list"), namespace("interop-list-b"));
    let curl = Curl::new();
    for (ns, name, team) in [(&ns, "a", "red"), (&ns, "b", "blue"), (&elsewhere, "c", "red")] {
        manifest(name).role("w", 0, &[]).create(ns);
        kubectl(&["label", "fw", name, "--namespace", ns, &format!("team={team}")]);
    }
    let names = |path: &str| {
        let answer = curl.get(path);
        assert_eq!((answer.code, &answer.json()["kind"]), (200, &json!("FrameworkList")), "{}", answer.body);
        let list = answer.json();
        let items = list["items"].as_array().expect("a list").clone();
        let names = items.iter().map(|item| item["metadata"]["name"].as_str().unwrap_or_default().to_owned());
        (names.collect::<Vec<_>>(), list["metadata"]["continue"].as_str().unwrap_or_default().to_owned())
    };
    let here = format!("/namespaces/{ns}/frameworks");
    assert_eq!(names(&here).0, ["a", "b"]);
    assert_eq!(names(&format!("{here}?labelSelector=team%3Dblue")).0, ["b"]);
    // In the order of namespace and name, the hyphen before the slash.
    assert_eq!(names("/frameworks?labelSelector=team%3Dred").0, ["c", "a"]);
    assert_eq!(names(&format!("{here}?fieldSelector=metadata.name%3Da")).0, ["a"]);
    assert_eq!(names(&format!("/frameworks?fieldSelector=metadata.namespace%3D{elsewhere}")).0, ["c"]);
    let (first, rest) = names(&format!("{here}?limit=1"));
    assert_eq!((first, rest.is_empty()), (vec!["a".to_owned()], false));
    assert_eq!(names(&format!("{here}?limit=1&continue={rest}")), (vec!["b".to_owned()], String::new()));
    let refused = curl.get(&format!("{here}?fieldSelector=status.state%3DCompleted"));
    assert_eq!((refused.code, refused.json()["reason"].as_str()), (400, Some("BadRequest")));
    assert_eq!(names("/namespaces/nowhere/frameworks").0, [""; 0], "a namespace that is not there is empty");
}

#[test]
fn watches_by_the_manuals_paths_and_by_todays_show_the_same() {
    let ns = namespace("interop-watch");
    let curl = Curl::new();
    for name in ["a", "b"] {
        manifest(name).role("w", 1, &[("exit-code", "0")]).create(&ns);
        completed(&ns, name);
    }
    let watched = |path: &str| {
        let sign = if path.contains('?') { '&' } else { '?' };
        let answer = curl.get(&format!("{path}{sign}timeoutSeconds=1"));
        assert_eq!(answer.code, 200, "{path}: {}", answer.body);
        answer.events()
    };
    let added = |names: &[&str]| -> Vec<(String, String)> {
        names.iter().map(|name| ("ADDED".to_owned(), (*name).to_owned())).collect()
    };
    // A server that is slow ends a watch before it has sent all.
    let shows = |path: &str, names: &[&str]| {
        let deadline = Instant::now() + cluster::PATIENCE;
        let mut events = watched(path);
        while events != added(names) {
            assert!(Instant::now() < deadline, "{path}: {events:?}");
            events = watched(path);
        }
    };
    let here = format!("/namespaces/{ns}/frameworks");
    shows(&format!("/watch{here}/a"), &["a"]);
    shows(&format!("{here}?watch=1&fieldSelector=metadata.name%3Da"), &["a"]);
    shows(&format!("/watch{here}"), &["a", "b"]);
    shows(&format!("{here}?watch=1"), &["a", "b"]);
    for path in ["/watch/frameworks", "/frameworks?watch=1"] {
        cluster::until(path, || {
            let all = watched(path);
            added(&["a", "b"]).iter().all(|event| all.contains(event)).then_some(())
        });
    }

    // Where the manual says 404: the watch of an object that does not exist is empty.
    assert_eq!(watched(&format!("/watch{here}/nosuch")), []);
    assert_eq!(watched("/watch/namespaces/nowhere/frameworks/nosuch"), []);
    // The parameter means nothing on the path of one object.
    let once = curl.get(&format!("{here}/a?watch=1&timeoutSeconds=1"));
    assert_eq!((once.code, once.framework().metadata.name.as_deref()), (200, Some("a")));
    // A version that is too old to watch from is reported within the stream.
    let old = cluster::until("the stream has an event", || {
        let old = curl.get(&format!("/watch{here}?resourceVersion=1&timeoutSeconds=1"));
        assert_eq!(old.code, 200);
        (!old.body.is_empty()).then_some(old)
    });
    let event: Value = serde_json::from_str(old.body.trim()).expect("an event");
    assert_eq!((&event["type"], &event["object"]["code"]), (&json!("ERROR"), &json!(410)));
}

#[test]
fn a_watch_streams_the_changes_of_a_framework_that_comes_later() {
    let ns = namespace("interop-stream");
    let curl = Curl::new();
    let since = curl.get(&format!("/namespaces/{ns}/frameworks")).json();
    let since = since["metadata"]["resourceVersion"].as_str().expect("a version").to_owned();
    manifest("other").role("w", 0, &[]).create(&ns);
    manifest("late").role("w", 1, &[("exit-code", "0")]).create(&ns);
    completed(&ns, "late");
    kubectl(&["delete", "fw", "late", "--namespace", &ns, "--cascade=foreground", "--timeout=60s"]);
    let path = format!("/watch/namespaces/{ns}/frameworks/late?resourceVersion={since}&timeoutSeconds=1");
    // A server that is slow ends a watch before it has sent all.
    let events = cluster::until("the stream ends with the deletion", || {
        let events = curl.get(&path).events();
        events.last().is_some_and(|(kind, _)| kind == "DELETED").then_some(events)
    });
    assert!(events.iter().all(|(_, name)| name == "late"), "{events:?}");
    let kinds: Vec<&str> = events.iter().map(|(kind, _)| kind.as_str()).collect();
    assert_eq!((kinds.first(), kinds.last()), (Some(&"ADDED"), Some(&"DELETED")), "{kinds:?}");
    assert!(kinds[1..kinds.len() - 1].iter().all(|kind| *kind == "MODIFIED"), "{kinds:?}");
}

#[test]
fn kubectl_does_all_of_it_and_says_why_not() {
    let ns = namespace("interop-kubectl");
    let text = manifest("job").role("w", 1, &[]).text();
    let run = |arguments: &[&str], input: &str| {
        let arguments = [&["--namespace", ns.as_str()], arguments].concat();
        let output = with_controller().kubectl_as("admin", &arguments, input).expect("kubectl runs");
        (output.status.success(), format!("{}{}", output.stdout, output.stderr))
    };
    let does = |arguments: &[&str], input: &str, words: &str| {
        let (good, said) = run(arguments, input);
        assert!(good && said.contains(words), "kubectl {arguments:?}: {said}");
    };
    let fails = |arguments: &[&str], input: &str, words: &str| {
        let (good, said) = run(arguments, input);
        assert!(!good && said.contains(words), "kubectl {arguments:?}: {said}");
    };
    does(&["create", "-f", "-"], &text, "framework.frameworkcontroller.microsoft.com/job created");
    fails(&["create", "-f", "-"], &text, "(AlreadyExists)");
    running(&ns, "job", 1);
    does(&["get", "framework", "job"], "", "AttemptRunning");
    does(&["describe", "framework", "job"], "", "Execution Type:");
    does(&["get", "frameworks"], "", "job");
    does(&["describe", "frameworks"], "", "Task Role Statuses:");
    does(&["get", "fw", "--selector", "team=none"], "", "No resources found");
    does(&["get", "fw", "--field-selector", "metadata.name=job", "--all-namespaces"], "", &ns);
    for (name, patch, words) in [
        ("job", task_number(0, "other", 2), "The request is invalid"),
        ("nosuch", start(), "(NotFound)"),
        ("job", json!([{"op": "replace", "path": "/spec/executionType", "value": "Create"}]), "never back"),
    ] {
        fails(&["patch", "fw", name, "--type=json", "-p", &patch.to_string()], "", words);
    }
    for verb in ["get", "describe", "delete"] {
        fails(&[verb, "framework", "nosuch"], "", "(NotFound)");
    }
    let all = format!("{GROUP}/namespaces/{ns}/frameworks");
    does(&["get", "--raw", &format!("{all}/job")], "", "\"kind\":\"Framework\"");
    let watch = format!("{GROUP}/watch/namespaces/{ns}/frameworks/job?timeoutSeconds=1");
    cluster::until("a raw watch shows the Framework", || {
        let (good, said) = run(&["get", "--raw", &watch], "");
        (good && said.contains("ADDED")).then_some(())
    });
    let second = manifest("raw").role("w", 0, &[]).text();
    does(&["create", "--raw", &all, "-f", "-"], &second, "\"kind\":\"Framework\"");
    let foreground = "{\"propagationPolicy\": \"Foreground\"}";
    does(&["delete", "--raw", &format!("{all}/raw"), "-f", "-"], foreground, "\"deletionTimestamp\"");
    fails(&["delete", "--raw", &format!("{all}/nosuch"), "-f", "-"], foreground, "(NotFound)");
    does(&["delete", "framework", "job", "--cascade=foreground", "--timeout=60s"], "", "deleted");
    cluster::assert_nothing_is_left(&ns, "job");
}

#[test]
fn deleting_a_config_map_or_a_pod_ends_the_attempt_as_the_table_says() {
    let ns = namespace("interop-objects");
    let deletions = [
        ("bymap", &["configmap/bymap-attempt", "--cascade=foreground"], -100),
        ("bymapbackground", &["configmap/bymapbackground-attempt", "--cascade=background"], -100),
        ("bypod", &["pod/bypod-w-1", "--wait=false"], -101),
    ];
    for (name, ..) in &deletions {
        manifest(name).role("w", 3, &[("stop-delay", "500ms")]).create(&ns);
    }
    for (name, what, expected) in deletions {
        running(&ns, name, 3);
        kubectl(&[&["delete", "--namespace", &ns, "--timeout=60s"], &what[..]].concat());
        assert_eq!(code(&completed(&ns, name)).0, expected, "{what:?}");
        cluster::assert_nothing_is_left(&ns, name);
    }
}

#[test]
fn a_retried_framework_comes_back_after_its_config_map_was_deleted() {
    let ns = namespace("interop-again");
    manifest("job").role("w", 2, &[]).task_retry(true, 0).retry(true, 0).create(&ns);
    running(&ns, "job", 2);
    kubectl(&["delete", "--namespace", &ns, "pod/job-w-0"]);
    cluster::wait(&ns, "job", "at the Task's second attempt", |job| {
        let task = job.status.as_ref().and_then(|status| status.task("w", 0));
        task.is_some_and(|task| {
            task.attempt_status.id == 1 && task.state == framework_api::State::AttemptRunning
        })
    });
    kubectl(&["delete", "--namespace", &ns, "configmap/job-attempt"]);
    let again = cluster::wait(&ns, "job", "at its second attempt", |job| {
        let status = job.status.as_ref();
        status.is_some_and(|status| status.attempt_status.id == 1 && status.tasks.as_deref() == Some("2/2"))
    });
    let retried = again.status.expect("a status").retry_policy_status;
    assert_eq!((retried.total_retried_count, retried.accountable_retried_count), (1, 0));
}

/// Asserts that all of `expected` is in `found`: every key of an object, every item of a list in its place.
fn assert_holds(found: &Value, expected: &Value, path: &str) {
    match expected {
        Value::Object(fields) => {
            for (key, expected) in fields {
                assert_holds(&found[key], expected, &format!("{path}.{key}"));
            }
        }
        Value::Array(items) => {
            for (place, expected) in items.iter().enumerate() {
                assert_holds(&found[place], expected, &format!("{path}[{place}]"));
            }
        }
        value => assert_eq!(found, value, "{path}"),
    }
}

#[test]
fn fields_that_other_schedulers_read_reach_the_pod_untouched() {
    let ns = namespace("interop-scheduler");
    kubectl(&["create", "priorityclass", "interop-high", "--value=1000"]);
    // Trailing spaces, tabs, quotes and text that is no placeholder: all of it belongs to the user.
    let hived = "virtualCluster: vc1\npriority: 1000\n\"quoted\": 'x'  \n# {{FC_NOTHING}} {{ .Values }} $(A)\n\
                 affinityGroup:\n  name: {{FC_FRAMEWORK_NAMESPACE}}/{{FC_FRAMEWORK_NAME}}\n  members:\n  \
                 - podNumber: 1\n    leafCellNumber: 8\t\n";
    let template = json!({
        "metadata": {
            "annotations": {
                "hivedscheduler.microsoft.com/pod-scheduling-spec": hived,
                "scheduling.volcano.sh/queue-name": "q1",
                "empty.example.com/value": "",
            },
            "labels": {
                "kueue.x-k8s.io/queue-name": "user-queue",
                "volcano.sh/task-spec": "w",
                "pod-group.scheduling.sigs.k8s.io": "{{FC_FRAMEWORK_NAME}}",
            },
            "finalizers": ["example.com/mine"],
        },
        "spec": {
            "restartPolicy": "Never",
            "schedulerName": "hivedscheduler",
            "priorityClassName": "interop-high",
            "schedulingGates": [{ "name": "example.com/gate" }],
            "nodeSelector": { "example.com/pool": "{{FC_TASKROLE_NAME}}" },
            "tolerations": [{ "key": "example.com/gpu", "operator": "Exists", "effect": "NoSchedule" }],
            "containers": [{
                "name": "main",
                "image": "busybox",
                "args": ["{{FC_TASK_INDEX}}", "{{ FC_TASK_INDEX }}", "$(FC_TASK_INDEX)"],
                "resources": { "limits": {
                    "hivedscheduler.microsoft.com/pod-scheduling-enable": "1", "nvidia.com/gpu": "8",
                } },
            }],
        },
    });
    manifest("job").role("w", 1, &[]).last_role(|role| role["task"]["pod"] = template.clone()).create(&ns);
    cluster::wait(&ns, "job", "preparing", |job| {
        let task = job.status.as_ref().and_then(|status| status.task("w", 0));
        task.is_some_and(|task| task.state == framework_api::State::AttemptPreparing)
    });
    let pod = block_on(cluster::pods(&ns).get("job-w-0")).expect("the Pod is there");
    let pod = serde_json::to_value(pod).expect("JSON");
    // Text for text: only the placeholders that the manual names are replaced.
    let replaced = [
        ("{{FC_FRAMEWORK_NAMESPACE}}", ns.as_str()),
        ("{{FC_FRAMEWORK_NAME}}", "job"),
        ("{{FC_TASKROLE_NAME}}", "w"),
        ("{{FC_TASK_INDEX}}", "0"),
    ];
    let expected =
        replaced.iter().fold(template.to_string(), |text, (name, value)| text.replace(name, value));
    assert_holds(&pod, &serde_json::from_str(&expected).expect("JSON"), "pod");
    let text = pod["metadata"]["annotations"]["hivedscheduler.microsoft.com/pod-scheduling-spec"].as_str();
    assert!(text.is_some_and(|text| text.contains(&format!("name: {ns}/job\n"))), "{text:?}");

    // Its finalizer and its gate belong to another program too, which removes them.
    let free = json!({ "metadata": { "finalizers": null } }).to_string();
    kubectl(&["patch", "pod", "job-w-0", "--namespace", &ns, "--type=merge", "-p", &free]);
    cluster::execute(&ns, "job", "Stop");
    assert_eq!(code(&completed(&ns, "job")).0, -210);
}
