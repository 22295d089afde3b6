//! The cost of one large Framework from start to end: its size, memory, requests and time.

use std::time::{Duration, Instant};

use framework_api::Framework;
use framework_api::status::TaskStatus;
use framework_testcluster::audit::{Mark, Record};

use super::{Manifest, PATIENCE, block_on, frameworks, installed, kubectl};

/// So slow no machine is, by Task.
const SLOWEST: Duration = Duration::from_millis(150);

/// How many Tasks `FRAMEWORK_LARGE_TASKS` asks for, or so many.
pub fn tasks(usually: u32) -> u32 {
    let named = std::env::var("FRAMEWORK_LARGE_TASKS").ok();
    named.map_or(usually, |text| text.parse().expect("FRAMEWORK_LARGE_TASKS is a number"))
}

/// The cost of one run.
pub struct Cost {
    /// The Framework at its end.
    pub framework: Framework,
    /// Length of its compressed status.
    pub text: usize,
    /// The most that the controller ever had in memory, in bytes.
    pub peak: u64,
    /// Requests of the controller that the API server refused, but for those that it was too busy for.
    pub refused: Vec<Record>,
}

impl Cost {
    /// Runs a Framework until it has a condition, and prints the cost. `controller` is a pid.
    pub fn of(job: &Manifest, namespace: &str, condition: &str, controller: u32) -> Cost {
        let mark = installed().audit().mark().expect("the log is there");
        let begun = Instant::now();
        let framework = job.create(namespace);
        let (tasks, name) = (framework.spec.task_number(), framework.metadata.name.expect("it has one"));
        let timeout = PATIENCE + SLOWEST * u32::try_from(tasks).expect("a number of Tasks");
        let timeout = format!("--timeout={}s", timeout.as_secs());
        let (condition, subject) = (format!("--for=condition={condition}"), format!("framework/{name}"));
        kubectl(&["wait", &condition, &subject, "--namespace", namespace, &timeout]);
        let took = begun.elapsed().as_secs_f64();
        let peak = peak_memory(controller);
        let framework = block_on(frameworks(namespace).get(&name)).expect("it is there");
        let attempt = &framework.status.as_ref().expect("a status").attempt_status;
        let text = attempt.task_role_statuses_compressed.as_ref().expect("it is compressed").len();
        println!(
            "{tasks} Tasks in {took:.1} s: {:.1} Tasks/s\n\
             compressed status at the end: {:.3} MB, {:.1} bytes a Task\n\
             peak memory of the controller: {:.1} MiB",
            tasks as f64 / took,
            text as f64 / 1e6,
            text as f64 / tasks as f64,
            peak as f64 / f64::from(1 << 20),
        );
        Cost { framework, text, peak, refused: refused(mark) }
    }

    /// Every Task at its end.
    pub fn tasks(&self) -> Vec<TaskStatus> {
        let mut status = self.framework.status.clone().expect("a status");
        assert_eq!(status.decompress(), Ok(true));
        status.task_roles().iter().flat_map(|role| role.tasks().cloned()).collect()
    }
}

/// The most that a process ever had in memory.
fn peak_memory(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("Linux reports it");
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kib << 10
}

/// The requests of our controller that the API server refused since then, except those it was too busy for.
/// Prints how many requests there were, and how large the writes of statuses.
pub fn refused(since: Mark) -> Vec<Record> {
    let records = installed().audit().since(since).expect("the log is there");
    let ours = |record: &Record| record.user_agent.starts_with("frameworkcontroller/");
    let records: Vec<Record> = records.into_iter().filter(ours).collect();
    let writes = records.iter().filter(|record| record.verb == "update" && record.subresource == "status");
    let bytes = |record: &Record| record.request_object.as_ref().map_or(0, |body| body.to_string().len());
    let writes: Vec<usize> = writes.map(bytes).collect();
    let total = records.len();
    // These codes report a busy machine, not a bad request.
    let is_busy = |record: &Record| matches!(record.code, 429 | 503 | 504);
    let (busy, refused): (Vec<_>, Vec<_>) =
        records.into_iter().filter(|record| record.code >= 400).partition(is_busy);
    println!(
        "status writes: {}, {:.2} MB in all, the largest {:.3} MB\n\
         requests: {total}, refused: {}, put off by a busy API server: {}",
        writes.len(),
        writes.iter().sum::<usize>() as f64 / 1e6,
        writes.iter().max().copied().unwrap_or_default() as f64 / 1e6,
        refused.len(),
        busy.len(),
    );
    refused
}
