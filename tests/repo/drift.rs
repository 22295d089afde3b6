//! Generated files equal the output of their generators today. `UPDATE=1 cargo test --test repo drift`
//! rewrites them.

use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use framework_programs::{Binaries, Program};

mod chart;

/// Held while generated files are written or read: tests run side by side.
fn files() -> MutexGuard<'static, ()> {
    static FILES: Mutex<()> = Mutex::new(());
    FILES.lock().unwrap_or_else(PoisonError::into_inner)
}

pub fn check(path: &str, expected: &str) {
    let _files = files();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    if std::env::var_os("UPDATE").is_some_and(|value| value == "1") {
        std::fs::create_dir_all(file.parent().expect("a file is in a folder")).expect("make the folder");
        std::fs::write(&file, expected).expect("write the generated file");
    }
    let found = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        found == expected,
        "{path} is not what its source makes: run `UPDATE=1 cargo test --test repo drift`"
    );
}

#[test]
fn the_crds_are_made_from_the_types() {
    use framework_api::crd::{self, queue};
    for (name, manifest) in [
        (crd::NAME, crd::manifest()),
        (queue::UNITS, queue::unit_manifest()),
        (queue::QUEUES, queue::queue_manifest()),
    ] {
        check(&format!("deploy/crds/{name}.yaml"), &manifest);
    }
}

#[test]
fn the_installed_config_file_is_the_default_one_with_queues_and_replicas() {
    let default = framework_api::pod_failure::DEFAULT_CONFIG;
    let queueing = default.replace("\n# queueing: false\n", "\nqueueing: true\n");
    assert_ne!(queueing, default);
    let installed = queueing.replace("\n# sharding: false\n", "\nsharding: true\n");
    assert_ne!(installed, queueing);
    check("deploy/base/frameworkcontroller.yaml", &installed);
}

const INSTALL_HEAD: &str = "\
# Generated from deploy/ by `UPDATE=1 cargo test --test repo drift`; do not edit.
#
# Everything that an installation needs, for `kubectl apply --server-side -f`. `frameworkcontroller:dev` is a placeholder: this
# image is not published. README.md shows how to put yours in its place.
";

#[test]
fn the_file_to_install_is_what_kustomize_renders() {
    if std::env::var_os("UPDATE").is_some() {
        // They are part of it.
        the_crds_are_made_from_the_types();
        the_installed_config_file_is_the_default_one_with_queues_and_replicas();
    }
    let programs = Binaries::with(&[Program::Kubectl], &framework_programs::say).expect("kubectl is there");
    let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy");
    let output = {
        let _files = files();
        Command::new(programs.path(Program::Kubectl)).arg("kustomize").arg(deploy).output()
    };
    let output = output.expect("kubectl runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let rendered = String::from_utf8(output.stdout).expect("YAML is UTF-8");
    assert_eq!(rendered.matches("image: frameworkcontroller:dev\n").count(), 1);
    check("deploy/install.yaml", &format!("{INSTALL_HEAD}{rendered}"));
}
