//! The two GETs, and the meaning of their replies.
//!
//! Must never send another request: the account needs only the verb `get` on this one Framework.

use std::time::Duration;

use http::header::{ACCEPT, RETRY_AFTER};
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt, Limited};
use kube::client::Body;
use serde::Deserialize;

use framework_access::causes;
use framework_api::name::GROUP;

use crate::barrier::{Query, Reply};
use crate::table;

/// No object that fits into etcd is larger.
const LARGEST: usize = 64 << 20;
/// How long a table may take: long enough for a busy server, because an abandoned query costs it as much as
/// an answered one.
const TABLE_TIMEOUT: Duration = Duration::from_secs(20);
/// How long the whole object may take: many barriers ask for it at once.
const OBJECT_TIMEOUT: Duration = Duration::from_secs(60);

/// Reads one Framework.
pub struct Reader {
    client: kube::Client,
    path: String,
}

/// The body of a refusal.
#[derive(Deserialize)]
struct Refusal {
    message: String,
}

impl Reader {
    /// A reader of this Framework.
    pub fn new(client: kube::Client, namespace: &str, name: &str) -> Self {
        let path = format!("/apis/{GROUP}/v1/namespaces/{namespace}/frameworks/{name}");
        Reader { client, path }
    }

    /// Sends a query for an object that is not older than `version`; without one, for the object of the
    /// store.
    pub async fn send(&self, query: Query, version: Option<&str>) -> Reply {
        let limit = if query == Query::Table { TABLE_TIMEOUT } else { OBJECT_TIMEOUT };
        match tokio::time::timeout(limit, self.try_send(query, version, limit)).await {
            Ok(Ok(reply)) => reply,
            Ok(Err(problem)) => Reply::Failed { problem, retry_after: None },
            Err(_) => {
                let problem = format!("the API server did not answer within {} s", limit.as_secs());
                Reply::Failed { problem, retry_after: None }
            }
        }
    }

    async fn try_send(&self, query: Query, version: Option<&str>, limit: Duration) -> Result<Reply, String> {
        let mut uri = format!("{}?timeout={}s", self.path, limit.as_secs());
        if let Some(version) = version {
            uri.push_str("&resourceVersion=");
            uri.push_str(version);
        }
        let mut accept = "application/json";
        if query == Query::Table {
            uri.push_str("&includeObject=None");
            accept = table::ACCEPT;
        }
        let request = Request::get(uri).header(ACCEPT, accept).body(Body::empty());
        let request = request.map_err(|error| format!("cannot ask the API server: {error}"))?;
        let reply = self.client.send(request).await;
        let reply = reply.map_err(|error| format!("the API server cannot be reached: {}", causes(&error)))?;
        let (head, body) = reply.into_parts();
        let body = Limited::new(body, LARGEST).collect().await;
        let body = body.map_err(|error| format!("the API server's answer broke off: {}", causes(&*error)))?;
        Ok(classify(head.status, &head.headers, body.to_bytes().to_vec()))
    }
}

fn classify(code: StatusCode, headers: &HeaderMap, body: Vec<u8>) -> Reply {
    if code.is_success() {
        return Reply::Body(body);
    }
    let message = match serde_json::from_slice::<Refusal>(&body) {
        Ok(refusal) => refusal.message,
        Err(_) => String::from_utf8_lossy(&body).chars().take(200).collect(),
    };
    match code {
        StatusCode::NOT_FOUND => Reply::NotFound(message),
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Reply::Denied { code: code.as_u16(), message },
        _ => Reply::Failed {
            problem: format!("the API server answers with {}: {}", code.as_u16(), message.trim()),
            retry_after: retry_after(headers),
        },
    }
}

/// The header in seconds, as the API server sends it; the other form, a date, comes from proxies.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(code: u16, headers: &[(&'static str, &'static str)], body: &str) -> Reply {
        let headers = headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
        classify(StatusCode::from_u16(code).unwrap(), &headers.collect(), body.as_bytes().to_vec())
    }

    #[test]
    fn refusals_are_distinguished() {
        let said = r#"{"kind":"Status","message":"said","code":0}"#;
        assert!(matches!(reply(200, &[], "x"), Reply::Body(body) if body == b"x"));
        assert!(matches!(reply(404, &[], said), Reply::NotFound(message) if message == "said"));
        for denied in [401, 403] {
            assert!(matches!(reply(denied, &[], said), Reply::Denied { code, .. } if code == denied));
        }
    }

    #[test]
    fn retry_after_of_a_busy_server_is_read() {
        let wait = |headers| match reply(429, headers, "slow down\n") {
            Reply::Failed { problem, retry_after } => (problem, retry_after),
            other => panic!("{other:?}"),
        };
        let problem = "the API server answers with 429: slow down".to_owned();
        assert_eq!(wait(&[("retry-after", "7")]), (problem.clone(), Some(Duration::from_secs(7))));
        assert_eq!(wait(&[("retry-after", "Wed, 21 Oct 2026 07:28:00 GMT")]), (problem.clone(), None));
        assert_eq!(wait(&[]), (problem, None));
    }
}
