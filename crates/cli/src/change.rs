//! `scale`, `start` and `stop`: one patch of exactly the fields that change, or none if nothing does.
//!
//! Each patch tests the values it was computed from: the API server refuses it if they have changed since.

use framework_api::{ExecutionType, FrameworkSpec, State};
use http::header::CONTENT_TYPE;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::args::{Number, Scale};
use crate::cluster::Cluster;
use crate::error::{Error, Refusal};
use crate::find::{self, Found};
use crate::output::Style;
use crate::visible::visible;

/// A Framework as a change needs it. Of its status, only the state counts: one that cannot be read otherwise
/// holds up no change.
struct Target {
    spec: FrameworkSpec,
    is_completed: bool,
}

impl Target {
    fn of(object: &Value) -> Result<Target, serde_json::Error> {
        let is_completed = object["status"]["state"] == json!(State::Completed);
        Ok(Target { spec: FrameworkSpec::deserialize(&object["spec"])?, is_completed })
    }
}

/// A change of a Framework.
#[derive(Clone, Debug, PartialEq)]
struct Change {
    /// The operations of the JSON patch; none if nothing changes.
    operations: Vec<Value>,
    /// Its changes, in words for people.
    words: String,
}

/// Runs `scale`.
pub async fn scale(cluster: &Cluster, asked: &Scale, style: Style) -> Result<String, Error> {
    apply(cluster, &asked.name, "scale", style, |target| scaled(target, &asked.role)).await
}

/// Runs `start`.
pub async fn start(cluster: &Cluster, name: &str, style: Style) -> Result<String, Error> {
    apply(cluster, name, "start", style, started).await
}

/// Runs `stop`.
pub async fn stop(cluster: &Cluster, name: &str, style: Style) -> Result<String, Error> {
    apply(cluster, name, "stop", style, |target| Ok(stopped(target))).await
}

async fn apply(
    cluster: &Cluster,
    name: &str,
    verb: &str,
    style: Style,
    change: impl FnOnce(&Target) -> Result<Change, Refusal>,
) -> Result<String, Error> {
    let action = || format!("{verb} the Framework {name:?} in the namespace {:?}", cluster.namespace);
    let mut object = find::object(cluster, name).await?;
    let target = Target::of(&object).map_err(|source| {
        let (namespace, name) = (cluster.namespace.clone(), name.to_owned());
        Error::Form { namespace, name, source }
    })?;
    let Change { operations, words } =
        change(&target).map_err(|source| Error::Refused { action: action(), source })?;
    if !operations.is_empty() {
        let failed = |source: kube::Error| match is_outdated(&source) {
            true => Error::Refused { action: action(), source: Refusal::Changed },
            false => Error::Request { action: action(), source: Box::new(source) },
        };
        let path =
            format!("{}/{name}?fieldManager=kubectl-framework", find::api(cluster, false).resource_url());
        let request = http::Request::patch(path).header(CONTENT_TYPE, "application/json-patch+json");
        let request = request.body(Value::Array(operations).to_string().into_bytes());
        let request = request.map_err(|error| failed(kube::Error::HttpError(error)))?;
        object = cluster.request(request).await.map_err(failed)?;
    }
    // A status that cannot be read is shown as it is stored.
    let shown = Found::of(object.clone()).map_or(object, |found| found.stored);
    style.show(&shown, || visible(&format!("framework/{name} {words}")) + "\n")
}

/// Whether the API server refuses a JSON patch because a value that it tests is another one by now. It says
/// only this.
fn is_outdated(error: &kube::Error) -> bool {
    const MESSAGE: &str = "the server rejected our request due to an error in our request";
    matches!(error, kube::Error::Api(status) if status.code == 422 && status.message == MESSAGE)
}

fn scaled(target: &Target, numbers: &[Number]) -> Result<Change, Refusal> {
    if target.is_completed {
        return Err(Refusal::Completed);
    }
    let roles = &target.spec.task_roles;
    let (mut operations, mut words) = (Vec::new(), Vec::new());
    for Number { role, tasks } in numbers {
        let Some(at) = roles.iter().position(|known| known.name == *role) else {
            let known: Vec<&str> = roles.iter().map(|role| role.name.as_str()).collect();
            return Err(Refusal::NoRole { role: role.clone(), known: known.join(", ") });
        };
        let before = roles[at].task_number;
        if before == *tasks {
            words.push(format!("{role} has {tasks} already"));
            continue;
        }
        operations.extend([
            json!({"op": "test", "path": format!("/spec/taskRoles/{at}/name"), "value": role}),
            json!({"op": "test", "path": format!("/spec/taskRoles/{at}/taskNumber"), "value": before}),
            json!({"op": "replace", "path": format!("/spec/taskRoles/{at}/taskNumber"), "value": tasks}),
        ]);
        words.push(format!("{role} from {before} to {tasks}"));
    }
    let verb = if operations.is_empty() { "unchanged" } else { "scaled" };
    Ok(Change { operations, words: format!("{verb}: {}", words.join(", ")) })
}

fn started(target: &Target) -> Result<Change, Refusal> {
    match target.spec.execution_type {
        ExecutionType::Stop => Err(Refusal::Stopped),
        ExecutionType::Start => Ok(Change { operations: Vec::new(), words: "is started already".to_owned() }),
        ExecutionType::Create if target.is_completed => Err(Refusal::Completed),
        ExecutionType::Create => {
            Ok(Change { operations: execution("Create", "Start"), words: "started".to_owned() })
        }
    }
}

fn stopped(target: &Target) -> Change {
    let unchanged = |words: &str| Change { operations: Vec::new(), words: words.to_owned() };
    let before = match target.spec.execution_type {
        _ if target.is_completed => return unchanged("is Completed already"),
        ExecutionType::Stop => return unchanged("is stopped already"),
        ExecutionType::Create => "Create",
        ExecutionType::Start => "Start",
    };
    Change { operations: execution(before, "Stop"), words: "stopped".to_owned() }
}

fn execution(before: &str, after: &str) -> Vec<Value> {
    vec![
        json!({"op": "test", "path": "/spec/executionType", "value": before}),
        json!({"op": "replace", "path": "/spec/executionType", "value": after}),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::found;

    fn target(file: &str) -> Target {
        Target::of(&found(file).stored).unwrap()
    }

    fn numbers(role: &str, tasks: i32) -> [Number; 1] {
        [Number { role: role.to_owned(), tasks }]
    }

    #[test]
    fn a_scale_changes_one_field_of_the_role_that_it_read() {
        let change = scaled(&target("running.yaml"), &numbers("worker", 6)).unwrap();
        let expected = json!([
            {"op": "test", "path": "/spec/taskRoles/0/name", "value": "worker"},
            {"op": "test", "path": "/spec/taskRoles/0/taskNumber", "value": 4},
            {"op": "replace", "path": "/spec/taskRoles/0/taskNumber", "value": 6},
        ]);
        assert_eq!(Value::Array(change.operations), expected);
        assert_eq!(change.words, "scaled: worker from 4 to 6");
    }

    #[test]
    fn nothing_is_sent_if_nothing_changes() {
        let same = scaled(&target("running.yaml"), &numbers("worker", 4)).unwrap();
        assert_eq!((same.operations.len(), &*same.words), (0, "unchanged: worker has 4 already"));
        assert_eq!(started(&target("running.yaml")).unwrap().operations.len(), 0);
        assert_eq!(stopped(&target("completed.yaml")).operations.len(), 0);
    }

    #[test]
    fn a_change_without_effect_is_refused_with_the_choices() {
        let refused = scaled(&target("running.yaml"), &numbers("ps", 1)).unwrap_err();
        assert_eq!(refused.to_string(), "there is no TaskRole \"ps\"; there are worker");
        assert_eq!(scaled(&target("completed.yaml"), &numbers("worker", 1)), Err(Refusal::Completed));
        let mut stopped = target("running.yaml");
        stopped.spec.execution_type = ExecutionType::Stop;
        assert_eq!(started(&stopped), Err(Refusal::Stopped));
        let mut expired = target("completed.yaml");
        expired.spec.execution_type = ExecutionType::Create;
        assert_eq!(started(&expired), Err(Refusal::Completed));
    }

    #[test]
    fn a_failed_test_of_a_patch_is_no_invalid_value() {
        let refused = |code: u16, message: &str| {
            let message = message.to_owned();
            let status = kube::core::Status { code, message, ..Default::default() };
            is_outdated(&kube::Error::Api(Box::new(status)))
        };
        let words = "the server rejected our request due to an error in our request";
        assert!(refused(422, words));
        assert!(!refused(422, "Framework \"a\" is invalid: spec.taskRoles: Too many"));
        assert!(!refused(400, words));
    }

    #[test]
    fn a_stop_tests_the_type_that_it_replaces() {
        let mut held = target("running.yaml");
        held.spec.execution_type = ExecutionType::Create;
        assert_eq!(stopped(&held).operations, execution("Create", "Stop"));
        assert_eq!(started(&held).unwrap().operations, execution("Create", "Start"));
    }

    #[test]
    fn a_damaged_status_holds_up_no_change() {
        let mut damaged = found("running.yaml").stored;
        damaged["status"]["attemptStatus"] = json!("damaged");
        assert!(Found::of(damaged.clone()).is_err(), "a status that can be read");
        let target = Target::of(&damaged).unwrap();
        assert_eq!(stopped(&target).operations, execution("Start", "Stop"));
        assert_eq!(scaled(&target, &numbers("worker", 6)).unwrap().words, "scaled: worker from 4 to 6");
        damaged["status"]["state"] = json!("Completed");
        let completed = Target::of(&damaged).unwrap();
        assert_eq!(stopped(&completed).words, "is Completed already");
    }
}
