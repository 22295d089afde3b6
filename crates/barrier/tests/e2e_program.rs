//! The program as an init container runs it: environment in, a log and an exit code out.

mod cluster;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Instant;

use cluster::{Job, PATIENCE, PAUSE, at, cluster, kubectl};
use framework_testcluster::running::Running;
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

/// Starts a barrier with this environment.
fn start(variables: &[(&str, &str)]) -> Running {
    let environment: Vec<(&str, &OsStr)> =
        variables.iter().map(|(name, value)| (*name, OsStr::new(*value))).collect();
    let program = Path::new(env!("CARGO_BIN_EXE_frameworkbarrier"));
    Running::start(program, tempfile::tempdir().unwrap(), &[], &environment)
}

/// Starts one that waits for a Framework, as the user of a kubeconfig. Its volume is in its directory.
fn start_for(namespace: &str, name: &str, kubeconfig: &Path) -> Running {
    start(&[
        ("FC_FRAMEWORK_NAMESPACE", namespace),
        ("FC_FRAMEWORK_NAME", name),
        ("KUBECONFIG", kubeconfig.to_str().unwrap()),
        ("BARRIER_MOUNT_PATH", "volume"),
    ])
}

/// A kubeconfig with a real token of a ServiceAccount.
fn service_account(dir: &TempDir, namespace: &str, name: &str) -> PathBuf {
    let deadline = Instant::now() + PATIENCE;
    let ask = ["create", "token", name, "--namespace", namespace];
    // The ServiceAccount `default` of a new namespace comes a little later.
    let token = loop {
        let output = cluster().kubectl(&ask).expect("kubectl runs");
        if output.status.success() {
            break output.stdout.trim().to_owned();
        }
        assert!(Instant::now() < deadline, "{}", output.stderr);
        std::thread::sleep(PAUSE);
    };
    let text = std::fs::read_to_string(cluster().kubeconfig_path()).unwrap();
    let mut kubeconfig: Value = serde_saphyr::from_str(&text).unwrap();
    kubeconfig["users"][0]["user"] = serde_json::json!({ "token": token });
    let path = dir.path().join("kubeconfig");
    std::fs::write(&path, kubeconfig.to_string()).unwrap();
    path
}

/// As far as one can see without a container engine.
#[test]
fn the_image_holds_this_program_and_works_where_the_volume_is() {
    let image = include_str!("../../../deploy/Dockerfile.barrier");
    let package = format!(" --locked --package {} &&", env!("CARGO_PKG_NAME"));
    let program = Path::new(env!("CARGO_BIN_EXE_frameworkbarrier")).file_name().unwrap().to_str().unwrap();
    for line in [
        package,
        format!("/release/{program}\" /{program}\n"),
        format!("COPY --from=build /{program} /{program}\n"),
        format!("WORKDIR {}\n", framework_barrier::settings::DEFAULT_MOUNT),
        format!("ENTRYPOINT [\"/{program}\"]\n"),
    ] {
        assert!(image.contains(&line), "{line}");
    }
}

#[test]
fn a_bad_environment_ends_it_with_210() {
    let named = [("FC_FRAMEWORK_NAMESPACE", "default"), ("FC_FRAMEWORK_NAME", "train")];
    for (variable, words) in [
        (("FC_FRAMEWORK_NAME", ""), "FC_FRAMEWORK_NAME is not set"),
        (("BARRIER_CHECK_INTERVAL_SEC", "4"), "BARRIER_CHECK_INTERVAL_SEC=\"4\" is not allowed"),
        (("BARRIER_CHECK_TIMEOUT_SEC", "1201"), "BARRIER_CHECK_TIMEOUT_SEC=\"1201\" is not allowed"),
    ] {
        let (code, log) = start(&[&named[..], &[variable]].concat()).end();
        assert_eq!(code, Some(210), "{log}");
        assert!(log.starts_with(&format!("frameworkbarrier: exit code 210: {words}")), "{log}");
    }
}

#[test]
fn no_api_server_to_be_known_ends_it_with_1() {
    let named = [("FC_FRAMEWORK_NAMESPACE", "default"), ("FC_FRAMEWORK_NAME", "train")];
    let (code, log) = start(&named).end();
    assert_eq!(code, Some(1), "{log}");
    assert!(log.contains("no API server is known: set KUBE_APISERVER_ADDRESS or KUBECONFIG"), "{log}");
}

#[test]
fn a_framework_that_does_not_exist_ends_it_with_210() {
    let (code, log) = start_for("nowhere", "nobody", cluster().kubeconfig_path()).end();
    assert_eq!(code, Some(210), "{log}");
    assert!(log.contains("exit code 210: there is no Framework nobody in namespace nowhere: "), "{log}");
}

#[test]
fn a_signal_ends_it_at_once() {
    let job = Job::create("signal");
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130)] {
        let mut program = start_for(&job.namespace, "train", cluster().kubeconfig_path());
        program.says("waiting reason=3 of 3 Tasks have no IP yet");
        program.signal(signal);
        let (ended, log) = program.end();
        assert_eq!(ended, Some(code), "{log}");
    }
}

#[test]
fn credentials_that_are_not_accepted_end_it_after_three_tries() {
    let job = Job::create("unauthorized");
    let dir = tempfile::tempdir().unwrap();
    let path = service_account(&dir, &job.namespace, "default");
    let text = std::fs::read_to_string(&path).unwrap().replace("\"token\":\"", "\"token\":\"x");
    std::fs::write(&path, text).unwrap();
    let (code, log) = start_for(&job.namespace, "train", &path).end();
    assert_eq!(code, Some(1), "{log}");
    assert!(log.contains("the API server does not accept the credentials of this Pod (401: "), "{log}");
}

#[test]
fn the_shipped_role_grants_the_right_that_a_failed_barrier_names() {
    let job = Job::create("default");
    job.status(&[at("10.0.0.1")], &[at("10.0.0.2"), at("10.0.0.3")]);
    let dir = tempfile::tempdir().unwrap();
    let kubeconfig = service_account(&dir, "default", "default");
    let (code, log) = start_for("default", "train", &kubeconfig).end();
    assert_eq!(code, Some(1), "{log}");
    assert!(
        log.contains(
            "exit code 1: ServiceAccount default of namespace default may not get \
             frameworks.frameworkcontroller.microsoft.com train in namespace default (403: "
        ),
        "{log}"
    );
    let tries: Vec<u16> = job.gets().0.iter().map(|record| record.code).collect();
    assert_eq!(tries, [403; 3]);

    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/barrier/role.yaml");
    let shipped: Vec<Value> =
        serde_saphyr::from_multiple(&std::fs::read_to_string(shipped).unwrap()).unwrap();
    let printed = log.split_once("kubectl apply -f -:\n").expect("the manifest is in the message").1;
    assert_eq!(serde_saphyr::from_multiple::<Value>(printed).unwrap(), shipped);
    kubectl(&["apply", "-f", "-"], printed);
    let mut granted = start_for("default", "train", &kubeconfig);
    let (code, log) = granted.end();
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("every Task has an IP"), "{log}");
    for name in ["injector.sh", "framework.json"] {
        let here = std::fs::read(granted.dir().join(name)).expect("it is in the working directory");
        assert_eq!(here, std::fs::read(granted.dir().join("volume").join(name)).unwrap(), "{name}");
    }

    let may = |verb: &str, resource: &str| {
        let account = "--as=system:serviceaccount:default:default";
        cluster().kubectl(&["auth", "can-i", verb, resource, account]).unwrap().status.success()
    };
    assert!(may("get", "frameworks.frameworkcontroller.microsoft.com"));
    for verb in ["list", "watch", "update", "patch", "delete"] {
        assert!(!may(verb, "frameworks.frameworkcontroller.microsoft.com"), "{verb}");
    }
}
