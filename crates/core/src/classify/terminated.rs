//! A Pod that ended by itself.

use framework_api::Time;

/// The facts about the end of a Pod that ended by itself. Kept only for Pods that ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TerminatedPod {
    /// How it ended.
    pub phase: TerminalPhase,
    /// `metadata.name`.
    pub pod_name: String,
    /// `status.reason`; empty if unset.
    pub reason: String,
    /// `status.message`; empty if unset.
    pub message: String,
    /// Its containers, init containers first, each kind as the Pod's status lists it.
    pub containers: Vec<ContainerEnd>,
}

/// A phase that a Pod never leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TerminalPhase {
    /// Every container ended with code 0.
    Succeeded,
    /// Every container ended, or the Pod was given up.
    Failed,
}

/// A container of a Pod that ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerEnd {
    /// Its name.
    pub name: String,
    /// Its `state.terminated`; none if the Pod ended without it.
    pub terminated: Option<ContainerTerminated>,
}

/// `state.terminated` of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerTerminated {
    /// Empty if unset.
    pub reason: String,
    /// Empty if unset.
    pub message: String,
    /// 0: none reported.
    pub signal: i32,
    /// 0: it succeeded.
    pub exit_code: i32,
    /// When it ended.
    pub finished_at: Option<Time>,
}
