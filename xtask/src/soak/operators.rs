//! `cargo xtask soak operators`: jobs of operators wait in queues under the CRDs of these operators, which
//! come from the Go modules of their releases.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use framework_programs::workspace::target_dir;

use super::{Run, soak};

/// The CRDs of an operator.
struct Operator {
    /// Its Go module, and the version.
    module: &'static str,
    /// The directory of the CRDs in the module.
    dir: &'static str,
    /// The files, without their extension.
    files: &'static [&'static str],
}

const OPERATORS: [Operator; 7] = [
    Operator {
        module: "sigs.k8s.io/jobset@v0.5.2",
        dir: "config/components/crd/bases",
        files: &["jobset.x-k8s.io_jobsets"],
    },
    Operator {
        module: "github.com/kubeflow/training-operator@v1.9.0",
        dir: "manifests/base/crds",
        files: &[
            "kubeflow.org_jaxjobs",
            "kubeflow.org_paddlejobs",
            "kubeflow.org_pytorchjobs",
            "kubeflow.org_tfjobs",
            "kubeflow.org_xgboostjobs",
        ],
    },
    Operator {
        module: "github.com/kubeflow/mpi-operator@v0.6.0",
        dir: "manifests/base",
        files: &["kubeflow.org_mpijobs"],
    },
    Operator {
        module: "github.com/ray-project/kuberay/ray-operator@v1.3.0",
        dir: "config/crd/bases",
        files: &["ray.io_rayjobs"],
    },
    Operator {
        module: "github.com/kubeflow/spark-operator/v2@v2.4.0",
        dir: "config/crd/bases",
        files: &["sparkoperator.k8s.io_sparkapplications"],
    },
    Operator {
        module: "github.com/argoproj/argo-workflows/v3@v3.6.5",
        dir: "manifests/base/crds/minimal",
        files: &["argoproj.io_workflows"],
    },
    Operator {
        module: "github.com/kubeflow/trainer/v2@v2.0.0",
        dir: "manifests/base/crds",
        files: &["trainer.kubeflow.org_trainjobs"],
    },
];

/// The tests whose jobs are valid by these CRDs.
const TESTS: [&str; 6] = [
    "job_rows::",
    "job_kinds::a_train_job_waits_for_quota_and_returns_it_with_its_last_pod",
    "job_kinds::the_pod_of_an_mpi_launcher_counts_once_by_the_owner_of_its_job",
    "job_units::a_unit_by_hand_follows_a_job_set_without_the_label_to_its_end",
    "queue::a_suspended_job_set_waits_too_once_job_sets_are_served",
    "queue_order::a_finished_job_set_returns_its_capacity_with_its_last_pod",
];

/// The tests, which read the CRDs from that directory.
pub(super) fn test(crds: &Path) -> Run {
    Run {
        programs: &["e2e"],
        tests: &TESTS,
        environment: vec![("FRAMEWORK_JOB_CRDS", crds.display().to_string())],
        ..Run::default()
    }
}

/// Gets the CRDs, and runs the tests with them.
pub(super) fn run() -> Result<()> {
    let crds = directory();
    fs::create_dir_all(&crds).with_context(|| format!("creating {}", crds.display()))?;
    for operator in &OPERATORS {
        let dir = download(operator.module, &crds)?.join(operator.dir);
        for file in operator.files {
            let file = format!("{file}.yaml");
            let from = dir.join(&file);
            // A module's files are read-only, and a copy would be, too.
            let copied = fs::read(&from).and_then(|crd| fs::write(crds.join(&file), crd));
            copied.with_context(|| format!("copying {}", from.display()))?;
        }
        eprintln!("{}: {}", operator.module, operator.files.join(", "));
    }
    soak(&test(&crds))
}

/// The directory of the CRDs.
pub(super) fn directory() -> PathBuf {
    target_dir().join("soak/crds")
}

/// Downloads a module with Go, and returns its directory.
fn download(module: &str, within: &Path) -> Result<PathBuf> {
    let mut go = Command::new("go");
    let output =
        go.args(["mod", "download", "-json", module]).current_dir(within).output().context("starting go")?;
    let found: serde_json::Value = serde_json::from_slice(&output.stdout)
        .with_context(|| format!("{module}: {}", String::from_utf8_lossy(&output.stderr)))?;
    ensure!(output.status.success(), "{module}: {}", found["Error"]);
    found["Dir"].as_str().map(PathBuf::from).with_context(|| format!("{module} has no directory: {found}"))
}
