//! Large Frameworks that fail, or that hardly fit, on a real API server: no write of a status is refused, for
//! any messages of Tasks and any other content.
//!
//! The gate does a slice of 300 Tasks; `cargo xtask soak large --failing` does 10,000 with an optimised
//! program. `FRAMEWORK_LARGE_TASKS` chooses how many, `FRAMEWORK_LARGE_CODEC` the codec,
//! `FRAMEWORK_CONTROLLER` the program.

use std::time::Instant;

use framework_api::State;
use framework_api::status::TaskStatus;
use framework_testcluster::audit::Mark;
use kube::api::PostParams;

use crate::cluster::cost::{Cost, refused, tasks};
use crate::cluster::lease::{Alone, namespace};
use crate::cluster::{PATIENCE, block_on, code, frameworks, installed, kubectl, manifest, wait};

/// Tasks of the gate's slice: enough for their messages to be cut.
const TASKS: u32 = 300;
/// Length of a message: kubelets cut those of containers there.
const MESSAGE: usize = 4096;
/// The bound on a compressed status.
const TEXT_BYTES: usize = 1_000_000;
/// The largest request that etcd accepts.
const ETCD: usize = 3 << 19;
/// The bound on the controller's memory.
const MEMORY_BYTES: u64 = 128 << 20;

/// The message of a Task's container, as the status has it. It is empty if the Pod did not end by itself. On
/// a busy machine that can happen: kwok deletes by name, so it may hit a Pod that replaces an orphan.
fn said(task: &TaskStatus) -> &str {
    let end = task.attempt_status.completion_status.as_ref().expect("it has ended");
    end.pod.as_ref().map_or("", |pod| &pod.containers[0].message)
}

#[test]
fn tasks_that_all_fail_with_long_messages_fit() {
    let alone = Alone::wait();
    let (tasks, ns) = (tasks(TASKS), namespace("failing"));
    // The core's own tests have zstd.
    let codec = std::env::var("FRAMEWORK_LARGE_CODEC").unwrap_or_else(|_| "gzip".to_owned());
    let config = format!(
        "largeFrameworkCompression: true\nlargeFrameworkCompressionThresholdBytes: 100000\n\
         largeFrameworkCompressionCodec: {codec}\nkubeClientQps: 5000\nkubeClientBurst: 5000"
    );
    let controller = alone.start("controller", &config);
    let annotations = [("exit-code", "1"), ("random-message", &MESSAGE.to_string())];
    let job = manifest("job").role("worker", tasks, &annotations);
    let all = i32::try_from(tasks).expect("a number of Tasks");
    let job = job.policy(all, -1).last_role(|role| role["task"]["pod"]["spec"]["nodeName"] = "node-0".into());
    let cost = Cost::of(&job, &ns, "Failed", controller.pid);
    assert_ne!(code(&cost.framework).0, 0);
    let ended = cost.tasks();
    assert_eq!(ended.iter().filter(|task| task.state == State::Completed).count(), tasks as usize);
    let whole = ended.iter().filter(|task| said(task).len() == MESSAGE).count();
    let cut = ended.iter().filter(|task| said(task).contains(" bytes cut]")).count();
    println!("whole messages: {whole}, cut ones: {cut}");
    assert!(whole > 0 && cut > 0, "{whole} whole, {cut} cut");
    assert!(whole + cut > ended.len() / 10 * 9, "nearly each says something");
    assert!(cost.refused.is_empty(), "{:?}", cost.refused.first());
    assert!(cost.text <= TEXT_BYTES, "{} bytes", cost.text);
    assert!(cost.peak <= MEMORY_BYTES, "{} bytes", cost.peak);
}

fn assert_compressed_all_the_same(namespace: &str, since: Mark) {
    let of = "--field-selector=reason=StatusCompressed";
    let deadline = Instant::now() + PATIENCE;
    while kubectl(&["get", "events", "--namespace", namespace, of, "--no-headers"]).is_empty() {
        assert!(Instant::now() < deadline, "no Event reports it");
    }
    let refused = refused(since);
    assert!(refused.is_empty(), "{:?}", refused.first());
}

#[test]
fn characters_that_the_api_server_stores_in_six_bytes_are_counted_so() {
    let alone = Alone::wait();
    let ns = namespace("escaped");
    let mark = installed().audit().mark().expect("the log is there");
    let controller = alone.start("controller", "");
    let (tasks, message) = (150, "<&>".repeat(333));
    let job = manifest("job").role("w", tasks, &[("exit-code", "1"), ("message", &message)]);
    let cost = Cost::of(&job.policy(150, -1), &ns, "Failed", controller.pid);
    assert_compressed_all_the_same(&ns, mark);
    let path = format!("/apis/frameworkcontroller.microsoft.com/v1/namespaces/{ns}/frameworks/job");
    let object = kubectl(&["get", "--raw", &path]);
    assert!(object.contains("\\u003c\\u0026\\u003e") && !object.contains('<'), "it is stored escaped");
    let raw = serde_json::to_string(&cost.tasks()).expect("JSON");
    let escaped = raw.matches(['<', '&', '>']).count();
    assert!(raw.len() < 1 << 20, "nobody would take {} bytes for too many", raw.len());
    assert!(raw.len() + 5 * escaped > ETCD, "only {} bytes", raw.len() + 5 * escaped);
}

#[test]
fn fields_beside_a_status_count_towards_its_limit() {
    let alone = Alone::wait();
    let ns = namespace("beside");
    let mark = installed().audit().mark().expect("the log is there");
    let _controller = alone.start("controller", "");
    // Created and not started: its Tasks are in the status, and need no Pods.
    let mut job = manifest("job").role("w", 1700, &[]).object();
    job.spec.execution_type = framework_api::ExecutionType::Create;
    job.spec.description = Some("x".repeat(800_000));
    block_on(frameworks(&ns).create(&PostParams::default(), &job)).expect("it is accepted");
    let held = wait(&ns, "job", "recorded", |framework| {
        let status = framework.status.as_ref();
        status.and_then(|status| status.tasks.as_deref()) == Some("0/1700")
    });
    assert_compressed_all_the_same(&ns, mark);
    let mut status = held.status.expect("a status");
    assert_eq!(status.decompress(), Ok(true));
    let raw = serde_json::to_string(&status).expect("JSON").len();
    assert!(raw < 1 << 20, "nobody would take {raw} bytes for too many");
    assert!(raw + 800_000 > ETCD, "only {raw} bytes");
}
