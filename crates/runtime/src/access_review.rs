//! The gate before metrics and positions in queues: the API server decides, by TokenReview and
//! SubjectAccessReview.
//!
//! A request carries a bearer token of the cluster. A bounded number of decisions is kept for a short time,
//! so that most scrapes cost no request. Reviews have a limit per second: a flood of unknown tokens is
//! refused here and hardly reaches the API server. Without an answer of the API server nothing is allowed.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use framework_api::queue;
use framework_message::Key;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::client::REPLY_TIMEOUT;
use crate::clock::Clock;

/// How long an allowed request stays allowed.
const ALLOWED: Duration = Duration::from_secs(60);
/// How long a refused one stays refused.
const REFUSED: Duration = Duration::from_secs(10);
/// Decisions that are kept.
const DECISIONS: usize = 256;
/// The bytes of the longest token that is reviewed.
const TOKEN_BYTES: usize = 8 * 1024;
/// Requests a second that are reviewed.
const REVIEWS: u32 = 20;
/// Reviews a second, beside those, of requests for metrics that were allowed before, and as many of requests
/// for positions. A reader of one namespace may ask for any number of positions, and keeps no scraper out.
const RENEWALS: u32 = 5;
/// How long a request that was allowed counts as one.
const RENEWABLE: Duration = Duration::from_secs(600);

/// The subject of a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Wanted {
    /// `/metrics`.
    Metrics,
    /// The position of a QueueUnit.
    Position(Key),
}

impl Wanted {
    /// The attributes of a SubjectAccessReview.
    fn attributes(&self) -> (&'static str, Value) {
        match self {
            Wanted::Metrics => ("nonResourceAttributes", json!({"path": "/metrics", "verb": "get"})),
            Wanted::Position(unit) => (
                "resourceAttributes",
                json!({
                    "namespace": &*unit.namespace, "name": &*unit.name, "verb": "get",
                    "group": queue::GROUP, "resource": "queueunits",
                }),
            ),
        }
    }

    fn right(&self) -> String {
        match self {
            Wanted::Metrics => "get the nonResourceURL /metrics".to_owned(),
            Wanted::Position(unit) => format!("get queueunits in the namespace {}", unit.namespace),
        }
    }
}

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessDenial {
    /// The request has no bearer token, or one that the API server does not know.
    Unauthenticated,
    /// The user lacks a right.
    Forbidden(String),
    /// There is no decision.
    Unavailable(String),
}

impl IntoResponse for AccessDenial {
    fn into_response(self) -> Response {
        match self {
            AccessDenial::Unauthenticated => {
                let text = "a bearer token of this cluster is needed\n";
                (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")], text).into_response()
            }
            AccessDenial::Forbidden(text) => (StatusCode::FORBIDDEN, text + "\n").into_response(),
            AccessDenial::Unavailable(text) => (StatusCode::SERVICE_UNAVAILABLE, text + "\n").into_response(),
        }
    }
}

type Decision = Result<(), AccessDenial>;

/// Asks the API server who may read.
pub struct Gate {
    client: Option<kube::Client>,
    clock: Clock,
    memory: Mutex<Memory>,
}

#[derive(Default)]
struct Memory {
    /// The decisions, and when each ends.
    decisions: HashMap<(String, Wanted), (Decision, Duration)>,
    /// The second in which reviews are counted.
    second: u64,
    /// The reviews of that second: of requests that were not allowed before, and of the others, for metrics
    /// and for positions.
    reviews: [u32; 3],
}

impl Gate {
    /// A gate that asks the API server of this client.
    pub fn new(client: kube::Client, clock: Clock) -> Self {
        Gate { client: Some(client), clock, memory: Mutex::default() }
    }

    /// A gate that lets everybody read.
    pub fn open(clock: Clock) -> Self {
        Gate { client: None, clock, memory: Mutex::default() }
    }

    /// Whether a request with these headers may read it.
    pub async fn check(&self, headers: &HeaderMap, wanted: &Wanted) -> Decision {
        let Some(client) = &self.client else { return Ok(()) };
        let token = bearer(headers).ok_or(AccessDenial::Unauthenticated)?;
        let question = (token.to_owned(), wanted.clone());
        if let Some(known) = self.memory().recall(&question, self.clock.now().steady)? {
            return known;
        }
        let decided = match timeout(REPLY_TIMEOUT, review(client, token, wanted)).await {
            Ok(decided) => decided,
            Err(_) => Err(AccessDenial::Unavailable("the API server does not answer".to_owned())),
        };
        let kept = match &decided {
            Ok(()) => ALLOWED,
            Err(AccessDenial::Unauthenticated | AccessDenial::Forbidden(_)) => REFUSED,
            Err(AccessDenial::Unavailable(_)) => return decided,
        };
        self.memory().keep(question, decided.clone(), self.clock.now().steady, kept);
        decided
    }

    fn memory(&self) -> std::sync::MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Memory {
    /// The decision that is known; `None`: it may be reviewed now.
    fn recall(
        &mut self,
        question: &(String, Wanted),
        now: Duration,
    ) -> Result<Option<Decision>, AccessDenial> {
        let known = self.decisions.get(question);
        if let Some((decision, end)) = known
            && now < *end
        {
            return Ok(Some(decision.clone()));
        }
        if self.second != now.as_secs() {
            (self.second, self.reviews) = (now.as_secs(), [0; 3]);
        }
        // A flood of unknown tokens keeps no reader out that was allowed before it.
        let was_allowed = known.is_some_and(|(decision, end)| decision.is_ok() && now < *end + RENEWABLE);
        let [unknown, metrics, positions] = &mut self.reviews;
        let renewed = match &question.1 {
            Wanted::Metrics => metrics,
            Wanted::Position(_) => positions,
        };
        let is_renewal = was_allowed && *renewed < RENEWALS;
        let (count, most) = if is_renewal { (renewed, RENEWALS) } else { (unknown, REVIEWS) };
        if *count >= most {
            return Err(AccessDenial::Unavailable("too many requests; try again in a second".to_owned()));
        }
        *count += 1;
        Ok(None)
    }

    fn keep(&mut self, question: (String, Wanted), decision: Decision, now: Duration, kept: Duration) {
        self.decisions.retain(|_, (decision, end)| {
            now < *end + if decision.is_ok() { RENEWABLE } else { Duration::ZERO }
        });
        if self.decisions.len() >= DECISIONS {
            // Refusals first: unknown tokens must not push out permissions, even expired ones. Positions come
            // next, because one user may ask for any number of them.
            let order = |((_, wanted), (decision, end)): &(&(String, Wanted), &(Decision, Duration))| {
                (decision.is_ok(), *wanted == Wanted::Metrics, *end)
            };
            let first = self.decisions.iter().min_by_key(order).map(|(old, _)| old.clone());
            first.and_then(|old| self.decisions.remove(&old));
        }
        self.decisions.insert(question, (decision, now + kept));
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    let token = token.trim();
    let sound = scheme.eq_ignore_ascii_case("bearer") && !token.is_empty() && token.len() <= TOKEN_BYTES;
    sound.then_some(token)
}

async fn review(client: &kube::Client, token: &str, wanted: &Wanted) -> Decision {
    let question = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token},
    });
    let answer = post(client, "/apis/authentication.k8s.io/v1/tokenreviews", &question).await?;
    if answer["status"]["authenticated"] != true {
        return Err(AccessDenial::Unauthenticated);
    }
    let user = &answer["status"]["user"];
    let mut spec = json!({"user": user["username"]});
    for field in ["uid", "groups", "extra"] {
        if !user[field].is_null() {
            spec[field] = user[field].clone();
        }
    }
    let (kind, attributes) = wanted.attributes();
    spec[kind] = attributes;
    let question = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec,
    });
    let answer = post(client, "/apis/authorization.k8s.io/v1/subjectaccessreviews", &question).await?;
    if answer["status"]["allowed"] == true {
        return Ok(());
    }
    Err(AccessDenial::Forbidden(format!("user {} may not {}", user["username"], wanted.right())))
}

async fn post(client: &kube::Client, path: &str, question: &Value) -> Result<Value, AccessDenial> {
    let request = http::Request::post(path)
        .header(header::CONTENT_TYPE, "application/json")
        .body(question.to_string().into_bytes());
    let unavailable = |error: &dyn std::fmt::Display| AccessDenial::Unavailable(format!("{path}: {error}"));
    let request = request.map_err(|error| unavailable(&error))?;
    client.request(request).await.map_err(|error| match error {
        kube::Error::Api(status) => unavailable(&status.message),
        error => unavailable(&error),
    })
}

#[cfg(test)]
mod tests;
