//! The first attempt of a Framework that has no status: the spec alone permits its ConfigMap (rule A11).

use framework_api::status::{FrameworkAttemptStatus, RetryPolicyStatus};
use framework_api::{ExecutionType, Framework, FrameworkStatus, State, Time, name};

use crate::observed::{Instance, Policy};
use crate::plan::Action;
use crate::queue::names_one;

/// The instance that the spec alone permits.
pub(crate) const FIRST: Instance = Instance::FrameworkAttempt { attempt_id: 0 };

/// Whether a Framework without a status permits `action`.
pub fn permits(framework: &Framework, action: &Action, policy: &Policy) -> bool {
    matches!(action, Action::CreateConfigMap { instance } if *instance == FIRST)
        && framework.spec.execution_type == ExecutionType::Start
        && framework.metadata.deletion_timestamp.is_none()
        && !(policy.queueing && names_one(framework))
}

/// The status that stands for none, to render the ConfigMap of the first attempt. It has no Tasks, and is
/// never written.
pub fn announced(framework: &Framework, at: Time) -> FrameworkStatus {
    let name = framework.metadata.name.as_deref().unwrap_or_default();
    FrameworkStatus {
        start_time: at,
        run_time: None,
        completion_time: None,
        state: State::AttemptCreationPending,
        transition_time: at,
        retry_policy_status: RetryPolicyStatus::default(),
        attempt_status: FrameworkAttemptStatus {
            id: 0,
            start_time: at,
            run_time: None,
            completion_time: None,
            instance_uid: None,
            config_map_name: name::config_map_name(name),
            config_map_uid: None,
            completion_status: None,
            task_role_statuses: None,
            task_role_statuses_compressed: None,
        },
        observed_generation: None,
        conditions: Vec::new(),
        task_counts: None,
        tasks: None,
    }
}
