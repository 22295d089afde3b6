//! The test programs of the workspace, by cargo's metadata.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use framework_programs::workspace::cargo;
use serde_json::Value;

/// By name, the sources of the integration test programs; packages may share a name.
pub(crate) fn integration_tests() -> Result<BTreeMap<String, Vec<PathBuf>>> {
    let output =
        cargo(&["metadata", "--format-version=1", "--no-deps"]).output().context("starting cargo")?;
    ensure!(output.status.success(), "cargo metadata failed");
    let metadata: Value = serde_json::from_slice(&output.stdout).context("reading the metadata")?;
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let targets = packages.flat_map(|package| package["targets"].as_array().into_iter().flatten());
    let mut programs: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for target in targets.filter(|target| target["kind"][0] == "test") {
        let (Some(name), Some(path)) = (target["name"].as_str(), target["src_path"].as_str()) else {
            continue;
        };
        programs.entry(name.to_owned()).or_default().push(path.into());
    }
    ensure!(!programs.is_empty(), "the workspace has no test program");
    Ok(programs)
}

/// An error unless the workspace has all of these test programs.
pub(crate) fn check(named: &[String]) -> Result<()> {
    let programs = integration_tests()?;
    for name in named {
        let all = programs.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
        ensure!(programs.contains_key(name), "there is no test program {name}: there are {all}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_program_that_is_not_there_is_refused_with_those_that_are() {
        check(&["gate".to_owned()]).unwrap();
        let error = check(&["gate".to_owned(), "gaet".to_owned()]).unwrap_err().to_string();
        assert!(error.starts_with("there is no test program gaet: there are ") && error.contains("gate,"));
    }
}
