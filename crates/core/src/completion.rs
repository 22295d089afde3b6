//! When completed Tasks complete the FrameworkAttempt: the FrameworkAttemptCompletionPolicy.

use framework_api::code::Code;
use framework_api::status::{
    CompletionTrigger, FrameworkAttemptCompletionStatus, TaskAttemptCompletionStatus, TaskRoleStatus,
    TaskStatus,
};
use framework_api::{FrameworkSpec, State, Time};

use crate::rescale;

/// A rule of a TaskRole that is met, and the Task whose completion met it.
///
/// The order of the fields decides between rules: the earliest completion, then the order of the TaskRoles in
/// the spec, then failure before success. Indices of different TaskRoles are not compared.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Met<'a> {
    at: Time,
    role_position: usize,
    succeeded: bool,
    role: &'a str,
    index: i32,
    count: usize,
    minimum: i32,
}

/// The completion status of the attempt, if its Tasks complete it.
///
/// Counts Tasks that are Completed and not being removed. The caller has persisted every rescale before.
pub fn evaluate(spec: &FrameworkSpec, roles: &[TaskRoleStatus]) -> Option<FrameworkAttemptCompletionStatus> {
    let met = rescale::distinct(&spec.task_roles).enumerate().filter_map(|(position, role)| {
        let tasks = counted(roles, &role.name);
        let policy = role.framework_attempt_completion_policy;
        let met = |minimum: i32, failed: bool| {
            let nth = usize::try_from(minimum).ok()?.checked_sub(1)?;
            if tasks.len() <= nth {
                return None;
            }
            let mut ended: Vec<(Time, i32)> = tasks
                .iter()
                .filter(|task| end_of(task).is_some_and(|end| end.r#type.is_failed() == failed))
                .map(|task| (completed_at(task), task.index))
                .collect();
            let count = ended.len();
            (count > nth).then(|| {
                let (_, &mut (at, index), _) = ended.select_nth_unstable(nth);
                Met {
                    at,
                    index,
                    role_position: position,
                    succeeded: !failed,
                    role: &role.name,
                    count,
                    minimum,
                }
            })
        };
        [met(policy.min_failed_task_count, true), met(policy.min_succeeded_task_count, false)]
            .into_iter()
            .flatten()
            .min()
    });
    match met.min() {
        Some(met) => triggered(roles, &met),
        None => all_completed(spec, roles),
    }
}

fn counted<'a>(roles: &'a [TaskRoleStatus], name: &str) -> Vec<&'a TaskStatus> {
    let role = roles.iter().find(|role| role.name == name);
    role.into_iter()
        .flat_map(TaskRoleStatus::tasks)
        .filter(|task| !task.deletion_pending && task.state == State::Completed)
        .collect()
}

fn end_of(task: &TaskStatus) -> Option<&TaskAttemptCompletionStatus> {
    task.attempt_status.completion_status.as_deref()
}

fn completed_at(task: &TaskStatus) -> Time {
    task.completion_time.unwrap_or(task.transition_time)
}

fn triggered(roles: &[TaskRoleStatus], met: &Met<'_>) -> Option<FrameworkAttemptCompletionStatus> {
    let role = roles.iter().find(|role| role.name == met.role)?;
    let task = role.tasks().find(|task| task.index == met.index)?;
    let end = end_of(task)?;
    let (verb, rule) =
        if met.succeeded { ("succeeded", "minSucceededTaskCount") } else { ("failed", "minFailedTaskCount") };
    let tasks = if met.count == 1 { "Task" } else { "Tasks" };
    let message =
        format!("{} {tasks} of TaskRole {} {verb}, and {rule} is {}", met.count, met.role, met.minimum);
    Some(FrameworkAttemptCompletionStatus {
        code: end.code,
        phrase: end.phrase.clone(),
        r#type: end.r#type.clone(),
        diagnostics: end.diagnostics.clone(),
        trigger: Some(CompletionTrigger {
            message,
            task_role_name: met.role.to_owned(),
            task_index: met.index,
        }),
    })
}

fn all_completed(spec: &FrameworkSpec, roles: &[TaskRoleStatus]) -> Option<FrameworkAttemptCompletionStatus> {
    let (mut total, mut completed) = (0, 0);
    let mut last: Option<(Time, &str, i32)> = None;
    for role in rescale::distinct(&spec.task_roles) {
        let tasks = counted(roles, &role.name);
        total += role.task_count();
        completed += tasks.len();
        let last_of_role = tasks.iter().map(|task| (completed_at(task), task.index)).max();
        // On a tie the highest index within a TaskRole, and the first TaskRole.
        if let Some((at, index)) = last_of_role
            && last.is_none_or(|(latest, ..)| at > latest)
        {
            last = Some((at, &role.name, index));
        }
    }
    let (_, role, index) = last.filter(|_| completed >= total)?;
    let diagnostics = "all Tasks completed, and no policy of a TaskRole failed the attempt";
    Some(FrameworkAttemptCompletionStatus {
        trigger: Some(CompletionTrigger {
            message: format!("{completed} of {total} Tasks completed"),
            task_role_name: role.to_owned(),
            task_index: index,
        }),
        ..FrameworkAttemptCompletionStatus::predefined(Code::Succeeded, diagnostics)
    })
}
