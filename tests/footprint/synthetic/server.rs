//! The synthetic cluster's API server over HTTP, for a controller in another process. It answers the requests
//! of the start, LISTs and status writes. Watches are silent, no other kind is served, and any other request
//! is refused and counted.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use framework_api::name;
use futures::stream::{self, Pending};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Either, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use super::{AT, SyntheticCluster, asked};

type Body = Either<Full<Bytes>, StreamBody<Pending<Result<Frame<Bytes>, Infallible>>>>;

/// The server; it ends with this value.
pub struct Server {
    pub url: String,
    tally: Arc<Tally>,
    _runtime: Runtime,
}

#[derive(Debug, Default)]
struct Tally {
    writes: AtomicUsize,
    others: AtomicUsize,
}

impl Server {
    pub fn start(synthetic: &SyntheticCluster) -> Self {
        let runtime = Runtime::new().expect("a runtime starts");
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("a port is free");
        let url = format!("http://{}", listener.local_addr().expect("it has an address"));
        let tally = Arc::default();
        runtime.spawn(serve(listener, synthetic.clone(), Arc::clone(&tally)));
        Server { url, tally, _runtime: runtime }
    }

    /// Status writes so far.
    pub fn writes(&self) -> usize {
        self.tally.writes.load(Ordering::SeqCst)
    }

    /// Requests so far that a controller has no reason for.
    pub fn others(&self) -> usize {
        self.tally.others.load(Ordering::SeqCst)
    }
}

async fn serve(listener: TcpListener, synthetic: SyntheticCluster, tally: Arc<Tally>) {
    while let Ok((stream, _)) = listener.accept().await {
        let (synthetic, tally) = (synthetic.clone(), Arc::clone(&tally));
        let answering = service_fn(move |request| answer(synthetic.clone(), Arc::clone(&tally), request));
        tokio::spawn(
            hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), answering),
        );
    }
}

async fn answer(
    synthetic: SyntheticCluster,
    tally: Arc<Tally>,
    request: Request<Incoming>,
) -> Result<Response<Body>, hyper::Error> {
    let (head, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let (path, mut code) = (head.uri.path(), StatusCode::OK);
    if head.method == Method::GET
        && let Some((kind, query)) = asked(&head.uri)
    {
        return Ok(Response::new(if query.contains_key("watch") {
            Either::Right(StreamBody::new(stream::pending()))
        } else {
            Either::Left(Full::from(synthetic.page(kind, &query)))
        }));
    }
    let reply = if path == "/version" {
        json!({"major": "1", "minor": "36"})
    } else if path.ends_with("/selfsubjectaccessreviews") {
        json!({"status": {"allowed": true}})
    } else if path.strip_prefix("/apis/") == Some(name::API_VERSION) {
        json!({"resources": [{"name": "frameworks"}, {"name": "frameworks/status"}]})
    } else if path.ends_with("/status") && head.method == Method::PUT {
        tally.writes.fetch_add(1, Ordering::SeqCst);
        written(&body)
    } else if path.ends_with("/events") {
        json!({})
    } else if path.ends_with("/leases") {
        json!({"items": []})
    } else if is_discovery(path) {
        code = StatusCode::NOT_FOUND;
        json!({"kind": "Status", "code": 404, "message": "the cluster has no other kind of jobs"})
    } else {
        tally.others.fetch_add(1, Ordering::SeqCst);
        code = StatusCode::INTERNAL_SERVER_ERROR;
        json!({"kind": "Status", "message": "not served"})
    };
    let mut response = Response::new(Either::Left(Full::from(reply.to_string())));
    *response.status_mut() = code;
    Ok(response)
}

/// Whether the resources of a group and version are asked for: `/apis/{group}/{version}`.
fn is_discovery(path: &str) -> bool {
    path.strip_prefix("/apis/").is_some_and(|rest| rest.matches('/').count() == 1)
}

/// The metadata after a status write.
fn written(body: &[u8]) -> Value {
    let sent: Value = serde_json::from_slice(body).expect("a status");
    let mut metadata = sent["metadata"].clone();
    let version: u64 = metadata["resourceVersion"].as_str().and_then(|text| text.parse().ok()).expect("one");
    metadata["resourceVersion"] = json!((version + 1).to_string());
    metadata["creationTimestamp"] = json!(AT);
    metadata["generation"] = json!(1);
    json!({"metadata": metadata, "spec": {}})
}
