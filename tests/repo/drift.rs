//! Generated files equal the output of their generators today. `UPDATE=1 cargo test --test repo drift`
//! rewrites them.

use std::path::Path;

pub fn check(path: &str, expected: &str) {
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
