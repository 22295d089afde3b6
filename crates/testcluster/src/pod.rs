//! The annotations that decide the life of a Pod; the crate's documentation describes each.

/// A duration: how long a bound Pod stays Pending.
pub const START_DELAY: &str = "test.frameworkcontroller.microsoft.com/start-delay";
/// `true`: the Pod stays Pending.
pub const NEVER_START: &str = "test.frameworkcontroller.microsoft.com/never-start";
/// A duration or `forever`: how long the Pod runs.
pub const RUN_DURATION: &str = "test.frameworkcontroller.microsoft.com/run-duration";
/// The exit code of the first container, or with `.<container>` appended of that container.
pub const EXIT_CODE: &str = "test.frameworkcontroller.microsoft.com/exit-code";
/// The signal that ends the first container, or with `.<container>` appended that container.
pub const SIGNAL: &str = "test.frameworkcontroller.microsoft.com/signal";
/// The reason of the first container's end, or with `.<container>` appended that container's.
pub const REASON: &str = "test.frameworkcontroller.microsoft.com/reason";
/// The termination message of the first container, or with `.<container>` appended that container's.
pub const MESSAGE: &str = "test.frameworkcontroller.microsoft.com/message";
/// A number: the length of the random termination message of the first container.
pub const RANDOM_MESSAGE: &str = "test.frameworkcontroller.microsoft.com/random-message";
/// The reason for which the Pod as a whole fails.
pub const POD_REASON: &str = "test.frameworkcontroller.microsoft.com/pod-reason";
/// The message that goes with [`POD_REASON`].
pub const POD_MESSAGE: &str = "test.frameworkcontroller.microsoft.com/pod-message";
/// A duration: how long a deleted Pod stays terminating.
pub const STOP_DELAY: &str = "test.frameworkcontroller.microsoft.com/stop-delay";
/// `true`: a deleted Pod stays terminating until it is deleted with a grace period of 0.
pub const HANG_TERMINATING: &str = "test.frameworkcontroller.microsoft.com/hang-terminating";
/// The index of the only Task that ends by the annotations; the other Tasks succeed.
pub const ONLY_TASK_INDEX: &str = "test.frameworkcontroller.microsoft.com/only-task-index";
/// The id of the only TaskAttempt that ends by the annotations; the other attempts succeed.
pub const ONLY_TASK_ATTEMPT: &str = "test.frameworkcontroller.microsoft.com/only-task-attempt";

#[cfg(test)]
mod tests {
    const STAGES: &str = include_str!("stages/pod.yaml");
    const SOURCE: &str = include_str!("pod.rs");

    #[test]
    fn the_stages_read_every_annotation_and_no_other() {
        let names: Vec<&str> = SOURCE
            .lines()
            .filter_map(|line| line.strip_prefix("pub const ")?.split('"').nth(1)?.split('/').nth(1))
            .collect();
        assert_eq!(names.len(), 14);
        for name in names {
            let read = [format!("microsoft.com/{name}"), format!("\"{name}\"")];
            assert!(read.iter().any(|name| STAGES.contains(name)), "no stage reads {name}");
        }
    }
}
