//! One large Framework on a real API server, compressed: what it takes to run it to its end.
//!
//! The gate does a slice of 1,000 Tasks; `cargo xtask large` does 10,000 with an optimised controller, and
//! prints the figures. `FRAMEWORK_LARGE_TASKS` chooses how many, `FRAMEWORK_CONTROLLER` the program.

mod stand;

use std::time::{Duration, Instant};

use framework_api::{Framework, State};
use framework_testcluster::audit::Record;
use stand::{block_on, code, frameworks, installed, kubectl, manifest, start_controller};

/// Tasks of the gate's slice.
const TASKS: u32 = 1_000;
/// What the compressed status of 10,000 Tasks that all succeeded may take: 0.45 MB.
const TEXT_BYTES_PER_TASK: usize = 45;
/// And the part of it that does not grow with the Tasks.
const TEXT_BYTES: usize = 4_000;
/// What the controller may ever have in memory.
const MEMORY_BYTES: u64 = 128 << 20;
/// So slow no machine is.
const SLOWEST: Duration = Duration::from_millis(100);
const NAMESPACE: &str = "large";

fn tasks() -> u32 {
    let named = std::env::var("FRAMEWORK_LARGE_TASKS").ok();
    named.map_or(TASKS, |text| text.parse().expect("FRAMEWORK_LARGE_TASKS is a number"))
}

/// The most that a process ever had in memory.
fn peak_memory(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("Linux tells");
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kib << 10
}

/// How many of its writes of the status the API server logged, with how many bytes in all.
fn status_writes(records: &[Record]) -> (usize, usize) {
    let writes = records.iter().filter(|record| record.verb == "update" && record.subresource == "status");
    let bytes = |record: &Record| record.request_object.as_ref().map_or(0, |body| body.to_string().len());
    writes.fold((0, 0), |(count, sum), record| (count + 1, sum + bytes(record)))
}

#[test]
fn a_large_framework_runs_to_its_end_within_its_bounds() {
    let (tasks, cluster) = (tasks(), installed());
    block_on(cluster.namespace(NAMESPACE)).expect("the namespace gets ready");
    // The slice is compressed although it is small.
    let config = "largeFrameworkCompression: true\nlargeFrameworkCompressionThresholdBytes: 100000\n\
                  kubeClientQps: 5000\nkubeClientBurst: 5000";
    let controller = start_controller("controller", config);
    let mark = cluster.audit().mark().expect("the log is there");
    let begun = Instant::now();
    let job = manifest("job").role("worker", tasks, &[("exit-code", "0")]);
    // Bound already: the scheduler is not what is measured.
    job.last_role(|role| role["task"]["pod"]["spec"]["nodeName"] = "node-0".into()).create(NAMESPACE);
    let timeout = format!("--timeout={}s", (stand::PATIENCE + SLOWEST * tasks).as_secs());
    kubectl(&["wait", "--for=condition=Complete", "framework/job", "--namespace", NAMESPACE, &timeout]);
    let took = begun.elapsed();
    let peak = peak_memory(controller);

    let framework = block_on(frameworks(NAMESPACE).get("job")).expect("it is there");
    let text = framework
        .status
        .as_ref()
        .and_then(|status| status.attempt_status.task_role_statuses_compressed.as_ref().map(String::len));
    let text = text.expect("it is compressed");
    let records = cluster.audit().since(mark).expect("the log is there");
    let ours = |record: &Record| record.user_agent.starts_with("frameworkcontroller/");
    let records: Vec<Record> = records.into_iter().filter(ours).collect();
    // 429 tells of a busy machine, not of the request.
    let (busy, refused): (Vec<_>, Vec<_>) =
        records.iter().filter(|record| record.code >= 400).partition(|record| record.code == 429);
    let (writes, bytes) = status_writes(&records);
    println!(
        "{tasks} Tasks in {:.1} s: {:.1} Tasks/s\n\
         compressed status at the end: {:.3} MB, {:.1} bytes a Task\n\
         peak memory of the controller: {:.1} MiB\nstatus writes: {writes}, {:.2} MB in all\n\
         requests: {}, refused: {}, put off by a busy API server: {}",
        took.as_secs_f64(),
        f64::from(tasks) / took.as_secs_f64(),
        text as f64 / 1e6,
        text as f64 / f64::from(tasks),
        peak as f64 / f64::from(1 << 20),
        bytes as f64 / 1e6,
        records.len(),
        refused.len(),
        busy.len(),
    );
    assert_all_succeeded(&framework, tasks);
    assert!(refused.is_empty(), "{:?}", refused.first());
    assert!(text <= TEXT_BYTES + TEXT_BYTES_PER_TASK * tasks as usize, "{text} bytes");
    assert!(peak <= MEMORY_BYTES, "{peak} bytes");
}

fn assert_all_succeeded(framework: &Framework, tasks: u32) {
    assert_eq!(code(framework).0, 0);
    let mut status = framework.status.clone().expect("a status");
    assert_eq!(status.decompress(), Ok(true));
    let all: Vec<_> = status.task_roles().iter().flat_map(|role| &role.task_statuses).collect();
    assert_eq!(all.len(), tasks as usize);
    let succeeded = |task: &&framework_api::status::TaskStatus| {
        let end = task.attempt_status.completion_status.as_ref();
        task.state == State::Completed && end.is_some_and(|end| end.code == 0)
    };
    assert_eq!(all.into_iter().filter(succeeded).count(), tasks as usize);
}
