//! The two GETs, and what their replies mean.
//!
//! They are all that is ever sent: the account needs the verb `get` on this one Framework.

use std::time::Duration;

use http::header::{ACCEPT, RETRY_AFTER};
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt, Limited};
use kube::client::Body;
use serde::Deserialize;

use framework_api::name::GROUP;

use crate::barrier::{Answer, Question};
use crate::glimpse;

/// No object that fits into etcd is larger.
const LARGEST: usize = 64 << 20;
/// How long a glimpse may take: long enough for a busy server, as a question that was given up costs it as
/// much as one that was answered.
const GLIMPSE_TIMEOUT: Duration = Duration::from_secs(20);
/// How long the whole object may take: many ask for it at once.
const WHOLE_TIMEOUT: Duration = Duration::from_secs(60);

/// Asks for one Framework.
pub struct Asker {
    client: kube::Client,
    path: String,
}

/// What the API server says of a refusal.
#[derive(Deserialize)]
struct Status {
    message: String,
}

impl Asker {
    /// Asks for this one.
    pub fn new(client: kube::Client, namespace: &str, name: &str) -> Self {
        let path = format!("/apis/{GROUP}/v1/namespaces/{namespace}/frameworks/{name}");
        Asker { client, path }
    }

    /// Asks, for nothing older than `version`; without one, for what is in the store.
    pub async fn ask(&self, question: Question, version: Option<&str>) -> Answer {
        let limit = if question == Question::Glimpse { GLIMPSE_TIMEOUT } else { WHOLE_TIMEOUT };
        match tokio::time::timeout(limit, self.send(question, version, limit)).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(problem)) => Answer::Failed { problem, retry_after: None },
            Err(_) => {
                let problem = format!("the API server did not answer within {} s", limit.as_secs());
                Answer::Failed { problem, retry_after: None }
            }
        }
    }

    async fn send(
        &self,
        question: Question,
        version: Option<&str>,
        limit: Duration,
    ) -> Result<Answer, String> {
        let mut uri = format!("{}?timeout={}s", self.path, limit.as_secs());
        if let Some(version) = version {
            uri.push_str("&resourceVersion=");
            uri.push_str(version);
        }
        let mut accept = "application/json";
        if question == Question::Glimpse {
            uri.push_str("&includeObject=None");
            accept = glimpse::ACCEPT;
        }
        let request = Request::get(uri).header(ACCEPT, accept).body(Body::empty());
        let request = request.map_err(|error| format!("cannot ask the API server: {error}"))?;
        let reply = self.client.send(request).await;
        let reply = reply.map_err(|error| format!("the API server cannot be reached: {}", causes(&error)))?;
        let (head, body) = reply.into_parts();
        let body = Limited::new(body, LARGEST).collect().await;
        let body = body.map_err(|error| format!("the API server's answer broke off: {}", causes(&*error)))?;
        Ok(understand(head.status, &head.headers, body.to_bytes().to_vec()))
    }
}

fn understand(code: StatusCode, headers: &HeaderMap, body: Vec<u8>) -> Answer {
    if code.is_success() {
        return Answer::Body(body);
    }
    let message = match serde_json::from_slice::<Status>(&body) {
        Ok(status) => status.message,
        Err(_) => String::from_utf8_lossy(&body).chars().take(200).collect(),
    };
    match code {
        StatusCode::NOT_FOUND => Answer::NotFound(message),
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Answer::Denied { code: code.as_u16(), message },
        _ => Answer::Failed {
            problem: format!("the API server answers with {}: {}", code.as_u16(), message.trim()),
            retry_after: retry_after(headers),
        },
    }
}

/// In seconds, as the API server gives it; the other form, a date, is a proxy's.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok().map(Duration::from_secs)
}

/// An error with its causes, unless it says them itself.
pub fn causes(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        let more = next.to_string();
        if !words.contains(&more) {
            words = format!("{words}: {more}");
        }
        cause = next.source();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(code: u16, headers: &[(&'static str, &'static str)], body: &str) -> Answer {
        let headers = headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
        understand(StatusCode::from_u16(code).unwrap(), &headers.collect(), body.as_bytes().to_vec())
    }

    #[test]
    fn refusals_are_told_apart() {
        let said = r#"{"kind":"Status","message":"said","code":0}"#;
        assert!(matches!(answer(200, &[], "x"), Answer::Body(body) if body == b"x"));
        assert!(matches!(answer(404, &[], said), Answer::NotFound(message) if message == "said"));
        for denied in [401, 403] {
            assert!(matches!(answer(denied, &[], said), Answer::Denied { code, .. } if code == denied));
        }
    }

    #[test]
    fn a_busy_server_says_how_long_it_wants_to_be_left_alone() {
        let wait = |headers| match answer(429, headers, "slow down\n") {
            Answer::Failed { problem, retry_after } => (problem, retry_after),
            other => panic!("{other:?}"),
        };
        let problem = "the API server answers with 429: slow down".to_owned();
        assert_eq!(wait(&[("retry-after", "7")]), (problem.clone(), Some(Duration::from_secs(7))));
        assert_eq!(wait(&[("retry-after", "Wed, 21 Oct 2026 07:28:00 GMT")]), (problem.clone(), None));
        assert_eq!(wait(&[]), (problem, None));
    }
}
