//! The checks before the controller may act: the API server answers, the account has its rights, the
//! CustomResourceDefinition is served, and no other controller acts beside this one. Each is repeated until
//! it passes, with one line while it fails.
//!
//! Two checks end the program, because a user must run a command: the CustomResourceDefinition is not served
//! for some time, or replicas share the Frameworks and this program does not.

use std::time::Duration;

use framework_api::{crd, name, queue};
use framework_runtime::client::REPLY_TIMEOUT;
use framework_runtime::health::Health;
use http::Request;
use kube::Client;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};
use tracing::{info, warn};

pub mod members;

/// The time between two tries of a failing check.
const PAUSE: Duration = Duration::from_secs(1);
/// The time after which a line is repeated.
const REMIND: Duration = Duration::from_secs(30);

const INSTALL: &str = "install it with: kubectl apply --server-side --force-conflicts -f deploy/crds/";

/// Why the controller does not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The CustomResourceDefinition is not there.
    #[error("gave up after {} s: {problem}", after.as_secs())]
    NoDefinition {
        /// The time-out.
        after: Duration,
        /// The problem.
        problem: String,
    },
    /// Replicas share the Frameworks, and this program would act on all of them.
    #[error(
        "`sharding` is false, and a replica renews the Lease {lease} in the namespace {namespace}: both \
         would act on the same Frameworks; set `sharding: true` in the config file, or end the replicas \
         first: kubectl scale deployment frameworkcontroller --replicas=0 -n {namespace}; then start this \
         program again"
    )]
    BesideReplica {
        /// The Lease of the replica.
        lease: String,
        /// Its namespace.
        namespace: String,
    },
}

/// How long to wait for the CustomResourceDefinition, and how often to check it.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// The time between two checks.
    pub interval: Duration,
    /// The time-out.
    pub timeout: Duration,
}

/// The objects that the controller acts on.
#[derive(Clone, Copy, Debug)]
pub struct Served<'a> {
    /// The only namespace; `None`: all.
    pub namespace: Option<&'a str>,
    /// Whether jobs wait in queues.
    pub queueing: bool,
}

/// Waits until every check passes.
pub async fn ready(
    client: &Client,
    served: Served<'_>,
    patience: Patience,
    health: &Health,
) -> Result<(), Error> {
    let mut line = Line { health, last: None };
    while let Err(problem) = answers(client).await {
        line.say(&problem);
        sleep(PAUSE).await;
    }
    while let Err(problem) = rights(client, served).await {
        line.say(&problem);
        sleep(PAUSE).await;
    }
    let deadline = Instant::now() + patience.timeout;
    while let Err(problem) = definition(client).await {
        line.say(&problem);
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Error::NoDefinition { after: patience.timeout, problem });
        }
        sleep(patience.interval.min(left)).await;
    }
    line.done();
    Ok(())
}

/// The StatefulSet that `deploy/base` had before it had a Deployment, and its Pod.
const LONE: [(&str, &str); 2] = [
    ("StatefulSet", "/apis/apps/v1/namespaces/NAMESPACE/statefulsets/frameworkcontroller"),
    ("Pod", "/api/v1/namespaces/NAMESPACE/pods/frameworkcontroller-0"),
];

/// Waits until no controller of an earlier `deploy/base` is left beside this one, which shares Frameworks
/// with others by Leases. That controller knows none and acts on all Frameworks; `kubectl apply` leaves it
/// there. `host` is the name of this Pod.
pub async fn alone(client: &Client, host: &str, health: &Health) {
    let ordinal = host.strip_prefix("frameworkcontroller-");
    let is_its_own = ordinal.is_some_and(|ordinal| ordinal.parse::<u32>().is_ok());
    if is_its_own {
        return;
    }
    let mut line = Line { health, last: None };
    while let Err(problem) = nobody_else(client).await {
        line.say(&problem);
        sleep(PAUSE).await;
    }
    line.done();
}

async fn nobody_else(client: &Client) -> Result<(), String> {
    let namespace = client.default_namespace();
    for (kind, path) in LONE {
        match request(client, Request::get(path.replace("NAMESPACE", namespace)), None).await {
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Ok(_) => {
                return Err(format!(
                    "the {kind} of an earlier deploy/base acts on all Frameworks; delete it with: \
                     kubectl delete statefulset frameworkcontroller -n {namespace}"
                ));
            }
            Err(error) => {
                return Err(format!(
                    "cannot read the {kind} of an earlier deploy/base: {}; deploy/base/role.yaml allows it",
                    causes(&error)
                ));
            }
        }
    }
    Ok(())
}

/// Logs the failing check: once, and again after a while.
struct Line<'a> {
    health: &'a Health,
    last: Option<(String, Instant)>,
}

impl Line<'_> {
    fn say(&mut self, problem: &str) {
        if self.last.as_ref().is_none_or(|(logged, at)| logged != problem || at.elapsed() >= REMIND) {
            warn!(%problem, "waiting");
            self.last = Some((problem.to_owned(), Instant::now()));
            self.health.set_waiting(Some(format!("waiting: {problem}")));
        }
    }

    fn done(self) {
        self.health.set_waiting(None);
        if self.last.is_some() {
            info!("all start-up checks passed");
        }
    }
}

async fn answers(client: &Client) -> Result<(), String> {
    match request(client, Request::get("/version"), None).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 401 => {
            Err(format!("the API server does not accept the credentials: {}", status.message))
        }
        Err(kube::Error::Api(status)) => {
            Err(format!("the API server answers with {}: {}", status.code, status.message))
        }
        Err(error) => Err(format!("the API server cannot be reached: {}", causes(&error))),
    }
}

/// The rights of the controller: group, resource, verbs.
const RIGHTS: [(&str, &str, &[&str]); 4] = [
    (name::GROUP, "frameworks", &["list", "watch", "get", "delete"]),
    (name::GROUP, "frameworks/status", &["update", "patch"]),
    ("", "configmaps", &["list", "watch", "get", "create", "patch", "delete"]),
    ("", "pods", &["list", "watch", "get", "create", "patch", "delete"]),
];

/// Those of queueing. A replica that shares slots never finishes the LISTs after a grant without them, and
/// would keep its slots without acting for them.
const RIGHTS_OF_QUEUEING: (&str, &str, &[&str]) =
    (queue::GROUP, "queueunits", &["list", "watch", "get", "create", "patch", "delete"]);

/// Checks the rights on Frameworks, their status, ConfigMaps, Pods and QueueUnits, in all namespaces or in
/// the one that is served. Other rights are not checked.
async fn rights(client: &Client, served: Served<'_>) -> Result<(), String> {
    let Served { namespace, queueing } = served;
    let mut missing = Vec::new();
    for (group, resource, verbs) in RIGHTS.into_iter().chain(queueing.then_some(RIGHTS_OF_QUEUEING)) {
        let mut refused = Vec::new();
        for verb in verbs {
            if !allowed(client, namespace, group, resource, verb).await? {
                refused.push(*verb);
            }
        }
        if !refused.is_empty() {
            missing.push(format!("{} {resource}", refused.join("/")));
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let who = whoami(client).await.unwrap_or_else(|| "the account".to_owned());
    let place = namespace.map_or("all namespaces".to_owned(), |name| format!("the namespace {name}"));
    Err(format!(
        "{who} may not {} in {place}; deploy/base/cluster_role.yaml has the rights that it needs",
        missing.join(", ")
    ))
}

async fn allowed(
    client: &Client,
    namespace: Option<&str>,
    group: &str,
    resource: &str,
    verb: &str,
) -> Result<bool, String> {
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {
            "namespace": namespace, "group": group, "resource": resource, "subresource": subresource,
            "verb": verb,
        }},
    });
    let post = Request::post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews");
    match request(client, post, Some(&review)).await {
        Ok(review) => Ok(review["status"]["allowed"] == true),
        // The API server does not answer such reviews: the watches will report missing rights.
        Err(kube::Error::Api(status)) if status.code == 403 || status.code == 404 => Ok(true),
        Err(error) => Err(format!("cannot check the permissions of the account: {}", causes(&error))),
    }
}

async fn whoami(client: &Client) -> Option<String> {
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let post = Request::post("/apis/authentication.k8s.io/v1/selfsubjectreviews");
    let review = request(client, post, Some(&review)).await.ok()?;
    Some(format!("user {:?}", review["status"]["userInfo"]["username"].as_str()?))
}

/// Whether the API server serves Frameworks and their status. Every account may ask that. The
/// CustomResourceDefinition is not read: no role in a namespace could give the right to.
async fn definition(client: &Client) -> Result<(), String> {
    let path = format!("/apis/{}", name::API_VERSION);
    let served = match request(client, Request::get(path), None).await {
        Ok(served) => served,
        Err(kube::Error::Api(status)) if status.code == 404 => Value::Null,
        Err(error) => {
            return Err(format!("API discovery failed: {}", causes(&error)));
        }
    };
    let resources = served["resources"].as_array().map_or(&[][..], Vec::as_slice);
    let is_served = |resource: &str| resources.iter().any(|served| served["name"] == resource);
    match (is_served("frameworks"), is_served("frameworks/status")) {
        (true, true) => Ok(()),
        (false, _) => Err(format!("the CustomResourceDefinition {} is not installed; {INSTALL}", crd::NAME)),
        (true, false) => Err(format!(
            "the CustomResourceDefinition {} has no status subresource: it is not that of this controller; \
             {INSTALL}",
            crd::NAME
        )),
    }
}

async fn request(
    client: &Client,
    builder: http::request::Builder,
    body: Option<&Value>,
) -> Result<Value, kube::Error> {
    let body = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
    let request = builder
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(body)
        .map_err(kube::Error::HttpError)?;
    let silent = |_| {
        let text = format!("no response within {} s", REPLY_TIMEOUT.as_secs());
        kube::Error::Service(text.into())
    };
    timeout(REPLY_TIMEOUT, client.request(request)).await.map_err(silent)?
}

/// The innermost cause: it describes the problem, the outer errors only name the step.
fn causes(error: &kube::Error) -> String {
    if let kube::Error::Api(status) = error {
        return status.message.clone();
    }
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests;
