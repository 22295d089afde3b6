//! The plan for one Framework, the same on both sides: its spec, the ends of its Pods, the changes of users.
//!
//! Which Tasks there are depends on the run, so a plan names no Task by its index. It picks one of those that
//! are there. As long as the sides agree, they pick the same.

use framework_api::{Framework, FrameworkSpec, TaskRole};
use serde::Serialize;

/// Annotation of a pod template: its Pods stay Pending until the plan ends them.
pub(crate) const HELD: &str = "differential/held";
/// Annotation of a pod template: its Pods stay terminating until they are deleted by force.
pub(crate) const HANGING: &str = "differential/hanging";

/// Annotation of a pod template that the API server refuses.
pub(crate) const REFUSED: &str = "differential/refused";

/// The app containers of every Pod, in the order in which the Pod lists them.
pub(crate) const CONTAINERS: [&str; 3] = ["main", "side", "extra"];

/// A seed's Framework and the steps that happen to it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Plan {
    /// The seed that it is drawn from.
    pub(crate) seed: u64,
    /// The Framework's name.
    pub(crate) name: String,
    /// The manifest of an example, which is applied as it is written.
    pub(crate) manifest: Option<String>,
    /// The spec that the Framework is created with.
    pub(crate) spec: FrameworkSpec,
    /// The steps; each is done once the Framework is at rest after the one before.
    pub(crate) steps: Vec<Step>,
    /// How the Framework is deleted in the end.
    pub(crate) foreground: bool,
}

/// One thing that happens, or several at once where their order cannot matter.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) enum Step {
    /// The user starts the Framework.
    Start,
    /// The user stops it.
    Stop,
    /// The Pod of a Task ends.
    End { pick: usize, ending: Ending },
    /// The Pod of a Task ends, and the user stops the Framework while it waits to be retried.
    EndThenStop { pick: usize, ending: Ending },
    /// All Pods of the TaskRoles that always retry end at once.
    Burst { endings: Vec<Ending> },
    /// The user deletes the Pod of a Task.
    DeletePod { pick: usize },
    /// The user deletes the ConfigMap.
    DeleteConfigMap,
    /// The user changes the TaskRoles to these.
    Rescale { task_roles: Vec<TaskRole> },
    /// The user changes them, and changes them again before the Pods of removed Tasks are gone.
    Bounce { down: Vec<TaskRole>, up: Vec<TaskRole> },
    /// The user applies a JSON patch that an example shows.
    Patch { patch: String },
}

impl Step {
    /// Its name in a timeline.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Step::Start => "start",
            Step::Stop => "stop",
            Step::End { .. } => "end of a Pod",
            Step::EndThenStop { .. } => "end of a Pod, then stop",
            Step::Burst { .. } => "end of many Pods",
            Step::DeletePod { .. } => "deletion of a Pod",
            Step::DeleteConfigMap => "deletion of the ConfigMap",
            Step::Rescale { .. } => "rescale",
            Step::Patch { .. } => "patch of the example",
            Step::Bounce { .. } => "rescale and back",
        }
    }
}

/// The end of a Pod, as its kubelet reports it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Ending {
    /// Whether its phase is Failed and not Succeeded.
    pub(crate) failed: bool,
    /// The Pod's own reason and message.
    pub(crate) reason: &'static str,
    pub(crate) message: &'static str,
    /// Its containers, in the order in which the Pod lists them; empty after an eviction.
    pub(crate) containers: Vec<ContainerEnd>,
}

/// How one container ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct ContainerEnd {
    pub(crate) name: &'static str,
    /// Whether it is an init container.
    pub(crate) init: bool,
    /// Whether it never started: there is no exit code then.
    pub(crate) waiting: bool,
    pub(crate) code: i32,
    pub(crate) signal: i32,
    pub(crate) reason: &'static str,
    pub(crate) message: &'static str,
    /// How many seconds before the last one it finished.
    pub(crate) earlier: i64,
}

impl Plan {
    /// Its name in reports.
    pub(crate) fn label(&self) -> String {
        match self.manifest {
            Some(_) => format!("{}/{}", self.name, self.seed),
            None => self.seed.to_string(),
        }
    }

    /// The object that is created.
    pub(crate) fn framework(&self) -> Framework {
        Framework::new(&self.name, self.spec.clone())
    }
}

/// Whether the pod template of a TaskRole has one of this module's annotations.
pub(crate) fn is_marked(role: &TaskRole, mark: &str) -> bool {
    role.task.pod.read().is_ok_and(|pod| pod["metadata"]["annotations"][mark] == "true")
}
