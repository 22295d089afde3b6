//! Whole waits against a scripted API server, on a paused clock.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Request, Response};
use kube::client::Body;
use serde_json::{Value, json};

use super::*;

/// The requests to the API server, and their times.
type Asked = Arc<Mutex<Vec<(Duration, String)>>>;

/// A reply: its code, its headers and its body.
type Reply = (u16, &'static [(&'static str, &'static str)], Value);

/// A client whose requests are answered in turn; the last answer is given again and again.
fn server(replies: Vec<Reply>) -> (kube::Client, Asked) {
    let (asked, begun) = (Asked::default(), Instant::now());
    let (replies, log) = (Arc::new(Mutex::new(VecDeque::from(replies))), asked.clone());
    let service = tower::service_fn(move |request: Request<Body>| {
        log.lock().unwrap().push((begun.elapsed(), request.uri().to_string()));
        let mut replies = replies.lock().unwrap();
        let next = if replies.len() > 1 { replies.pop_front() } else { replies.front().cloned() };
        let (code, headers, body) = next.expect("there is a reply");
        let mut reply = Response::builder().status(code);
        for (name, value) in headers {
            reply = reply.header(*name, *value);
        }
        let reply = reply.body(Body::from(body.to_string().into_bytes())).unwrap();
        std::future::ready(Ok::<_, Infallible>(reply))
    });
    (kube::Client::new(service, "default"), asked)
}

fn settings() -> Settings {
    let variables = [("FC_FRAMEWORK_NAMESPACE", "jobs"), ("FC_FRAMEWORK_NAME", "train")];
    let read = |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into());
    Settings::read(read).unwrap()
}

fn table(version: u32, addressed: u32) -> Reply {
    let columns = json!([{"name": "Tasks"}, {"name": "Addressed"}]);
    let body = json!({
        "metadata": {"resourceVersion": version.to_string()},
        "columnDefinitions": columns, "rows": [{"cells": ["0/1", addressed]}],
    });
    (200, &[], body)
}

fn whole(version: u32) -> Reply {
    let tasks = json!([{"attemptStatus": {"podIP": "10.0.0.1"}}]);
    let body = json!({
        "metadata": {"name": "train", "resourceVersion": version.to_string()},
        "spec": {"taskRoles": [{"name": "a", "taskNumber": 1}]},
        "status": {"attemptStatus": {"taskRoleStatuses": [{"name": "a", "taskStatuses": tasks}]}},
    });
    (200, &[], body)
}

async fn ends(replies: Vec<Reply>) -> (Result<(), Error>, Vec<(Duration, String)>) {
    let (client, asked) = server(replies);
    let ended = run(&settings(), client, fastrand::Rng::with_seed(3), &[]).await;
    let asked = asked.lock().unwrap().clone();
    (ended, asked)
}

#[tokio::test(start_paused = true)]
async fn ten_minutes_of_waiting_are_some_twenty_small_requests() {
    let (ended, asked) = ends(vec![table(1, 0)]).await;
    let error = ended.unwrap_err();
    assert_eq!(
        (error.exit_code(), error.to_string().as_str()),
        (201, "gave up after 600 s: 1 of 1 Tasks have no IP yet")
    );
    assert!((16..=24).contains(&asked.len()), "{asked:#?}");
    assert!(asked.iter().all(|(_, uri)| uri.contains("includeObject=None")), "{asked:#?}");
    assert!(asked.windows(2).all(|two| two[1].0 - two[0].0 <= Duration::from_secs(38)), "{asked:#?}");
    assert!(asked.last().unwrap().0 >= Duration::from_secs(600));
}

#[tokio::test(start_paused = true)]
async fn the_wait_goes_on_after_the_time_that_a_busy_server_asks_for() {
    let busy: Reply = (429, &[("retry-after", "17")], json!({"message": "too many requests"}));
    let (ended, asked) = ends(vec![busy, table(1, 1), whole(1)]).await;
    ended.unwrap();
    let path = "/apis/frameworkcontroller.microsoft.com/v1/namespaces/jobs/frameworks/train";
    let uris: Vec<&str> = asked.iter().map(|(_, uri)| uri.as_str()).collect();
    assert_eq!(
        uris,
        [
            format!("{path}?timeout=20s&resourceVersion=0&includeObject=None"),
            format!("{path}?timeout=20s&resourceVersion=0&includeObject=None"),
            format!("{path}?timeout=60s"),
        ]
    );
    assert!(asked[1].0 >= Duration::from_secs(17), "{asked:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_fails_to_the_end_is_not_a_time_out() {
    let down: Reply = (503, &[], json!("down"));
    let (ended, _) = ends(vec![table(1, 0), down]).await;
    let error = ended.unwrap_err();
    assert_eq!(error.exit_code(), 1);
    assert!(error.to_string().contains("could not be read: the API server answers with 503"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn missing_rights_end_it_within_ten_seconds() {
    for (code, words) in [(403, "may not get frameworks"), (401, "does not accept the credentials")] {
        let denied: Reply = (code, &[], json!({"message": "no"}));
        let (ended, asked) = ends(vec![denied]).await;
        let error = ended.unwrap_err();
        assert_eq!((error.exit_code(), asked.len()), (1, 3));
        assert!(error.to_string().contains(words), "{error}");
        assert!(asked[2].0 < Duration::from_secs(10), "{asked:#?}");
    }
}
