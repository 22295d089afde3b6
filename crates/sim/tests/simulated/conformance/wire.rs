//! Plain requests and watches, the same way to both servers.

use futures::{AsyncBufReadExt, TryStreamExt};
use http::Request;
use kube::client::Body;
use serde_json::Value;

/// The content type of everything but patches.
pub const JSON: &str = "application/json";
/// The content type of a merge patch.
pub const MERGE: &str = "application/merge-patch+json";

/// Sends a request, and reads its answer.
pub async fn send(
    client: &kube::Client,
    method: &str,
    path: &str,
    content_type: &str,
    body: Option<&Value>,
) -> (u16, Value) {
    let bytes = body.map_or_else(Vec::new, |body| body.to_string().into_bytes());
    let request = Request::builder().method(method).uri(path).header("content-type", content_type);
    let response = client.send(request.body(Body::from(bytes)).unwrap()).await.unwrap();
    let code = response.status().as_u16();
    let bytes = response.into_body().collect_bytes().await.unwrap();
    (code, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
}

/// The events of a watch up to one that `ends` it, or up to the end of the stream.
pub async fn watch(client: &kube::Client, path: &str, ends: impl Fn(&Value) -> bool) -> Vec<Value> {
    watch_and(client, path, ends, async {}).await
}

/// As [`watch`], with something done once the watch has begun.
pub async fn watch_and(
    client: &kube::Client,
    path: &str,
    ends: impl Fn(&Value) -> bool,
    begun: impl Future<Output = ()>,
) -> Vec<Value> {
    let request = Request::get(path).body(Vec::new()).unwrap();
    // The response's head says that the watch has begun.
    let mut lines = client.request_stream(request).await.unwrap().lines();
    begun.await;
    let mut events = Vec::new();
    while let Some(line) = lines.try_next().await.unwrap() {
        let event: Value = serde_json::from_str(&line).unwrap();
        if ends(&event) {
            break;
        }
        events.push(event);
    }
    events
}
