//! The HTTP endpoints. Probes have a port of their own: `/healthz`, `/livez`, `/readyz`. The other port has
//! `/metrics` for Prometheus, `/debug/shards`, which shows the division of the slots, and
//! `/queueunits/{namespace}/{name}`, which gives the position of a unit. Its readers are those that the
//! [`Gate`] lets in.
//!
//! They only read: no endpoint changes the behaviour of the controller.

use std::sync::Arc;

use axum::Router;
use axum::extract::Path;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use framework_message::Key;

use crate::access_review::{Gate, Wanted};
use crate::health::Health;
use crate::metrics::Metrics;
use crate::position_query::PositionClient;
use crate::shards_query::ShardsClient;

/// Probes, open to everybody: they say nothing about any Framework.
pub fn probes(health: Arc<Health>) -> Router {
    let alive = {
        let health = Arc::clone(&health);
        move || async move { probe(health.not_alive()) }
    };
    let ready = move || async move { probe(health.not_ready()) };
    Router::new()
        .route("/healthz", get(alive.clone()))
        .route("/livez", get(alive))
        .route("/readyz", get(ready))
}

/// Metrics, the division of the slots, and positions, which name Queues and namespaces.
pub fn metrics(
    gate: Arc<Gate>,
    health: Arc<Health>,
    metrics: Arc<Metrics>,
    positions: PositionClient,
    shards: ShardsClient,
) -> Router {
    let read_metrics = {
        let gate = Arc::clone(&gate);
        move |headers: HeaderMap| async move {
            gate.check(&headers, &Wanted::Metrics).await.map(|()| {
                let content_type = "text/plain; version=0.0.4; charset=utf-8";
                metrics.set_ready(health.not_ready().is_none());
                ([(header::CONTENT_TYPE, content_type)], metrics.text(health.now()))
            })
        }
    };
    let read_shards = {
        let gate = Arc::clone(&gate);
        move |headers: HeaderMap| async move {
            match gate.check(&headers, &Wanted::Metrics).await {
                Ok(()) => division(shards.clone()).await,
                Err(refusal) => refusal.into_response(),
            }
        }
    };
    let read_position = move |Path((namespace, name)): UnitPath, headers: HeaderMap| async move {
        let unit = Key::new(&namespace, &name);
        match gate.check(&headers, &Wanted::Position(unit.clone())).await {
            Ok(()) => queue_position(positions.clone(), unit).await,
            Err(refusal) => refusal.into_response(),
        }
    };
    Router::new()
        .route("/metrics", get(read_metrics))
        .route("/debug/shards", get(read_shards))
        .route("/queueunits/{namespace}/{name}", get(read_position))
}

/// Namespace and name in a path.
type UnitPath = Path<(String, String)>;

async fn division(shards: ShardsClient) -> Response {
    match shards.ask().await {
        Ok(view) => {
            let text = serde_json::to_string_pretty(&view).unwrap_or_default() + "\n";
            ([(header::CONTENT_TYPE, "application/json")], text).into_response()
        }
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n")).into_response(),
    }
}

async fn queue_position(positions: PositionClient, unit: Key) -> Response {
    let (code, text) = match positions.ask(unit.clone()).await {
        Ok(Some(found)) => (StatusCode::OK, serde_json::to_string(&found).unwrap_or_default()),
        Ok(None) => {
            let Key { namespace, name } = unit;
            (StatusCode::NOT_FOUND, format!("there is no QueueUnit {name} in the namespace {namespace}"))
        }
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, error.to_string()),
    };
    (code, text + "\n").into_response()
}

fn probe(problem: Option<String>) -> impl IntoResponse {
    match problem {
        None => (StatusCode::OK, "ok\n".to_owned()),
        Some(problem) => (StatusCode::SERVICE_UNAVAILABLE, problem + "\n"),
    }
}

#[cfg(test)]
mod tests {
    use axum::body::{Body, to_bytes};
    use axum::http::Request;
    use tokio::net::TcpListener;
    use tower::ServiceExt;

    use framework_api::queue::Phase;
    use framework_queueing::QueuePosition;

    use super::*;
    use crate::clock::Clock;
    use crate::health::Synced;
    use crate::position_query::PositionQuery;

    async fn ask(router: &Router, path: &str) -> (u16, String) {
        let request = Request::get(path).body(Body::empty()).unwrap();
        let reply = router.clone().oneshot(request).await.unwrap();
        let status = reply.status().as_u16();
        let body = to_bytes(reply.into_body(), usize::MAX).await.unwrap();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    /// The endpoints for a gate that lets everybody in.
    fn open(clock: Clock, positions: PositionClient) -> Router {
        open_to_all(clock, Metrics::new(), positions, ShardsClient::new().0)
    }

    fn open_to_all(
        clock: Clock,
        metrics: Arc<Metrics>,
        positions: PositionClient,
        shards: ShardsClient,
    ) -> Router {
        let health = Arc::new(Health::new(clock));
        super::metrics(Arc::new(Gate::open(clock)), health, metrics, positions, shards)
    }

    #[tokio::test]
    async fn each_port_has_its_own_paths_and_a_closed_gate_hides_which_units_exist() {
        let clock = Clock::system();
        let service = tower::service_fn(|_: Request<kube::client::Body>| async {
            Err::<http::Response<Body>, _>(std::io::Error::other("no API server"))
        });
        let gate = Arc::new(Gate::new(kube::Client::new(service, "default"), clock));
        let (positions, _queries) = PositionClient::new();
        let health = Arc::new(Health::new(clock));
        let closed = super::metrics(gate, health, Metrics::new(), positions, ShardsClient::new().0);
        for path in ["/metrics", "/debug/shards", "/queueunits/team/framework-a"] {
            let words = "a bearer token of this cluster is needed\n".to_owned();
            assert_eq!(ask(&closed, path).await, (401, words));
            assert_eq!(ask(&probes(Arc::new(Health::new(clock))), path).await.0, 404);
        }
        for path in ["/healthz", "/livez", "/readyz"] {
            assert_eq!(ask(&closed, path).await.0, 404);
        }
    }

    #[tokio::test]
    async fn readiness_names_the_missing_kinds() {
        let clock = Clock::system();
        let health = Arc::new(Health::new(clock));
        let router = probes(Arc::clone(&health));
        let (gate, positions) = (Arc::new(Gate::open(clock)), PositionClient::new().0);
        let shards = ShardsClient::new().0;
        let metrics = super::metrics(gate, Arc::clone(&health), Metrics::new(), positions, shards);
        let shows = async |value| {
            let (_, text) = ask(&metrics, "/metrics").await;
            assert!(text.contains(&format!("\nframeworkcontroller_ready {value}\n")), "{text}");
        };
        assert_eq!(ask(&router, "/livez").await, (200, "ok\n".to_owned()));
        assert_eq!(ask(&router, "/healthz").await, (200, "ok\n".to_owned()));
        let missing = "not listed yet: frameworks, configmaps, pods\n".to_owned();
        assert_eq!(ask(&router, "/readyz").await, (503, missing));
        shows(0).await;
        for kind in [Synced::Frameworks, Synced::ConfigMaps, Synced::Pods] {
            health.set_synced(kind);
        }
        assert_eq!(ask(&router, "/readyz").await, (200, "ok\n".to_owned()));
        shows(1).await;
    }

    #[tokio::test]
    async fn the_position_of_a_unit_is_json() {
        let clock = Clock::system();
        let (positions, mut queries) = PositionClient::new();
        let router = open(clock, positions);
        let answering = tokio::spawn(async move {
            while let Some(PositionQuery { unit, answer }) = queries.recv().await {
                let found = (unit == Key::new("team", "framework-a")).then(|| QueuePosition {
                    queue: "q".to_owned(),
                    phase: Some(Phase::Enqueued),
                    reason: Some("InsufficientQuota".to_owned()),
                    message: "no room".to_owned(),
                    place: Some(3),
                    before: Some(5),
                    directly_before: None,
                });
                answer.send(found).unwrap();
            }
        });
        let (code, text) = ask(&router, "/queueunits/team/framework-a").await;
        let body: serde_json::Value = serde_json::from_str(&text).unwrap();
        let expected = serde_json::json!({
            "queue": "q", "phase": "Enqueued", "reason": "InsufficientQuota", "message": "no room",
            "place": 3, "before": 5,
        });
        assert_eq!((code, body), (200, expected));
        let missing = "there is no QueueUnit framework-a in the namespace other\n".to_owned();
        assert_eq!(ask(&router, "/queueunits/other/framework-a").await, (404, missing));
        answering.abort();
    }

    #[tokio::test]
    async fn the_division_is_json_and_without_a_member_refused() {
        let (clock, shards) = (Clock::system(), ShardsClient::new());
        let (client, mut queries) = shards;
        let router = open_to_all(clock, Metrics::new(), PositionClient::new().0, client);
        let view = framework_membership::View {
            incarnation: "a/1".to_owned(),
            leader: None,
            is_leader: false,
            stopping: false,
            acts_for_sec: 1.5,
            renewed_sec_ago: None,
            map: None,
            leases: Vec::new(),
            leases_left_out: 0,
            slots: Vec::new(),
        };
        let answering = tokio::spawn(async move {
            let query = queries.recv().await.unwrap();
            query.send(view).unwrap();
        });
        let (code, text) = ask(&router, "/debug/shards").await;
        let shown: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!((code, &shown["incarnation"], &shown["actsForSec"]), (200, &"a/1".into(), &1.5.into()));
        answering.await.unwrap();
        let refused = "this replica shares no slots with others, or too many queries wait\n".to_owned();
        assert_eq!(ask(&router, "/debug/shards").await, (503, refused));
    }

    #[tokio::test]
    async fn a_query_is_refused_without_queues_and_when_too_many_wait() {
        let clock = Clock::system();
        let (positions, mut queries) = PositionClient::new();
        let router = open(clock, positions.clone());
        let refused =
            "queues are not served here, another replica decides in that namespace, or too many queries \
             wait\n"
                .to_owned();
        // Nothing answers, and the queries pile up until one is refused.
        let mut asked = 0;
        while futures::FutureExt::now_or_never(positions.ask(Key::new("team", "a"))).is_none() {
            asked += 1;
            assert!(asked < 1000, "the number of waiting queries has no bound");
        }
        assert!(asked > 10, "{asked}");
        assert_eq!(ask(&router, "/queueunits/team/a").await, (503, refused.clone()));
        queries.close();
        while queries.recv().await.is_some() {}
        assert_eq!(ask(&router, "/queueunits/team/a").await, (503, refused));
    }

    #[tokio::test]
    async fn metrics_are_served_as_text_over_tcp() {
        let metrics = Metrics::new();
        metrics.watch_started("pods");
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let clock = Clock::system();
        let router = open_to_all(clock, metrics, PositionClient::new().0, ShardsClient::new().0);
        let serving = tokio::spawn(crate::listener::serve(listener, router));
        let client =
            crate::client::connect(kube::Config::new(url.parse().unwrap()), "test", &Metrics::new()).unwrap();
        let request = http::Request::get("/metrics").body(kube::client::Body::empty()).unwrap();
        let reply = client.send(request).await.unwrap();
        let body = reply.into_body().collect_bytes().await.unwrap();
        let text = String::from_utf8(body.to_vec()).unwrap();
        assert!(text.contains(r#"watch_starts_total{resource="pods"} 1"#), "{text}");
        serving.abort();
    }
}
