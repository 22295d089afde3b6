//! The Frameworks that the demo runs, and the expected end of each.

use anyhow::{Context, Result};
use framework_api::Framework;

/// A Framework of `examples/`.
pub(crate) struct Example {
    /// Its file in the work tree.
    pub(crate) file: &'static str,
    manifest: &'static str,
    /// A few words about it.
    pub(crate) shows: &'static str,
    /// Its expected completion code.
    pub(crate) code: i32,
    /// The other expected events.
    pub(crate) expectation: Expectation,
}

/// The expected events of an example, apart from its completion code.
pub(crate) enum Expectation {
    /// An attempt of this Task ended with this code, and was followed by another.
    TaskRetried { task_role: &'static str, index: i32, code: i32 },
    /// All Tasks of this TaskRole still ran when the Framework completed.
    TasksStopped { task_role: &'static str },
    /// It ended in its first attempt, and no Task was retried.
    NotRetried,
    /// It was stopped while all its Tasks ran.
    Stopped,
}

/// All of them.
pub(crate) const EXAMPLES: &[Example] = &[
    Example {
        file: "examples/flaky.yaml",
        manifest: include_str!("../../../examples/flaky.yaml"),
        shows: "a Task fails transiently and is retried",
        code: 0,
        expectation: Expectation::TaskRetried { task_role: "worker", index: 1, code: 200 },
    },
    Example {
        file: "examples/training.yaml",
        manifest: include_str!("../../../examples/training.yaml"),
        shows: "completes by policy while its servers still run",
        code: 0,
        expectation: Expectation::TasksStopped { task_role: "ps" },
    },
    Example {
        file: "examples/outofmemory.yaml",
        manifest: include_str!("../../../examples/outofmemory.yaml"),
        shows: "fails permanently, and says why",
        code: -1200,
        expectation: Expectation::NotRetried,
    },
    Example {
        file: "examples/stopped.yaml",
        manifest: include_str!("../../../examples/stopped.yaml"),
        shows: "is stopped midway",
        code: -210,
        expectation: Expectation::Stopped,
    },
    Example {
        file: "examples/elastic.yaml",
        manifest: include_str!("../../../examples/elastic.yaml"),
        shows: "its coordinator decides, however many workers there are",
        code: 0,
        expectation: Expectation::TasksStopped { task_role: "worker" },
    },
];

impl Example {
    /// The Framework that the file describes.
    pub(crate) fn framework(&self) -> Result<Framework> {
        // Pod templates are kept as JSON.
        let read = serde_saphyr::from_str(self.manifest).map(serde_json::from_value);
        Ok(read.with_context(|| format!("reading {}", self.file))??)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use framework_programs::workspace::root;
    use std::collections::BTreeSet;

    #[test]
    fn every_example_is_in_the_demo_and_named_like_its_file() {
        let files = std::fs::read_dir(root().join("examples")).unwrap();
        let files: BTreeSet<String> =
            files.map(|file| format!("examples/{}", file.unwrap().file_name().to_str().unwrap())).collect();
        assert_eq!(files, EXAMPLES.iter().map(|example| example.file.to_owned()).collect());
        for example in EXAMPLES {
            let name = example.framework().unwrap().metadata.name.unwrap();
            assert_eq!(example.file, format!("examples/{name}.yaml"));
        }
    }
}
