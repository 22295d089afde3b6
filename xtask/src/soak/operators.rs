//! `cargo xtask soak operators`: jobs of operators wait in queues under the CRDs of these operators, which
//! come from the Go modules of their releases.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use framework_programs::workspace::target_dir;

use super::run::{Run, soak};

/// The CRDs of an operator.
struct Operator {
    /// Its Go module.
    module: &'static str,
    /// The oldest version that the rows follow, and the newest.
    versions: [&'static str; 2],
    /// The directory of the CRDs in the module.
    dir: &'static str,
    /// The files, without their extension.
    files: &'static [&'static str],
}

const OPERATORS: [Operator; 8] = [
    Operator {
        module: "sigs.k8s.io/jobset",
        versions: ["v0.5.2", "v0.11.0"],
        dir: "config/components/crd/bases",
        files: &["jobset.x-k8s.io_jobsets"],
    },
    Operator {
        module: "github.com/kubeflow/training-operator",
        versions: ["v1.7.0", "v1.9.3"],
        dir: "manifests/base/crds",
        files: &[
            "kubeflow.org_paddlejobs",
            "kubeflow.org_pytorchjobs",
            "kubeflow.org_tfjobs",
            "kubeflow.org_xgboostjobs",
        ],
    },
    Operator {
        module: "github.com/kubeflow/training-operator",
        versions: ["v1.9.0", "v1.9.3"],
        dir: "manifests/base/crds",
        files: &["kubeflow.org_jaxjobs"],
    },
    Operator {
        module: "github.com/kubeflow/mpi-operator",
        versions: ["v0.4.0", "v0.8.0"],
        dir: "manifests/base",
        files: &["kubeflow.org_mpijobs"],
    },
    Operator {
        module: "github.com/ray-project/kuberay/ray-operator",
        versions: ["v1.1.0", "v1.6.0"],
        dir: "config/crd/bases",
        files: &["ray.io_rayjobs"],
    },
    Operator {
        module: "github.com/kubeflow/spark-operator/v2",
        versions: ["v2.4.0", "v2.5.0"],
        dir: "config/crd/bases",
        files: &["sparkoperator.k8s.io_sparkapplications"],
    },
    Operator {
        module: "github.com/argoproj/argo-workflows/v3",
        versions: ["v3.4.0", "v3.7.0"],
        dir: "manifests/base/crds/minimal",
        files: &["argoproj.io_workflows"],
    },
    Operator {
        module: "github.com/kubeflow/trainer/v2",
        versions: ["v2.0.0", "v2.3.0"],
        dir: "manifests/base/crds",
        files: &["trainer.kubeflow.org_trainjobs"],
    },
];

/// The MPIJobs of the Training Operator. Their CRD has the name of the MPI Operator's, and another version.
const MPI_JOBS_OF_TRAINING: Operator = Operator {
    module: "github.com/kubeflow/training-operator",
    versions: ["v1.7.0", "v1.9.3"],
    dir: "manifests/base/crds",
    files: &["kubeflow.org_mpijobs"],
};

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

/// Gets the CRDs of the oldest versions, then of the newest, and runs the tests with each.
pub(super) fn run() -> Result<()> {
    let crds = directory();
    fs::create_dir_all(&crds).with_context(|| format!("creating {}", crds.display()))?;
    for end in 0..2 {
        OPERATORS.iter().try_for_each(|operator| operator.copy_crds(end, &crds))?;
        soak(&test(&crds))?;
        MPI_JOBS_OF_TRAINING.copy_crds(end, &crds)?;
        soak(&Run { tests: &["job_rows::"], ..test(&crds) })?;
    }
    Ok(())
}

impl Operator {
    /// Copies its CRDs, of the oldest version or of the newest, into a directory.
    fn copy_crds(&self, end: usize, crds: &Path) -> Result<()> {
        let module = format!("{}@{}", self.module, self.versions[end]);
        let dir = download(&module, crds)?.join(self.dir);
        for file in self.files {
            let file = format!("{file}.yaml");
            let from = dir.join(&file);
            // A module's files are read-only, and a copy would be, too.
            let copied = fs::read(&from).and_then(|crd| fs::write(crds.join(&file), crd));
            copied.with_context(|| format!("copying {}", from.display()))?;
        }
        eprintln!("{module}: {}", self.files.join(", "));
        Ok(())
    }
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
