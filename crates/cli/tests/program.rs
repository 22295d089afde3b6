//! The program itself: exit codes, and which text goes where. Tests of other packages build it by this file.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::mpsc;
use std::time::Duration;

use serde_json::{Value, json};

fn run(arguments: &[&str]) -> Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_kubectl-framework"));
    program.args(arguments).env_clear().env("HOME", "/nowhere");
    program.output().unwrap()
}

/// A kubeconfig for a server.
fn kubeconfig(name: &str, server: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
         clusters: [{{name: k, cluster: {{server: '{server}'}}}}]\n\
         contexts: [{{name: c, context: {{cluster: k, user: u, namespace: team}}}}]\n\
         users: [{{name: u, user: {{}}}}]\n"
    );
    std::fs::write(&path, text).unwrap();
    path
}

/// A kubeconfig for an API server that gives this answer about the head of each request.
fn serve(name: &str, answer: impl Fn(&str) -> (u16, Value) + Send + 'static) -> PathBuf {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let path = kubeconfig(name, &format!("http://{}", listener.local_addr().unwrap()));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
            let head: String = lines.take_while(|line| !line.is_empty()).map(|line| line + "\n").collect();
            if head.is_empty() {
                continue;
            }
            let (status, body) = answer(&head);
            let (body, kind) = (body.to_string(), "content-type: application/json");
            let head = format!("HTTP/1.1 {status} -\r\n{kind}\r\ncontent-length: {}\r\n", body.len());
            let _ = stream.write_all(format!("{head}connection: close\r\n\r\n{body}").as_bytes());
        }
    });
    path
}

/// A kubeconfig for a server that takes each connection and never answers.
fn silent(name: &str) -> PathBuf {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let path = kubeconfig(name, &format!("http://{}", listener.local_addr().unwrap()));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            // Ends with the program. If that waits, the end of the connection is its answer.
            stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            while matches!(stream.read(&mut [0; 4096]), Ok(1..)) {}
        }
    });
    path
}

/// The Framework `train` in the namespace `team`.
fn train() -> Value {
    serde_saphyr::from_str(include_str!("../data/running.yaml")).unwrap()
}

fn refusal(code: u16, message: &str, name: &str) -> (u16, Value) {
    let details = json!({"name": name});
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message,
        "reason": "-", "details": details, "code": code});
    (code, status)
}

fn list(items: &[Value]) -> (u16, Value) {
    (200, json!({"kind": "List", "apiVersion": "v1", "metadata": {}, "items": items}))
}

/// The exit code and both outputs of the program with a kubeconfig.
fn ask(kubeconfig: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = run(&[arguments, &["--kubeconfig", kubeconfig.to_str().unwrap()]].concat());
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn a_named_framework_that_is_missing_hides_no_other() {
    let server = serve("some", |target| {
        let is_asked = |name: &&str| target.contains(&format!("/frameworks/{name}"));
        match ["gone", "lost"].into_iter().find(is_asked) {
            Some(name) => refusal(404, "not found", name),
            None => (200, train()),
        }
    });
    let missing = |name: &str| format!("error: there is no Framework {name:?} in the namespace \"team\"\n");
    let (code, text, complaint) = ask(&server, &["get", "gone", "train", "lost"]);
    assert_eq!((code, complaint), (Some(1), missing("gone") + &missing("lost")));
    assert!(text.starts_with("NAME") && text.contains("train"), "{text}");
    for arguments in [&["get", "gone"][..], &["get", "gone", "-o", "json"], &["top", "gone"]] {
        assert_eq!(ask(&server, arguments), (Some(1), String::new(), missing("gone")), "{arguments:?}");
    }
}

#[test]
fn names_are_printed_as_kubectl_prints_them() {
    let server = serve("names", |_| list(&[train(), train()]));
    let line = "framework.frameworkcontroller.microsoft.com/train\n";
    assert_eq!(ask(&server, &["get", "-o", "name"]), (Some(0), line.repeat(2), String::new()));
}

#[test]
fn no_headers_leaves_the_titles_out() {
    let server = serve("titles", |_| list(&[train()]));
    let (code, text, complaint) = ask(&server, &["get", "--no-headers"]);
    assert_eq!((code, complaint.as_str()), (Some(0), ""));
    assert!(text.starts_with("train ") && text.lines().count() == 1, "{text}");
}

#[test]
fn requests_act_as_the_user_and_the_groups_of_the_options() {
    let server = serve("impersonation", |head| {
        let lines = ["impersonate-user: ann", "impersonate-group: a", "impersonate-group: b,c"];
        match lines.iter().all(|line| head.lines().any(|shown| shown == *line)) {
            true => (200, train()),
            false => refusal(403, "forbidden", ""),
        }
    });
    let groups = ["get", "train", "--as-group=a", "--as-group=b,c"];
    let (code, _, complaint) = ask(&server, &[&groups[..], &["--as=ann"]].concat());
    assert_eq!((code, complaint.as_str()), (Some(0), ""));
    let (code, _, complaint) = ask(&server, &groups);
    assert_eq!(code, Some(1));
    assert!(complaint.starts_with("error: --as-group needs --as"), "{complaint}");
}

#[test]
fn a_framework_with_a_damaged_status_is_stopped_and_scaled() {
    let server = serve("damaged", |_| {
        let mut damaged = train();
        damaged["status"]["attemptStatus"] = json!("damaged");
        (200, damaged)
    });
    for (arguments, words) in [
        (&["stop", "train"][..], "framework/train stopped\n"),
        (&["scale", "train", "worker=6"][..], "framework/train scaled: worker from 4 to 6\n"),
    ] {
        assert_eq!(ask(&server, arguments), (Some(0), words.to_owned(), String::new()), "{arguments:?}");
    }
}

#[test]
fn a_cluster_that_serves_no_frameworks_is_named_as_such() {
    let server = serve("bare", |_| (404, json!("404 page not found")));
    for arguments in [&["get"][..], &["get", "a", "b"], &["stop", "a"]] {
        let (code, text, complaint) = ask(&server, arguments);
        assert_eq!((code, text.as_str()), (Some(1), ""), "{arguments:?}");
        assert!(complaint.contains("the API server serves no Frameworks (404)"), "{complaint}");
        assert!(complaint.ends_with("choose its cluster by --context\n"), "{complaint}");
    }
}

#[test]
fn why_answers_without_the_pods_that_it_may_not_list() {
    let server = serve("forbidden", |target| match target.contains("/frameworks/train") {
        true => (200, train()),
        false => refusal(403, "forbidden", ""),
    });
    let (code, text, complaint) = ask(&server, &["why", "train"]);
    assert_eq!((code, complaint.as_str()), (Some(0), ""));
    let unknown = "Unknown:     cannot list the Pods of the Framework \"train\" in the namespace \"team\": \
        forbidden (403)\n";
    assert!(text.contains("State:       AttemptRunning") && text.contains(unknown), "{text}");
}

#[test]
fn why_fails_if_the_pods_cannot_be_listed_now() {
    let server = serve("overloaded", |target| match target.contains("/frameworks/train") {
        true => (200, train()),
        false => refusal(500, "etcd has no leader", ""),
    });
    let (code, text, complaint) = ask(&server, &["why", "train"]);
    assert_eq!((code, text.as_str()), (Some(1), ""));
    assert!(complaint.contains("etcd has no leader (500)"), "{complaint}");
}

/// The last second that Kubernetes knows is later than the last one of our types.
#[test]
fn an_object_with_a_time_that_no_type_holds_hides_no_other() {
    let late = "9999-12-31T23:59:59Z";
    let server = serve("late", move |target| {
        let owner =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "c", "controller": true});
        let pod = |name: &str, deleted: Option<&str>| {
            let metadata = json!({"namespace": "team", "name": name, "ownerReferences": [owner.clone()],
                "deletionTimestamp": deleted});
            let container = json!({"name": "main", "resources": {"requests": {"cpu": "3"}}});
            json!({"metadata": metadata, "spec": {"containers": [container]}})
        };
        let event = |reason: &str, at: &str| {
            let about = json!({"kind": "Framework"});
            json!({"metadata": {}, "involvedObject": about, "reason": reason, "lastTimestamp": at})
        };
        match target {
            at if at.contains("metrics.k8s.io") => refusal(404, "not found", ""),
            at if at.contains("/pods?") => list(&[pod("odd", Some(late)), pod("train-worker-0", None)]),
            at if at.contains("/events?") => {
                list(&[event("Odd", late), event("Good", "2026-01-02T03:04:05Z")])
            }
            at if at.contains("/frameworks/train") => (200, train()),
            _ => list(&[train()]),
        }
    });
    let (code, text, complaint) = ask(&server, &["top"]);
    assert_eq!((code, complaint.as_str()), (Some(0), ""));
    let row = text.lines().nth(1).unwrap();
    assert_eq!(row.split_whitespace().collect::<Vec<_>>(), ["train", "1", "2", "6", "0"], "{text}");
    let (code, text, complaint) = ask(&server, &["history", "train"]);
    assert_eq!((code, complaint.as_str()), (Some(0), ""));
    assert!(text.contains("Good") && !text.contains("Odd"), "{text}");
}

#[test]
fn a_server_that_never_answers_holds_up_no_wait() {
    let (code, _, complaint) = ask(&silent("silent"), &["wait", "a", "--timeout=1s"]);
    let expected = "error: timed out after 1s: the Framework \"a\" in the namespace \"team\" cannot be read: \
        the API server gave no answer, --for=succeeded was not reached\n";
    assert_eq!((code, complaint.as_str()), (Some(1), expected));
}

#[test]
fn a_request_timeout_bounds_each_request() {
    let server = silent("never");
    for (arguments, step) in [
        (&["get"][..], "list the Frameworks of the namespace"),
        (&["get", "a", "b"][..], "get the Framework \"a\""),
        (&["why", "a"][..], "get the Framework \"a\""),
        (&["wait", "a", "--timeout=0"][..], "get the Framework \"a\""),
    ] {
        let (code, text, complaint) = ask(&server, &[arguments, &["--request-timeout=100ms"]].concat());
        assert_eq!((code, text.as_str()), (Some(1), ""), "{arguments:?}");
        assert!(complaint.starts_with(&format!("error: cannot {step}")), "{complaint}");
        assert!(complaint.ends_with(": no answer within 100ms (--request-timeout)\n"), "{complaint}");
    }
    // It answers the GET at once, and the patch far too late.
    let server = serve("late-patch", |head| {
        if head.starts_with("PATCH") {
            let (_sender, never) = mpsc::channel::<()>();
            let _ = never.recv_timeout(Duration::from_secs(20));
        }
        (200, train())
    });
    let (code, _, complaint) = ask(&server, &["stop", "train", "--request-timeout=3"]);
    let expected = "error: cannot stop the Framework \"train\" in the namespace \"team\": no answer within \
        3s (--request-timeout)\n";
    assert_eq!((code, complaint.as_str()), (Some(1), expected));
}

#[test]
fn an_error_that_nobody_reads_has_its_own_exit_code() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut program = Command::new(env!("CARGO_BIN_EXE_kubectl-framework"));
    let status = program.arg("get").env_clear().env("HOME", "/nowhere").stderr(writer).status().unwrap();
    assert_eq!(status.code(), Some(1));
}

#[test]
fn help_goes_to_stdout_and_errors_to_stderr() {
    let help = run(&["--help"]);
    assert_eq!(help.status.code(), Some(0));
    assert!(String::from_utf8(help.stdout).unwrap().contains("Usage: kubectl framework"));
    for (arguments, code, words) in [
        (&["get", "pod/a"][..], 2, "give NAME or fw/NAME"),
        (&["stop", "fw/a/status"][..], 2, "\"a/status\" is not the name of an object"),
        (&["scale", "a", "w=1", "w=2"][..], 2, "\"w\" is named twice"),
        (&["wait", "a", "--timeout=9223372036854775807s"][..], 2, "is not a duration of at most 8760h"),
        (&["fetch"][..], 2, "unrecognized subcommand"),
        (&["get", "--context=prod"][..], 1, "there is no context \"prod\", because no kubeconfig was found"),
        (
            &["get", "--kubeconfig=/nowhere/kubeconfig"][..],
            1,
            "cannot use the kubeconfig /nowhere/kubeconfig",
        ),
    ] {
        let failed = run(arguments);
        assert_eq!((failed.status.code(), failed.stdout.len()), (Some(code), 0), "{arguments:?}");
        let complaint = String::from_utf8(failed.stderr).unwrap();
        assert!(complaint.starts_with("error: ") && complaint.contains(words), "{complaint}");
    }
}

#[test]
fn a_server_that_is_not_there_is_named_with_the_cause() {
    let path = kubeconfig("unreachable", "http://127.0.0.1:1");
    let failed = run(&["get", "--kubeconfig", path.to_str().unwrap()]);
    let complaint = String::from_utf8(failed.stderr).unwrap();
    let begin = "error: cannot list the Frameworks of the namespace \"team\": ";
    assert!(complaint.starts_with(begin) && complaint.contains("Connection refused"), "{complaint}");
    assert_eq!((failed.status.code(), complaint.lines().count()), (Some(1), 1), "{complaint}");
}

/// kubectl, too, takes no other file than those that KUBECONFIG names.
#[test]
fn a_kubeconfig_that_does_not_exist_leads_to_no_other_cluster() {
    let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join("home");
    std::fs::create_dir_all(home.join(".kube")).unwrap();
    std::fs::write(home.join(".kube/config"), "not read").unwrap();
    let mut program = Command::new(env!("CARGO_BIN_EXE_kubectl-framework"));
    program.arg("get").env_clear().env("HOME", &home).env("KUBECONFIG", "/nowhere/a:/nowhere/b");
    let output = program.output().unwrap();
    let expected = "error: KUBECONFIG=\"/nowhere/a:/nowhere/b\" names no file that exists: correct it, or \
        unset it for ~/.kube/config\n";
    assert_eq!(String::from_utf8(output.stderr).unwrap(), expected);
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn by_its_second_name_the_program_completes_words() {
    let link = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kubectl_complete-framework");
    // An earlier run may have left it.
    let _ = std::fs::remove_file(&link);
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_kubectl-framework"), &link).unwrap();
    let output = Command::new(&link).args(["--output", "j"]).env_clear().output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "json\n:4\n");
}

#[test]
fn a_word_that_is_not_utf_8_is_refused_and_completes_to_nothing() {
    let odd = OsStr::from_bytes(b"\xff");
    let run = |name: &OsStr, word: &str| {
        let mut program = Command::new(env!("CARGO_BIN_EXE_kubectl-framework"));
        program.arg0(name).args([OsStr::new(word), odd]).env_clear().output().unwrap()
    };
    let completed = run(OsStr::new("kubectl_complete-framework"), "--output");
    assert_eq!(String::from_utf8(completed.stdout).unwrap(), ":4\n");
    assert_eq!((completed.status.code(), completed.stderr.len()), (Some(0), 0));
    let refused = run(odd, "get");
    let complaint = String::from_utf8(refused.stderr).unwrap();
    assert!(complaint.starts_with("error: invalid UTF-8 was detected"), "{complaint}");
    assert_eq!(refused.status.code(), Some(2), "{complaint}");
}
