//! Decisions of the gate, with an API server that knows one token.

use std::sync::Arc;

use axum::http::HeaderValue;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use kube::client::Body;

use super::*;

/// Answers reviews: the token `good` is user `reader`, who may read metrics and the namespace `team`.
#[derive(Clone, Default)]
struct Fake(Arc<Mutex<Vec<Value>>>);

impl Fake {
    fn gate(&self) -> Gate {
        let fake = self.clone();
        let serve = move |request: http::Request<Body>| {
            let fake = fake.clone();
            async move {
                let body = request.into_body().collect().await?.to_bytes();
                let question: Value = serde_json::from_slice(&body)?;
                let answer = answer(&question);
                fake.0.lock().unwrap().push(question);
                let code = if answer["kind"] == "Status" { 403 } else { 201 };
                let reply = http::Response::builder().status(code);
                Ok::<_, tower::BoxError>(reply.body(Full::new(Bytes::from(answer.to_string())))?)
            }
        };
        let client = kube::Client::new(tower::service_fn(serve), "default");
        Gate::new(client, Clock::simulated(jiff::Timestamp::UNIX_EPOCH))
    }

    fn asked(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

fn answer(question: &Value) -> Value {
    let spec = &question["spec"];
    match question["kind"].as_str() {
        Some("TokenReview") if spec["token"] == "broken" => json!({
            "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 403, "reason": "Forbidden",
            "message": "no right to create tokenreviews",
        }),
        Some("TokenReview") => json!({"status": {
            "authenticated": spec["token"] == "good",
            "user": {"username": "reader", "uid": "7", "groups": ["g"], "extra": {"k": ["v"]}},
        }}),
        _ => json!({"status": {"allowed":
            spec["nonResourceAttributes"]["path"] == "/metrics"
                || spec["resourceAttributes"]["namespace"] == "team"
        }}),
    }
}

fn with(authorization: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(header::AUTHORIZATION, HeaderValue::from_str(authorization).unwrap());
    headers
}

fn position(namespace: &str) -> Wanted {
    Wanted::Position(Key::new(namespace, "framework-a"))
}

#[tokio::test(start_paused = true)]
async fn a_request_without_a_sound_token_is_refused_and_asks_nobody() {
    let fake = Fake::default();
    let gate = fake.gate();
    let refused = Err(AccessDenial::Unauthenticated);
    assert_eq!(gate.check(&HeaderMap::new(), &Wanted::Metrics).await, refused);
    let long = format!("Bearer {}", "x".repeat(TOKEN_BYTES + 1));
    for header in ["good", "Basic good", "Bearer ", long.as_str()] {
        assert_eq!(gate.check(&with(header), &Wanted::Metrics).await, refused, "{header}");
    }
    assert_eq!(fake.asked(), 0);
    assert_eq!(gate.check(&with("Bearer bad"), &Wanted::Metrics).await, refused);
    assert_eq!(fake.asked(), 1, "an unknown token has no rights to ask for");
}

#[tokio::test(start_paused = true)]
async fn the_api_server_decides_by_user_and_namespace() {
    let fake = Fake::default();
    let gate = fake.gate();
    assert_eq!(gate.check(&with("bearer good"), &Wanted::Metrics).await, Ok(()));
    assert_eq!(gate.check(&with("Bearer good"), &position("team")).await, Ok(()));
    let words = "user \"reader\" may not get queueunits in the namespace other";
    let refused = Err(AccessDenial::Forbidden(words.to_owned()));
    assert_eq!(gate.check(&with("Bearer good"), &position("other")).await, refused);
    let asked = fake.0.lock().unwrap()[3]["spec"].clone();
    let expected = json!({
        "user": "reader", "uid": "7", "groups": ["g"], "extra": {"k": ["v"]},
        "resourceAttributes": {
            "namespace": "team", "name": "framework-a", "verb": "get",
            "group": "queue.k8s.io", "resource": "queueunits",
        },
    });
    assert_eq!(asked, expected);
}

#[tokio::test(start_paused = true)]
async fn a_decision_is_kept_for_a_short_time_and_a_failure_is_not() {
    let fake = Fake::default();
    let gate = fake.gate();
    for _ in 0..100 {
        gate.check(&with("Bearer good"), &Wanted::Metrics).await.unwrap();
        gate.check(&with("Bearer bad"), &Wanted::Metrics).await.unwrap_err();
    }
    assert_eq!(fake.asked(), 3);
    tokio::time::sleep(REFUSED).await;
    gate.check(&with("Bearer good"), &Wanted::Metrics).await.unwrap();
    gate.check(&with("Bearer bad"), &Wanted::Metrics).await.unwrap_err();
    assert_eq!(fake.asked(), 4);
    tokio::time::sleep(ALLOWED).await;
    gate.check(&with("Bearer good"), &Wanted::Metrics).await.unwrap();
    assert_eq!(fake.asked(), 6);
    for _ in 0..2 {
        let refusal = gate.check(&with("Bearer broken"), &Wanted::Metrics).await.unwrap_err();
        let AccessDenial::Unavailable(words) = refusal else { panic!("{refusal:?}") };
        assert!(words.contains("no right to create tokenreviews"), "{words}");
    }
    assert_eq!(fake.asked(), 8);
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_tokens_takes_bounded_memory_and_few_reviews() {
    let fake = Fake::default();
    let gate = fake.gate();
    gate.check(&with("Bearer good"), &Wanted::Metrics).await.unwrap();
    // Longer than a request stays allowed.
    for second in 0..90 {
        for token in 0..100 {
            let _ = gate.check(&with(&format!("Bearer {second}-{token}")), &Wanted::Metrics).await;
        }
        gate.check(&with("Bearer good"), &Wanted::Metrics).await.expect("it was allowed before the flood");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert!(fake.asked() <= 90 * REVIEWS as usize + 4, "{}", fake.asked());
    assert!(gate.memory().decisions.len() <= DECISIONS);
    let mut memory = Memory::default();
    for number in 0..DECISIONS * 2 {
        let question = (number.to_string(), Wanted::Metrics);
        memory.keep(question, Err(AccessDenial::Unauthenticated), Duration::ZERO, REFUSED);
    }
    assert_eq!(memory.decisions.len(), DECISIONS);
}

#[tokio::test(start_paused = true)]
async fn readers_that_were_allowed_share_the_reviews_of_the_others_too() {
    let fake = Fake::default();
    let gate = fake.gate();
    let unit = |number| Wanted::Position(Key::new("team", &format!("unit-{number}")));
    let all: Vec<Wanted> = (0..RENEWALS + REVIEWS).map(unit).collect();
    for wanted in &all {
        gate.check(&with("Bearer good"), wanted).await.unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    tokio::time::sleep(ALLOWED).await;
    for wanted in &all {
        assert_eq!(gate.check(&with("Bearer good"), wanted).await, Ok(()), "{wanted:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn positions_without_number_push_no_scraper_out() {
    let gate = Fake::default().gate();
    let unit = |second, number| Wanted::Position(Key::new("team", &format!("{second}-{number}")));
    gate.check(&with("Bearer good"), &Wanted::Metrics).await.unwrap();
    for second in 0..2 * ALLOWED.as_secs() {
        for number in 0..100 {
            let _ = gate.check(&with("Bearer good"), &unit(second, number)).await;
        }
        assert_eq!(gate.check(&with("Bearer good"), &Wanted::Metrics).await, Ok(()), "after {second} s");
        assert!(gate.memory().decisions.len() <= DECISIONS);
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn positions_that_are_asked_for_again_leave_a_scraper_its_reviews() {
    let gate = Fake::default().gate();
    let unit = |number| Wanted::Position(Key::new("team", &format!("unit-{number}")));
    gate.check(&with("Bearer good"), &Wanted::Metrics).await.unwrap();
    for number in 0..100 {
        gate.check(&with("Bearer good"), &unit(number)).await.unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    tokio::time::sleep(ALLOWED).await;
    let mut allowed = 0;
    for number in 0..100 {
        allowed += u32::from(gate.check(&with("Bearer good"), &unit(number)).await.is_ok());
    }
    assert_eq!(allowed, RENEWALS + REVIEWS, "all reviews of that second are used up");
    assert_eq!(gate.check(&with("Bearer good"), &Wanted::Metrics).await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn an_open_gate_asks_nobody() {
    let gate = Gate::open(Clock::simulated(jiff::Timestamp::UNIX_EPOCH));
    assert_eq!(gate.check(&HeaderMap::new(), &position("other")).await, Ok(()));
}
