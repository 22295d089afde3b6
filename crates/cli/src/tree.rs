//! `tree`: a Framework with its QueueUnits, its ConfigMap, its TaskRoles and their Tasks.

use framework_api::name::{KIND, config_map_name};
use framework_api::queue::UNIT_KIND;
use framework_api::status::{TaskRoleStatus, TaskStatus};
use serde::Serialize;

use crate::cluster::Cluster;
use crate::error::Error;
use crate::find::{self, Found};
use crate::output::Style;
use crate::pod::{self, PodView};
use crate::queue::{self, UnitView};
use crate::table::Table;

/// An object, or a part of the status, with those below it.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Node {
    kind: &'static str,
    name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    state: String,
    /// How often it was retried.
    #[serde(skip_serializing_if = "Option::is_none")]
    retried: Option<i32>,
    /// The name of its Pod, if one was created.
    #[serde(skip_serializing_if = "String::is_empty")]
    pod: String,
    /// The phase of that Pod, if it still exists.
    #[serde(skip_serializing_if = "String::is_empty")]
    pod_phase: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    node: String,
    /// How its last attempt ended: the phrase, and the code.
    #[serde(skip_serializing_if = "String::is_empty")]
    result: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    children: Vec<Node>,
}

/// The text that `tree` prints. Fails if the Framework does not exist or the API server refuses a read.
pub async fn run(cluster: &Cluster, name: &str, style: Style) -> Result<String, Error> {
    let found = find::one(cluster, name).await?;
    let pods = pod::of(cluster, name).await?;
    let units = queue::units_of(cluster, &found).await?;
    let root = grow(&found, &pods, &units);
    style.show(&root, || render(&root, style))
}

fn grow(found: &Found, pods: &[PodView], units: &[UnitView]) -> Node {
    let mut root = Node { kind: KIND, name: found.name().to_owned(), ..Node::default() };
    root.children.extend(units.iter().map(|unit| Node {
        kind: UNIT_KIND,
        name: unit.name.clone(),
        state: unit.phase_or_new(),
        result: unit.reason.clone(),
        ..Node::default()
    }));
    let Some(status) = &found.framework.status else {
        root.state = "New".to_owned();
        return root;
    };
    root.state = format!("{:?}", status.state);
    root.retried = Some(status.retry_policy_status.total_retried_count);
    let end = status.attempt_status.completion_status.as_deref();
    root.result = end.map(|end| result(&end.phrase, end.code)).unwrap_or_default();
    let roles = status.task_roles().iter().map(|role| role_node(role, pods));
    if status.attempt_status.config_map_uid.is_some() {
        root.children.push(Node {
            kind: "ConfigMap",
            name: config_map_name(found.name()),
            children: roles.collect(),
            ..Node::default()
        });
    } else {
        root.children.extend(roles);
    }
    root
}

fn role_node(role: &TaskRoleStatus, pods: &[PodView]) -> Node {
    Node {
        kind: "TaskRole",
        name: role.name.clone(),
        children: role.tasks().map(|task| task_node(&role.name, task, pods)).collect(),
        ..Node::default()
    }
}

fn task_node(role: &str, task: &TaskStatus, pods: &[PodView]) -> Node {
    let attempt = &task.attempt_status;
    let uid = attempt.pod_uid.as_deref();
    let pod = pods.iter().find(|pod| Some(pod.uid.as_str()) == uid);
    let end = attempt.completion_status.as_deref();
    Node {
        kind: "Task",
        name: format!("{role}-{}", task.index),
        state: format!("{:?}", task.state),
        retried: Some(task.retry_policy_status.total_retried_count),
        pod: uid.map(|_| attempt.pod_name.clone()).unwrap_or_default(),
        pod_phase: match (uid, pod) {
            (Some(_), Some(pod)) => pod.phase.clone(),
            (Some(_), None) => "Gone".to_owned(),
            (None, _) => String::new(),
        },
        node: attempt.pod_node_name.clone().unwrap_or_default(),
        result: end.map(|end| result(&end.phrase, end.code)).unwrap_or_default(),
        children: Vec::new(),
    }
}

fn result(phrase: &str, code: i32) -> String {
    if phrase.is_empty() { code.to_string() } else { format!("{phrase} ({code})") }
}

fn render(root: &Node, style: Style) -> String {
    let mut table = Table::new(&["NAME", "STATE", "RETRIED", "POD", "PHASE", "NODE", "RESULT"]);
    add(&mut table, root, "", "");
    style.table(&table)
}

/// Adds a node and those below it. `first` stands before its name, `rest` before the names below it.
fn add(table: &mut Table, node: &Node, first: &str, rest: &str) {
    let Node { kind, name, state, retried, pod, pod_phase, node: on, result, children } = node;
    let retried = retried.map(|retried| retried.to_string()).unwrap_or_default();
    let cells = [format!("{first}{kind}/{name}"), state.clone(), retried, pod.clone(), pod_phase.clone()];
    table.row([cells.to_vec(), vec![on.clone(), result.clone()]].concat());
    for (at, child) in children.iter().enumerate() {
        let (branch, below) = if at + 1 == children.len() { ("└─", "  ") } else { ("├─", "│ ") };
        add(table, child, &format!("{rest}{branch}"), &format!("{rest}{below}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{PLAIN, found};
    use expect_test::expect;

    #[test]
    fn a_tree_shows_each_task_with_its_pod() {
        let pod = |name: &str, uid: &str, phase: &str| PodView {
            name: name.into(),
            uid: uid.into(),
            phase: phase.into(),
            obstacle: None,
        };
        let pods = [pod("train-worker-0", "w0", "Running"), pod("train-worker-1", "old", "Running")];
        let root = grow(&found("running.yaml"), &pods, &[]);
        expect![[r#"
            NAME                        STATE              RETRIED   POD              PHASE     NODE     RESULT
            Framework/train             AttemptRunning     0
            └─ConfigMap/train-attempt
              └─TaskRole/worker
                ├─Task/worker-0         AttemptRunning     0         train-worker-0   Running   node-1
                ├─Task/worker-1         AttemptCompleted   6         train-worker-1   Gone      node-2   OOMKilled (137)
                ├─Task/worker-2         AttemptPreparing   0         train-worker-2   Gone
                └─Task/worker-3         Completed          0         train-worker-3   Gone      node-3   ContainerPermanentFailed (210)
        "#]].assert_eq(&render(&root, PLAIN));
    }

    #[test]
    fn a_framework_in_a_queue_shows_its_unit_and_no_pod() {
        let unit = UnitView {
            name: "framework-gang".into(),
            phase: Some("Enqueued".into()),
            reason: "InsufficientQuota".into(),
            ..UnitView::default()
        };
        expect![[r#"
            NAME                         STATE                    RETRIED   POD   PHASE   NODE   RESULT
            Framework/gang               AttemptCreationPending   0
            ├─QueueUnit/framework-gang   Enqueued                                                InsufficientQuota
            └─TaskRole/worker
              └─Task/worker-0            AttemptCreationPending   0
        "#]].assert_eq(&render(&grow(&found("queued.yaml"), &[], &[unit]), PLAIN));
    }
}
