//! etcd is restored from a copy while a controller runs, against the advice of docs/operations.md. The
//! controller of `deploy/single` notices and ends, and the next one goes on from the stored state.

use std::path::{Path, PathBuf};
use std::process::Command;

use framework_api::{Framework, State};
use framework_testcluster::{Cluster, Component};

use crate::cluster::{await_our_kinds_by, block_on, manifest, until};
use crate::narrow::{ACCOUNT, Installed, ends, stop};

const OVERLAY: &str = "resources: [path/to/deploy/single]\n";

/// The data of etcd.
struct Store<'a> {
    cluster: &'a Cluster,
    copy: tempfile::TempDir,
}

impl Store<'_> {
    fn save(cluster: &Cluster) -> Store<'_> {
        let store = Store { cluster, copy: tempfile::tempdir().expect("a directory") };
        store.while_stopped(|data| copy(data, store.copy.path()));
        store
    }

    fn restore(&self) {
        self.while_stopped(|data| {
            std::fs::remove_dir_all(data).expect("it is removed");
            std::fs::create_dir(data).expect("it is made");
            copy(self.copy.path(), data);
        });
        // None of them takes a store back that is older than its cache.
        for component in [Component::ControllerManager, Component::Scheduler, Component::Kwok] {
            self.cluster.stop(component).expect("it ran");
            self.cluster.launch(component).expect("it starts");
        }
    }

    fn while_stopped(&self, change: impl FnOnce(&Path)) {
        self.cluster.stop_apiserver().expect("it ran");
        self.cluster.stop(Component::Etcd).expect("it ran");
        change(&self.cluster.dir().join("etcd"));
        self.cluster.launch(Component::Etcd).expect("it starts");
        self.cluster.start_apiserver().expect("it gets ready");
        await_our_kinds_by(&block_on(async { self.cluster.client() }));
        await_rights(self.cluster);
    }
}

/// Waits until the controller has its rights again: an API server that has just started refuses all but
/// admins until it has read the roles and the bindings of both kinds.
fn await_rights(cluster: &Cluster) {
    let account = format!("--as={ACCOUNT}");
    let of_cluster = ["frameworks.frameworkcontroller.microsoft.com", "--all-namespaces"];
    let of_namespace = ["leases.coordination.k8s.io", "--namespace=frameworkcontroller"];
    for [resource, scope] in [of_cluster, of_namespace] {
        until(&format!("the controller may list {resource}"), || {
            let answer = cluster.kubectl(&["auth", "can-i", "list", resource, scope, &account]);
            answer.expect("kubectl runs").status.success().then_some(())
        });
    }
}

/// Copies the content of a directory into another one.
fn copy(from: &Path, to: &Path) {
    let inside: PathBuf = from.join(".");
    let status = Command::new("cp").arg("-a").arg(inside).arg(to).status().expect("cp runs");
    assert!(status.success());
}

/// The attempts of a Framework's Tasks and their Pods.
fn attempts(framework: &Framework) -> Vec<(i32, Option<String>)> {
    let tasks = framework.status.as_ref().expect("a status").all_tasks();
    tasks.map(|task| (task.attempt_status.id, task.attempt_status.pod_uid.clone())).collect()
}

#[test]
fn a_controller_whose_etcd_was_restored_ends_and_the_next_one_goes_on() {
    let installed = Installed::start(OVERLAY);
    let mut first = installed.controller();
    first.says("started");
    installed.create("team-a", &manifest("goeson").role("w", 2, &[("run-duration", "forever")]), None);
    let api = installed.frameworks("team-a");
    let running = until("it runs", || {
        let framework = block_on(api.get("goeson")).expect("it is there");
        let state = framework.status.as_ref().map(|status| status.state);
        let is_known = || attempts(&framework).iter().all(|(_, pod)| pod.is_some());
        (state == Some(State::AttemptRunning) && is_known()).then_some(framework)
    });

    let store = Store::save(&installed.cluster);
    installed.create("team-a", &ends("later"), None);
    installed.succeeds("team-a", "later");
    store.restore();
    let (code, log) = first.end();
    assert_eq!(code, Some(1), "{log}");
    assert!(log.contains("its store was restored to an older state"), "{log}");

    let mut second = installed.controller();
    second.says("started");
    assert!(block_on(api.get_opt("later")).expect("a reply").is_none(), "it is younger than the copy");
    installed.create("team-a", &ends("later"), None);
    installed.succeeds("team-a", "later");
    let framework = block_on(api.get("goeson")).expect("it is there");
    assert_eq!(attempts(&framework), attempts(&running), "it runs nothing twice");
    stop(second);
}
