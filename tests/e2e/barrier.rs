//! FrameworkBarrier beside the real controller: the status that the controller writes lets it pass, and one
//! read of the whole object is enough.

use std::path::Path;
use std::time::{Duration, Instant};

use framework_access::{Directions, client};
use framework_barrier::settings::{DEFAULT_MOUNT, Settings};
use framework_testcluster::audit::Mark;
use serde_json::Value;

use crate::cluster::lease::{Alone, namespace};
use crate::cluster::{self, block_on, installed, manifest, merge, running};

fn settings(namespace: &str) -> Settings {
    let kubeconfig_file = Some(installed().kubeconfig_path().to_owned());
    Settings {
        namespace: namespace.to_owned(),
        name: "train".to_owned(),
        interval: Duration::from_millis(200),
        timeout: Duration::from_secs(120),
        mount: DEFAULT_MOUNT.into(),
        directions: Directions { kubeconfig_file, ..Directions::default() },
    }
}

async fn wait(settings: &Settings, place: &Path) -> Result<(), framework_barrier::Error> {
    let config = framework_access::find(&settings.directions).await?;
    let client = client::connect(config, "frameworkbarrier/e2e")?;
    framework_barrier::run(settings, client, fastrand::Rng::new(), &[place.to_owned()]).await
}

/// How often barriers have asked for the whole object since then.
fn whole_reads(mark: Mark) -> usize {
    let records = installed().audit().since(mark).expect("the audit log can be read");
    let ours = records.iter().filter(|record| record.user_agent == "frameworkbarrier/e2e");
    ours.filter(|record| !record.request_uri.contains("includeObject=None")).count()
}

fn mark() -> Mark {
    installed().audit().mark().expect("the audit log is there")
}

#[test]
fn the_barrier_passes_with_one_read_of_the_whole_framework() {
    let alone = Alone::wait();
    let controller = alone.start("controller", "");
    let namespace = namespace("barrier");
    let begun = mark();
    manifest("train").role("server", 1, &[("start-delay", "1s")]).role("worker", 2, &[]).create(&namespace);
    // It waits while there is a status, and as an init container it starts after that.
    cluster::wait(&namespace, "train", "begun", |framework| framework.status.is_some());
    let place = tempfile::tempdir().expect("a directory");
    let settings = settings(&namespace);
    block_on(wait(&settings, place.path())).expect("it passes");

    let read = |name: &str| std::fs::read_to_string(place.path().join(name)).expect("the file is there");
    let framework: Value = serde_json::from_str(&read("framework.json")).expect("it is JSON");
    let roles = &framework["status"]["attemptStatus"]["taskRoleStatuses"];
    let ip = |role: usize, index: usize| {
        let ip = &roles[role]["taskStatuses"][index]["attemptStatus"]["podIP"];
        ip.as_str().expect("it has an IP").to_owned()
    };
    let script = read("injector.sh");
    assert!(script.contains(&format!("export FB_SERVER_IPS=\"{}\"\n", ip(0, 0))), "{script}");
    assert!(script.contains(&format!("export FB_WORKER_IPS=\"{},{}\"\n", ip(1, 0), ip(1, 1))), "{script}");
    assert_eq!(whole_reads(begun), 1);

    // One more worker is awaited as well, although no controller has seen it and all workers in the status
    // are there.
    drop(controller);
    let mut roles = framework["spec"]["taskRoles"].clone();
    roles[1]["taskNumber"] = 3.into();
    merge(&namespace, "train", serde_json::json!({ "taskRoles": roles }));
    let begun = mark();
    std::thread::scope(|scope| {
        let passes = scope.spawn(|| block_on(wait(&settings, place.path())));
        let deadline = Instant::now() + cluster::PATIENCE;
        while whole_reads(begun) == 0 {
            assert!(Instant::now() < deadline, "it does not look at the whole object");
            std::thread::sleep(Duration::from_millis(50));
        }
        let _controller = alone.start("controller", "");
        passes.join().expect("it says why not").expect("it passes");
        let workers = read("injector.sh");
        let workers = workers.lines().find(|line| line.starts_with("export FB_WORKER_IPS=")).expect("a line");
        assert_eq!(workers.split(',').count(), 3, "{workers}");
        running(&namespace, "train", 4);
    });
}
