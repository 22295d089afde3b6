//! Compressed statuses on a real API server. Columns, conditions and `kubectl wait` stay right. A controller
//! reads a status that another one compressed with another codec, and an unreadable status affects no other
//! Framework.

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Instant;

use framework_api::codec::{DECODED_LIMIT, Effort, encode};
use framework_api::config::CompressionCodec;
use framework_api::{Framework, State};
use serde_json::{Value, json};

use crate::cluster::lease::{Alone, namespace};
use crate::cluster::plugin;
use crate::cluster::recording::Recording;
use crate::cluster::{
    PATIENCE, block_on, code, execute, frameworks, kubectl, manifest, running, state, wait,
};

/// Every status is compressed, with this codec.
fn config(codec: &str) -> String {
    format!(
        "largeFrameworkCompression: true\nlargeFrameworkCompressionThresholdBytes: 0\n\
         largeFrameworkCompressionCodec: {codec}"
    )
}

/// The compressed text of a Framework's status, which has no raw one.
fn text(framework: &Framework) -> String {
    let attempt = &framework.status.as_ref().expect("a status").attempt_status;
    assert_eq!(attempt.task_role_statuses, None, "null beside the compressed form");
    attempt.task_role_statuses_compressed.clone().expect("a compressed status")
}

/// The states of the Tasks of a Framework whose status is compressed.
fn tasks(framework: &Framework) -> Vec<State> {
    let mut status = framework.status.clone().expect("a status");
    assert_eq!(status.decompress(), Ok(true));
    status.task_roles().iter().flat_map(|role| role.task_statuses.iter().map(|task| task.state)).collect()
}

/// The Tasks in a text, decompressed by the usual commands.
fn by_command(text: &str, decompress: &str) -> Value {
    if Command::new(decompress).arg("--version").output().is_err() {
        panic!("there is no {decompress}: install it with `apt-get install {decompress}`");
    }
    let mut shell = Command::new("sh");
    let script = format!("base64 -d | {decompress} -dc");
    let shell = shell.args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = shell.spawn().expect("there is a shell");
    child.stdin.take().expect("it is piped").write_all(text.as_bytes()).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "base64 and {decompress} decompress it");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// The columns of a Framework, but for its age.
fn columns(namespace: &str, name: &str) -> Vec<String> {
    let line = kubectl(&["get", "framework", name, "--namespace", namespace, "--no-headers"]);
    line.split_whitespace().take(4).map(str::to_owned).collect()
}

/// Waits as a user's script would.
fn kubectl_wait(namespace: &str, name: &str, condition: &str) {
    let timeout = format!("--timeout={}s", PATIENCE.as_secs());
    let condition = format!("--for=condition={condition}");
    kubectl(&["wait", &condition, &timeout, &format!("framework/{name}"), "--namespace", namespace]);
}

fn get(namespace: &str, name: &str) -> Framework {
    block_on(frameworks(namespace).get(name)).expect("it is there")
}

#[test]
fn compressed_statuses_look_as_others_do_and_outlive_a_change_of_codec() {
    let alone = Alone::wait();
    let ns = namespace("compression");
    let recording = Recording::start(&ns);
    let first = alone.start("controller", &config("zstd"));
    manifest("endless").role("w", 3, &[]).create(&ns);
    let zstd = running(&ns, "endless", 3);
    assert!(text(&zstd).starts_with("KLUv/"), "zstd");
    assert_eq!(tasks(&zstd), [State::AttemptRunning; 3]);
    assert_eq!(by_command(&text(&zstd), "zstd")[0]["taskStatuses"][2]["state"], "AttemptRunning");
    assert_eq!(columns(&ns, "endless"), ["endless", "AttemptRunning", "0", "3/3"]);
    kubectl_wait(&ns, "endless", "Running");
    let shown: Value = serde_json::from_str(&plugin::output(&ns, &["get", "endless", "-o", "json"])).unwrap();
    let attempt = &shown["status"]["attemptStatus"];
    assert_eq!(attempt["taskRoleStatuses"][0]["taskStatuses"][2]["state"], "AttemptRunning", "{shown}");
    assert_eq!(attempt.get("taskRoleStatusesCompressed"), None, "{shown}");
    drop(first);

    let _second = alone.start("controller", &config("gzip"));
    execute(&ns, "endless", "Stop");
    manifest("short").role("w", 2, &[("exit-code", "0")]).create(&ns);
    kubectl_wait(&ns, "short", "Complete");
    kubectl_wait(&ns, "endless", "Failed");
    for (name, ended, done) in [("short", 0, "2/2"), ("endless", -210, "0/3")] {
        let gzip = get(&ns, name);
        assert!(text(&gzip).starts_with("H4sI"), "gzip");
        let unzipped = by_command(&text(&gzip), "gzip");
        assert_eq!(unzipped[0]["taskStatuses"][0]["state"], "Completed");
        assert!(tasks(&gzip).iter().all(|task| *task == State::Completed));
        assert_eq!(code(&gzip).0, ended);
        assert_eq!(columns(&ns, name), [name, "Completed", "0", done]);
    }
    recording.end().assert_promises_are_kept();
}

/// Writes a compressed text into a status, as a user with an editor would.
fn edit(namespace: &str, name: &str, text: &str) {
    let patch = json!({ "status": { "attemptStatus": { "taskRoleStatusesCompressed": text } } }).to_string();
    let subject = ["patch", "framework", name, "--namespace", namespace];
    kubectl(&[&subject[..], &["--subresource=status", "--type=merge", "-p", &patch]].concat());
}

/// Status and reason of the condition `Running`.
fn condition(framework: &Framework) -> Option<(String, String)> {
    let conditions = &framework.status.as_ref()?.conditions;
    let running = conditions.iter().find(|condition| condition.type_ == "Running")?;
    Some((running.status.clone(), running.reason.clone()))
}

/// Waits for the Events that report an unreadable Framework, and returns their lines.
fn reported(namespace: &str) -> String {
    let deadline = Instant::now() + PATIENCE;
    let of = "--field-selector=reason=StatusUnreadable";
    loop {
        let events = kubectl(&["get", "events", "--namespace", namespace, of, "--no-headers"]);
        if !events.is_empty() {
            return events;
        }
        assert!(Instant::now() < deadline, "no Event reports it");
    }
}

#[test]
fn a_bomb_is_quarantined_and_others_go_on() {
    let alone = Alone::wait();
    let ns = namespace("bomb");
    let _controller = alone.start("controller", &config("zstd"));
    manifest("bad").role("w", 2, &[]).create(&ns);
    let good = text(&running(&ns, "bad", 2));
    let size = usize::try_from(DECODED_LIMIT).expect("64 MiB") + 1;
    let bomb = encode(&vec![b' '; size], CompressionCodec::Zstd, Effort::Fast).expect("it is encoded");
    edit(&ns, "bad", &bomb);

    let reason = "StatusUnreadable".to_owned();
    let bad = wait(&ns, "bad", "quarantined", |framework| {
        condition(framework) == Some(("Unknown".to_owned(), reason.clone()))
    });
    let events = reported(&ns);
    assert!(events.contains("it decodes to more than 64 MiB"), "{events}");
    manifest("other").role("w", 2, &[("exit-code", "0")]).create(&ns);
    kubectl_wait(&ns, "other", "Complete");
    let left = get(&ns, "bad");
    assert_eq!(text(&left), bomb, "what cannot be read stays as it is");
    assert_eq!(state(&left), Some(State::AttemptRunning));
    assert_eq!(left.metadata.resource_version, bad.metadata.resource_version, "it is left alone");
    assert_eq!(reported(&ns).lines().count(), 1);

    edit(&ns, "bad", &good);
    wait(&ns, "bad", "repaired", |framework| {
        condition(framework).is_some_and(|(status, _)| status == "True")
    });
    execute(&ns, "bad", "Stop");
    kubectl_wait(&ns, "bad", "Failed");
}
