//! One large Framework on a real API server, compressed, and the cost of running it to its end.
//!
//! The gate does a slice of 1,000 Tasks; `cargo xtask soak large` does 10,000 with an optimised controller,
//! and prints the figures. `FRAMEWORK_LARGE_TASKS` chooses how many, `FRAMEWORK_CONTROLLER` the program.

use framework_api::State;
use framework_api::status::TaskStatus;

use crate::cluster::cost::{Cost, tasks};
use crate::cluster::lease::{Alone, namespace};
use crate::cluster::{code, manifest};

/// Tasks of the gate's slice.
const TASKS: u32 = 1_000;
/// The bound on the compressed status of 10,000 Tasks that all succeeded: 0.45 MB.
const TEXT_BYTES_PER_TASK: usize = 45;
/// And the part of it that does not grow with the Tasks.
const TEXT_BYTES: usize = 4_000;
/// The bound on the controller's memory.
const MEMORY_BYTES: u64 = 128 << 20;

#[test]
fn a_large_framework_runs_to_its_end_within_its_bounds() {
    let (tasks, alone, ns) = (tasks(TASKS), Alone::wait(), namespace("large"));
    // The slice is compressed although it is small.
    let config = "largeFrameworkCompression: true\nlargeFrameworkCompressionThresholdBytes: 100000\n\
                  kubeClientQps: 5000\nkubeClientBurst: 5000";
    let controller = alone.start("controller", config);
    let job = manifest("job").role("worker", tasks, &[("exit-code", "0")]);
    // Bound already: the test does not measure the scheduler.
    let job = job.last_role(|role| role["task"]["pod"]["spec"]["nodeName"] = "node-0".into());
    let cost = Cost::of(&job, &ns, "Complete", controller.pid);
    assert_eq!(code(&cost.framework).0, 0);
    let succeeded = |task: &TaskStatus| {
        let end = task.attempt_status.completion_status.as_ref();
        task.state == State::Completed && end.is_some_and(|end| end.code == 0)
    };
    assert_eq!(cost.tasks().iter().filter(|task| succeeded(task)).count(), tasks as usize);
    assert!(cost.refused.is_empty(), "{:?}", cost.refused.first());
    assert!(cost.text <= TEXT_BYTES + TEXT_BYTES_PER_TASK * tasks as usize, "{} bytes", cost.text);
    assert!(cost.peak <= MEMORY_BYTES, "{} bytes", cost.peak);
}
