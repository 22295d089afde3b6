//! Each built-in kind of jobs has its rights in the component, and its row in the page for users.

use framework_api::job_kind::{JobKindRow, built_in};

const ROLE: &str = include_str!("../../deploy/job-kinds/cluster_role.yaml");
const PAGE: &str = include_str!("../../docs/manual/queue-kinds.md");

/// The resources of a group that the role names.
fn permitted(group: &str) -> Vec<&'static str> {
    let rule = ROLE.split("- apiGroups: ").find(|rule| rule.starts_with(&format!("[{group}]")));
    let resources = rule.and_then(|rule| rule.split("resources: [").nth(1)?.split(']').next());
    resources.unwrap_or_else(|| panic!("no rights on {group}")).split(", ").collect()
}

#[test]
fn every_built_in_kind_has_its_rights_and_a_row_in_the_page() {
    let rows = built_in();
    assert!(rows.len() > 10, "{} rows", rows.len());
    for JobKindRow { api_version, kind, plural, .. } in &rows {
        let (group, _) = api_version.split_once('/').expect("a group");
        assert!(permitted(group).contains(&plural.as_str()), "{plural} of {group}");
        let mut lines = PAGE.lines().filter(|line| line.starts_with("| `"));
        let named =
            |line: &str| line.contains(&format!("`{kind}`")) && line.contains(&format!("`{api_version}`"));
        assert!(lines.any(named), "{api_version} {kind}");
    }
}
