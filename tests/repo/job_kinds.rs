//! Each built-in kind of jobs has its rights in a component of its own, made from its row, and a row in the
//! page for users. A page that replaces a row repeats the rest of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use framework_api::config::Config;
use framework_api::job_kind::{DeadlineBy, JobKindRow, built_in};

use crate::drift;

const PAGE: &str = include_str!("../../docs/manual/queue-kinds.md");
/// The page with another row for TrainJobs.
const LIFETIMES: &str = include_str!("../../docs/manual/ttl-and-deadline.md");

/// The groups of the kinds on which the base has the rights.
const IN_BASE: [&str; 2] = ["batch", "jobset.x-k8s.io"];

const HEAD: &str = "\
# Generated from crates/api/data/job_kinds.yaml by `UPDATE=1 cargo test --test repo drift`; do not edit.
";

/// The resources whose rights have a component each, and their groups. Versions of a kind share one.
fn resources() -> BTreeMap<String, String> {
    let rows = built_in().into_iter().filter(|row| !IN_BASE.contains(&row.group()));
    rows.map(|row| (row.plural.clone(), row.group().to_owned())).collect()
}

fn role(plural: &str, group: &str) -> String {
    let name = format!("frameworkcontroller-job-kinds-{plural}");
    format!(
        "{HEAD}# patch: resumes a waiting job, and labels its Pod templates.
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {name}
rules:
- apiGroups: [{group}]
  resources: [{plural}]
  verbs: [list, watch, patch]
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
        if key == "resources" { "/PLURAL" } else { "" }
    )
}

#[test]
pub fn the_rights_on_each_kind_show_no_drift_from_its_row() {
    let resources = resources();
    for (plural, group) in &resources {
        let says = format!("The controller's rights on {plural}.{group}.");
        let kustomization = component(&says, "resources", &["cluster_role.yaml"]).replace("PLURAL", plural);
        drift::check(&format!("deploy/job-kinds/{plural}/kustomization.yaml"), &kustomization);
        drift::check(&format!("deploy/job-kinds/{plural}/cluster_role.yaml"), &role(plural, group));
    }
    let folders: Vec<&str> = resources.keys().map(String::as_str).collect();
    let all = component(
        "The controller's rights on all built-in kinds of jobs. Each kind has a folder of its own.",
        "components",
        &folders,
    );
    drift::check("deploy/job-kinds/kustomization.yaml", &all);
    let found = fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/job-kinds")).expect("it is there");
    let names = found.map(|entry| entry.expect("it is readable").file_name().into_string().expect("a name"));
    let found: BTreeSet<String> = names.filter(|name| !name.ends_with(".yaml")).collect();
    assert_eq!(found, resources.into_keys().collect(), "no folder is of another kind");
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
    for plural in resources().into_keys() {
        let forms = [format!("deploy/job-kinds/{plural}"), format!("`{plural}`")];
        assert!(forms.iter().any(|form| PAGE.contains(form)), "{plural}");
    }
}

/// A row of the config file replaces all of the built-in one, so that a key left out has its default.
#[test]
fn the_row_of_train_jobs_in_the_manual_changes_only_the_deadline() {
    let blocks = LIFETIMES.split("```yaml\n").skip(1).filter_map(|block| block.split("```").next());
    let configs = blocks.filter(|block| block.starts_with("queueJobKinds:"));
    let rows = configs.flat_map(|config| Config::parse(config).expect(config).queue_job_kinds);
    let built_in = built_in().into_iter().find(JobKindRow::is_train_job).expect("it has a row");
    assert_eq!(built_in.deadline, Some(DeadlineBy::Operator));
    let expected = JobKindRow { deadline: Some(DeadlineBy::Ours), ..built_in };
    assert_eq!(rows.collect::<Vec<_>>(), [expected]);
}
