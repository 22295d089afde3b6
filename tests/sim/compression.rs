//! Compressed statuses in simulated time: they outlive their controllers, stay compressed, are distinguished
//! from unreadable ones, and change nothing in the end.

use framework_api::config::CompressionCodec;
use framework_engine::compression::Compression;
use framework_sim::{Object, SimCluster};
use serde_json::json;

use crate::simulation::controller::{Controller, Setup};
use crate::simulation::life::{calm, ended, killed_at, lived_well, lives, outcome, requests, until_running};
use crate::simulation::manifest::{Manifest, framework};
use crate::simulation::wire::Moment;
use crate::simulation::{SECOND, pass, simulate};

/// A job of three Tasks that all succeed.
fn job() -> Manifest {
    framework("job").role("w", 3).force_after(20)
}

/// A setup in which every status is compressed, with this codec.
fn compressing(codec: CompressionCodec) -> Setup {
    let mut setup = Setup::default();
    setup.settings.compression = Compression { threshold: Some(0), codec };
    setup
}

/// How the changes of the Framework's status left it: compressed, by the first bytes of their text, or not.
fn forms(cluster: &SimCluster) -> Vec<&'static str> {
    let changes = cluster.history().changes;
    let statuses =
        changes.iter().filter(|change| change.is("frameworks")).filter_map(|change| change.new.clone());
    let form = |framework: &Object| {
        let attempt = framework["status"].get("attemptStatus")?;
        Some(match attempt["taskRoleStatusesCompressed"].as_str() {
            Some(text) if text.starts_with("KLUv/") => "zstd",
            Some(text) if text.starts_with("H4sI") => "gzip",
            Some(_) => "unknown",
            None => "raw",
        })
    };
    let mut forms: Vec<&str> = statuses.filter_map(|framework| form(&framework)).collect();
    forms.dedup();
    forms
}

#[test]
fn a_compressed_attempt_stays_compressed_under_another_configuration() {
    let undisturbed = lives(job(), |_| async {});
    let came_to = |next: Setup, then: &[&str]| {
        simulate(7, calm(), |cluster| async move {
            job().fate("run-ms", "5000").create(&cluster.user());
            let first = Controller::start(&cluster, 1, 1, &compressing(CompressionCodec::Zstd));
            until_running(&cluster).await;
            first.crash().await;
            let _second = Controller::start(&cluster, 2, 2, &next);
            lived_well(&cluster, "job").await.unwrap();
            assert_eq!(forms(&cluster), then);
            outcome(&cluster.user(), "job")
        })
    };
    assert_eq!(came_to(compressing(CompressionCodec::Gzip), &["zstd", "gzip"]), undisturbed);
    assert_eq!(came_to(Setup::default(), &["zstd"]), undisturbed, "compression is off by now");
}

#[test]
fn a_compressing_controller_may_be_killed_at_any_request() {
    let undisturbed = lives(job(), |_| async {});
    for moment in [Moment::Before, Moment::After] {
        let (mut killed, setup) = (0, compressing(CompressionCodec::Zstd));
        while let Some(came_to) = killed_at(&job(), killed + 1, moment, &setup) {
            killed += 1;
            assert_eq!(came_to, undisturbed, "{moment:?} request {killed}");
        }
        assert!(killed >= 2 * 3 + 7, "only {killed} requests were reached");
    }
}

/// A user breaks a stored status, and puts it right again.
#[test]
fn a_status_that_cannot_be_read_is_left_alone_until_it_can() {
    simulate(9, calm(), |cluster| async move {
        let user = cluster.user();
        job().fate("run-ms", "60000").create(&user);
        let _controller = Controller::start(&cluster, 1, 1, &compressing(CompressionCodec::Zstd));
        until_running(&cluster).await;
        let patch = |text: &str| {
            let status = json!({ "attemptStatus": { "taskRoleStatusesCompressed": text } });
            user.patch_status("frameworks", "job", status).unwrap();
        };
        let good = user.get("frameworks", "job").unwrap();
        let good = good["status"]["attemptStatus"]["taskRoleStatusesCompressed"].as_str().unwrap().to_owned();
        patch("AAAA");
        user.delete("pods", "job-w-1").unwrap();
        framework("other").role("w", 1).create(&user);
        assert!(ended(&cluster, "other").await, "others go on");
        pass(SECOND * 30).await;
        let left = user.get("frameworks", "job").unwrap();
        assert_eq!(left["status"]["attemptStatus"]["taskRoleStatusesCompressed"], "AAAA", "byte by byte");
        let condition = &left["status"]["conditions"][0];
        assert_eq!((&condition["type"], &condition["status"]), (&json!("Running"), &json!("Unknown")));
        assert_eq!(condition["reason"], "StatusUnreadable");
        let patches =
            requests(&cluster.history()).iter().filter(|one| *one == "PatchStatus frameworks").count();
        assert_eq!(patches, 1, "the condition is written once");

        patch(&good);
        assert!(ended(&cluster, "job").await);
        let came_to = outcome(&user, "job");
        assert!(came_to.starts_with("the Framework: Completed with -101"), "{came_to}");
    });
}
