//! The barrier against a real API server: its end, its requests and its files.

mod cluster;

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use cluster::{Job, PATIENCE, Task, at, cluster, status};
use framework_api::codec::{Effort, encode};
use framework_api::config::CompressionCodec;
use framework_testcluster::audit::Record;
use serde_json::Value;
use tempfile::TempDir;

/// The environment and the output of a shell after it has sourced the injector.
fn sourced(shell: &str, place: &TempDir, ports: &str) -> (Vec<String>, String) {
    let line =
        format!("{ports} . ./injector.sh && echo --- && env | grep -E '^FB_.*_(IPS|ADDRESSES)=' | sort");
    let output = Command::new(shell).args(["-euc", &line]).current_dir(place.path()).output();
    let output = output.unwrap_or_else(|error| panic!("apt-get install {shell}: {error}"));
    assert!(output.status.success(), "{shell}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("text");
    let (echoed, environment) = text.split_once("---\n").expect("both parts");
    (environment.lines().map(str::to_owned).collect(), echoed.to_owned())
}

fn framework(place: &TempDir) -> Value {
    let text = std::fs::read(place.path().join("framework.json")).expect("framework.json is there");
    serde_json::from_slice(&text).expect("framework.json is JSON")
}

#[tokio::test]
async fn it_passes_once_each_task_has_an_ip_and_one_that_leaves_is_replaced() {
    let job = Job::create("replaced");
    let (here, mount) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let places = [here.path().to_owned(), mount.path().join("frameworkbarrier")];
    let settings = job.settings();
    let passed = tokio::spawn({
        let places = places.clone();
        async move { Job::wait(&settings, &places).await }
    });
    job.looked(1).await;
    job.status(&[at("")], &[at("10.0.0.2"), at("")]);
    job.looked(2).await;
    // Every Task has an IP, but one of them is to be another.
    job.status(&[at("10.0.0.1")], &[at("10.0.0.2"), Task("10.0.0.3", true)]);
    job.looked(4).await;
    assert!(!passed.is_finished() && !here.path().join("injector.sh").exists());
    job.status(&[at("10.0.0.1")], &[at("10.0.0.2"), at("10.0.0.4")]);
    passed.await.unwrap().unwrap();

    let ports = "FB_SERVER_PORT=4001 FB_WORKER_PORT=5001";
    let expected = [
        "FB_SERVER_ADDRESSES=10.0.0.1:4001",
        "FB_SERVER_IPS=10.0.0.1",
        "FB_WORKER_ADDRESSES=10.0.0.2:5001,10.0.0.4:5001",
        "FB_WORKER_IPS=10.0.0.2,10.0.0.4",
    ];
    for shell in ["sh", "bash"] {
        let (environment, echoed) = sourced(shell, &here, ports);
        assert_eq!(environment, expected, "{shell}");
        let order = ["SERVER_IPS", "WORKER_IPS", "SERVER_ADDRESSES", "WORKER_ADDRESSES"];
        let places: Vec<_> = order.iter().map(|name| echoed.find(&format!("FB_{name}=")).unwrap()).collect();
        assert!(places.is_sorted(), "{echoed}");
    }
    assert_eq!(framework(&here)["status"]["attemptStatus"]["taskRoleStatuses"][0]["name"], "server");
    for name in ["injector.sh", "framework.json"] {
        let read = |place: &PathBuf| std::fs::read(place.join(name)).unwrap();
        assert_eq!(read(&places[0]), read(&places[1]), "{name}");
    }
}

#[tokio::test]
async fn a_compressed_status_is_read_and_left_in_the_open() {
    let job = Job::create("compressed");
    for codec in [CompressionCodec::Zstd, CompressionCodec::Gzip] {
        let mut status = status(&[at("10.0.0.1")], &[at("10.0.0.2"), at("fd00::3")]);
        let attempt = &mut status["attemptStatus"];
        let raw = attempt["taskRoleStatuses"].take();
        attempt["taskRoleStatusesCompressed"] =
            encode(raw.to_string().as_bytes(), codec, Effort::Fast).unwrap().into();
        job.write(&status);
        let place = tempfile::tempdir().unwrap();
        Job::wait(&job.settings(), &[place.path().to_owned()]).await.unwrap();
        let attempt = &framework(&place)["status"]["attemptStatus"];
        assert_eq!(attempt["taskRoleStatuses"], raw);
        assert!(attempt.get("taskRoleStatusesCompressed").is_none());
        let (environment, _) = sourced("sh", &place, "FB_SERVER_PORT=1 FB_WORKER_PORT=2");
        assert_eq!(environment[2], "FB_WORKER_ADDRESSES=10.0.0.2:2,[fd00::3]:2");
    }
}

#[tokio::test]
async fn each_barrier_asks_for_the_whole_object_once_however_many_there_are() {
    for (namespace, barriers) in [("few", 4), ("many", 16)] {
        let job = Job::create(namespace);
        job.status(&[at("")], &[at("10.0.0.2"), at("")]);
        let settings = job.settings();
        let all: Vec<_> = (0..barriers)
            .map(|_| {
                let settings = settings.clone();
                tokio::spawn(async move {
                    let place = tempfile::tempdir().unwrap();
                    Job::wait(&settings, &[place.path().to_owned()]).await
                })
            })
            .collect();
        job.looked(3 * barriers).await;
        // Two changes that are not all yet.
        job.status(&[at("10.0.0.1")], &[at("10.0.0.2"), at("")]);
        job.looked(5 * barriers).await;
        job.status(&[at("10.0.0.1")], &[at("10.0.0.2"), at("10.0.0.3")]);
        for one in all {
            one.await.unwrap().unwrap();
        }
        let (tables, objects) = job.gets();
        assert_eq!(objects.len(), barriers, "{objects:#?}");
        let from_memory = |record: &&Record| record.request_uri.contains("resourceVersion=");
        assert_eq!(tables.iter().filter(from_memory).count(), tables.len());
        assert_eq!(objects.iter().filter(from_memory).count(), 0, "what lets it pass comes from the store");
    }
}

#[tokio::test]
async fn without_our_counts_the_whole_object_is_read_once_a_version() {
    let job = Job::create("uncounted");
    let settings = job.settings();
    let passed = tokio::spawn(async move {
        let place = tempfile::tempdir().unwrap();
        Job::wait(&settings, &[place.path().to_owned()]).await
    });
    job.looked(3).await;
    job.write(&status(&[at("10.0.0.1")], &[at("10.0.0.2"), at("10.0.0.3")]));
    passed.await.unwrap().unwrap();
    assert_eq!(job.gets().1.len(), 2);
}

#[tokio::test]
async fn a_time_out_names_the_missing_tasks() {
    let job = Job::create("timeout");
    job.write(&status(&[at("10.0.0.1")], &[at("10.0.0.2"), at("")]));
    let mut settings = job.settings();
    settings.timeout = Duration::from_secs(2);
    let error = Job::wait(&settings, &[]).await.unwrap_err();
    assert_eq!(error.exit_code(), 201);
    assert_eq!(error.to_string(), "gave up after 2 s: 1 of 3 Tasks have no IP yet: train-worker-1");
}

#[tokio::test]
async fn an_api_server_that_is_not_there_is_no_time_out_of_waiting() {
    let mut settings = Job::create("unreachable").settings();
    settings.timeout = Duration::from_secs(2);
    settings.directions.address = Some("http://127.0.0.1:1".to_owned());
    let error = Job::wait(&settings, &[]).await.unwrap_err();
    assert_eq!(error.exit_code(), 1);
    let words = "gave up after 2 s, as the Framework could not be read: the API server cannot be reached: ";
    assert!(error.to_string().starts_with(words), "{error}");
    assert!(cluster().check().is_ok() && PATIENCE > settings.timeout);
}
