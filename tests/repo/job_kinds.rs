//! Each built-in kind of jobs has its rights in the component of its operator, made from its row, and a row
//! in the page for users.

use std::collections::BTreeSet;

use framework_api::job_kind::{JobKindRow, built_in};

use crate::drift;

const PAGE: &str = include_str!("../../docs/manual/queue-kinds.md");

/// The operators, and the `apiVersion`s of the kinds that each runs.
const OPERATORS: [(&str, &str); 6] = [
    ("argo-workflows", "argoproj.io/v1alpha1"),
    ("kuberay", "ray.io/v1"),
    ("mpi-operator", "kubeflow.org/v2beta1"),
    ("spark-operator", "sparkoperator.k8s.io/v1beta2"),
    ("trainer", "trainer.kubeflow.org/v1alpha1"),
    ("training-operator", "kubeflow.org/v1"),
];

/// The `apiVersion`s of the kinds on which the base has the rights.
const IN_BASE: [&str; 2] = ["batch/v1", "jobset.x-k8s.io/v1alpha2"];

const HEAD: &str = "\
# Generated from crates/api/data/job_kinds.yaml by `UPDATE=1 cargo test --test repo drift`; do not edit.
";

fn role(operator: &str, rows: &[&JobKindRow]) -> String {
    let name = format!("frameworkcontroller-job-kinds-{operator}");
    let resources: BTreeSet<&str> = rows.iter().map(|row| row.plural.as_str()).collect();
    let resources = resources.into_iter().collect::<Vec<_>>().join(", ");
    let group = rows[0].group();
    format!(
        "{HEAD}# patch: resumes a waiting job, and labels its Pod templates.
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {name}
rules:
- apiGroups: [{group}]
  resources: [{resources}]
  verbs: [get, list, watch, patch]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {name}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {name}
subjects:
- kind: ServiceAccount
  name: frameworkcontroller
  namespace: frameworkcontroller
"
    )
}

fn component(says: &str, key: &str, entries: &[&str]) -> String {
    let entries: String = entries.iter().map(|entry| format!("- {entry}\n")).collect();
    format!(
        "{HEAD}# {says} An overlay includes it:
#   components: [path/to/deploy/job-kinds{}]
apiVersion: kustomize.config.k8s.io/v1alpha1
kind: Component
{key}:
{entries}",
        if key == "resources" { "/OPERATOR" } else { "" }
    )
}

#[test]
pub fn the_rights_on_each_kind_show_no_drift_from_its_row() {
    let rows = built_in();
    let known: BTreeSet<&str> =
        OPERATORS.iter().map(|(_, api_version)| *api_version).chain(IN_BASE).collect();
    let of_rows: BTreeSet<&str> = rows.iter().map(|row| row.api_version.as_str()).collect();
    assert_eq!(known, of_rows, "each kind has an operator, and each operator a kind");
    for (operator, api_version) in OPERATORS {
        let rows: Vec<&JobKindRow> = rows.iter().filter(|row| row.api_version == api_version).collect();
        let says = format!("The controller's rights on the kinds of {api_version}.");
        let kustomization =
            component(&says, "resources", &["cluster_role.yaml"]).replace("OPERATOR", operator);
        drift::check(&format!("deploy/job-kinds/{operator}/kustomization.yaml"), &kustomization);
        drift::check(&format!("deploy/job-kinds/{operator}/cluster_role.yaml"), &role(operator, &rows));
    }
    let all = component(
        "The controller's rights on all built-in kinds of jobs. Each operator has a folder of its own.",
        "components",
        &OPERATORS.map(|(operator, _)| operator),
    );
    drift::check("deploy/job-kinds/kustomization.yaml", &all);
}

#[test]
fn every_built_in_kind_and_every_component_is_in_the_page() {
    let rows = built_in();
    assert!(rows.len() > 10, "{} rows", rows.len());
    for JobKindRow { api_version, kind, .. } in &rows {
        let mut lines = PAGE.lines().filter(|line| line.starts_with("| `"));
        let named =
            |line: &str| line.contains(&format!("`{kind}`")) && line.contains(&format!("`{api_version}`"));
        assert!(lines.any(named), "{api_version} {kind}");
    }
    for (operator, _) in OPERATORS {
        assert!(
            PAGE.contains(&format!("deploy/job-kinds/{operator}")) || PAGE.contains(&format!("`{operator}`")),
            "{operator}"
        );
    }
}
