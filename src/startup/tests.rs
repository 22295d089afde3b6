//! Start-up checks against a fake API server, under a paused clock.

use super::members::apart;
use super::*;

use std::sync::{Arc, Mutex};

use framework_runtime::clock::Clock;
use http::Response;
use kube::client::Body;
use tower::BoxError;

/// A fake API server.
#[derive(Clone, Default)]
struct Fake {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    down: bool,
    /// Verb and resource that are not allowed.
    denied: Vec<(&'static str, &'static str)>,
    /// The resources of the group that are served; `None`: it is not there.
    served: Option<&'static [&'static str]>,
    /// A part of the paths of objects that are there besides.
    present: Option<&'static str>,
    leases: Leases,
    asked: Vec<String>,
    /// The namespace in which a right was asked for.
    asked_in: Option<String>,
}

/// The answer to a LIST of Leases.
#[derive(Default)]
enum Leases {
    /// There are none.
    #[default]
    None,
    /// The API server does not know the kind.
    NotServed,
    /// The account may not list them.
    Refused,
    /// The Lease of this name has a holder, and after this many LISTs it is empty, or deleted.
    Lost(&'static str, usize, bool),
    /// The Lease of this name has this holder and version, which rises by so much after each LIST.
    One(&'static str, &'static str, u64, u64),
}

impl Leases {
    fn answer(&mut self) -> (u16, String) {
        let items = match self {
            Leases::None => json!([]),
            Leases::NotServed => return (404, failure(404, "NotFound", "the server could not find it")),
            Leases::Refused => {
                let (reason, message) = ("Forbidden", "leases is forbidden");
                return (403, failure(403, reason, message));
            }
            Leases::Lost(_, 0, true) => json!([]),
            Leases::Lost(name, left, _) => {
                let (holder, version) = if *left > 0 { ("a/x", "7") } else { ("", "8") };
                *left = left.saturating_sub(1);
                let metadata = json!({"name": name, "resourceVersion": version});
                json!([{"metadata": metadata, "spec": {"holderIdentity": holder, "leaseDurationSeconds": 5}}])
            }
            Leases::One(name, holder, version, rise) => {
                let metadata = json!({"name": name, "resourceVersion": version.to_string()});
                *version += *rise;
                json!([{"metadata": metadata, "spec": {"holderIdentity": holder, "leaseDurationSeconds": 5}}])
            }
        };
        (200, json!({"items": items}).to_string())
    }
}

fn failure(code: u16, reason: &str, message: &str) -> String {
    json!({"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message})
        .to_string()
}

impl Fake {
    fn client(&self) -> Client {
        let fake = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let fake = fake.clone();
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect_bytes().await?;
                let (status, answer) = fake.answer(head.uri.path(), &body)?;
                Ok::<_, BoxError>(Response::builder().status(status).body(Body::from(answer.into_bytes()))?)
            }
        });
        Client::new(service, "default")
    }

    fn answer(&self, path: &str, body: &[u8]) -> Result<(u16, String), BoxError> {
        let mut state = self.state.lock().unwrap();
        state.asked.push(path.to_owned());
        if state.down {
            return Err(
                std::io::Error::new(std::io::ErrorKind::ConnectionRefused, "Connection refused").into()
            );
        }
        let answer = match path.rsplit('/').next() {
            Some("version") => json!({"major": "1"}),
            Some("selfsubjectaccessreviews") => {
                let review: Value = serde_json::from_slice(body)?;
                let asked = &review["spec"]["resourceAttributes"];
                state.asked_in = asked["namespace"].as_str().map(str::to_owned);
                let denied = state
                    .denied
                    .iter()
                    .any(|(verb, resource)| asked["verb"] == *verb && asked["resource"] == *resource);
                json!({"status": {"allowed": !denied}})
            }
            Some("selfsubjectreviews") => json!({"status": {"userInfo": {"username": "fc"}}}),
            Some("leases") => return Ok(state.leases.answer()),
            _ if state.present.is_some_and(|part| path.contains(part)) => json!({}),
            _ => match &state.served {
                Some(served) => {
                    let resources = served.iter().map(|name| json!({"name": name}));
                    json!({"resources": resources.collect::<Vec<_>>()})
                }
                None => return Ok((404, failure(404, "NotFound", "no"))),
            },
        };
        Ok((200, answer.to_string()))
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock().unwrap());
    }
}

const OURS: &[&str] = &["frameworks", "frameworks/status"];

fn health() -> Health {
    Health::new(Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap()))
}

const SERVED: Served<'static> = Served { namespace: None, queueing: true };
const PATIENCE: Patience = Patience { interval: Duration::from_secs(1), timeout: Duration::from_secs(60) };

/// The answer to probes after the checks have run for a while.
async fn waiting_for(fake: &Fake) -> Option<String> {
    let health = health();
    let client = fake.client();
    let ready = timeout(Duration::from_secs(30), ready(&client, SERVED, PATIENCE, &health)).await;
    assert!(ready.is_err(), "it waits: {ready:?}");
    health.not_ready()
}

#[tokio::test(start_paused = true)]
async fn a_complete_cluster_starts_at_once() {
    let fake = Fake::default();
    fake.change(|state| state.served = Some(OURS));
    let begun = Instant::now();
    ready(&fake.client(), SERVED, PATIENCE, &health()).await.unwrap();
    assert_eq!(begun.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn an_unreachable_api_server_is_waited_for() {
    let fake = Fake::default();
    fake.change(|state| state.down = true);
    let words = waiting_for(&fake).await.unwrap();
    assert_eq!(words, "waiting: the API server cannot be reached: Connection refused");
    fake.change(|state| {
        state.down = false;
        state.served = Some(OURS);
    });
    ready(&fake.client(), SERVED, PATIENCE, &health()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn missing_rights_are_named_with_the_account() {
    let fake = Fake::default();
    fake.change(|state| {
        state.denied =
            vec![("create", "pods"), ("delete", "pods"), ("list", "frameworks"), ("watch", "queueunits")];
        state.served = Some(OURS);
    });
    let words = waiting_for(&fake).await.unwrap();
    let expected = "waiting: user \"fc\" may not list frameworks, create/delete pods, watch queueunits in all \
                    namespaces; deploy/base/cluster_role.yaml has the rights that it needs";
    assert_eq!(words, expected);
}

#[tokio::test(start_paused = true)]
async fn rights_on_queue_units_are_needed_for_queueing_only() {
    let fake = Fake::default();
    fake.change(|state| {
        state.denied = vec![("list", "queueunits"), ("watch", "queueunits")];
        state.served = Some(OURS);
    });
    assert!(waiting_for(&fake).await.unwrap().contains("may not list/watch queueunits in all namespaces"));
    let without_queues = Served { queueing: false, ..SERVED };
    ready(&fake.client(), without_queues, PATIENCE, &health()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_missing_definition_fails_with_the_command_that_installs_it() {
    let fake = Fake::default();
    let seldom = Patience { interval: Duration::from_secs(45), ..PATIENCE };
    let begun = Instant::now();
    assert!(ready(&fake.client(), SERVED, seldom, &health()).await.is_err());
    assert_eq!(begun.elapsed().as_secs(), 60, "not after 45 s");
    let begun = Instant::now();
    let error = ready(&fake.client(), SERVED, PATIENCE, &health()).await.unwrap_err().to_string();
    let expected = "gave up after 60 s: the CustomResourceDefinition \
        frameworks.frameworkcontroller.microsoft.com is not installed; \
        install it with: kubectl apply --server-side --force-conflicts -f deploy/crds/";
    assert_eq!(error, expected);
    assert!(begun.elapsed() >= Duration::from_secs(59) && begun.elapsed() <= Duration::from_secs(61));
}

#[tokio::test(start_paused = true)]
async fn frameworks_must_be_served_with_a_status_subresource() {
    let fake = Fake::default();
    fake.change(|state| state.served = Some(&["others"]));
    assert!(waiting_for(&fake).await.unwrap().contains(" is not installed; "));
    fake.change(|state| state.served = Some(&["frameworks"]));
    assert!(waiting_for(&fake).await.unwrap().contains("has no status subresource"));
}

#[tokio::test(start_paused = true)]
async fn rights_are_asked_for_in_the_namespace_that_is_served() {
    let fake = Fake::default();
    fake.change(|state| {
        state.denied = vec![("list", "pods")];
        state.served = Some(OURS);
    });
    let (health, client) = (health(), fake.client());
    let ready = ready(&client, Served { namespace: Some("team-a"), ..SERVED }, PATIENCE, &health);
    assert!(timeout(Duration::from_secs(30), ready).await.is_err());
    let words = health.not_ready().unwrap();
    assert!(words.contains("may not list pods in the namespace team-a; "), "{words}");
    assert_eq!(fake.state.lock().unwrap().asked_in, Some("team-a".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_replica_waits_until_the_stateful_set_and_its_pod_are_gone() {
    for (part, kind) in [("/statefulsets/frameworkcontroller", "StatefulSet"), ("/pods/", "Pod")] {
        let (fake, health) = (Fake::default(), health());
        fake.change(|state| state.present = Some(part));
        let client = fake.client();
        let waited = timeout(Duration::from_secs(30), alone(&client, "frameworkcontroller-7d4f-x", &health));
        assert!(waited.await.is_err(), "it waits beside the {kind}");
        let expected = format!(
            "waiting: the {kind} of an earlier deploy/base acts on all Frameworks; delete it with: \
             kubectl delete statefulset frameworkcontroller -n default"
        );
        assert_eq!(health.not_ready(), Some(expected));
        fake.change(|state| state.present = None);
        alone(&client, "frameworkcontroller-7d4f-x", &health).await;
        fake.change(|state| state.present = Some(part));
        alone(&client, "frameworkcontroller-0", &health).await;
    }
}

const LEASE: &str = "frameworkcontroller-member-a";
/// The shortest duration that a Lease counts for: longer than that of the fake's Lease.
const DURATION: Duration = Duration::from_secs(10);

/// The outcome beside these Leases, and the time until then.
async fn apart_from(leases: Leases) -> (Result<(), String>, Duration) {
    let (fake, health, begun) = (Fake::default(), health(), Instant::now());
    fake.change(|state| state.leases = leases);
    let outcome = apart(&fake.client(), DURATION, &health).await.map_err(|error| error.to_string());
    (outcome, begun.elapsed())
}

#[tokio::test(start_paused = true)]
async fn a_program_without_sharding_does_not_start_beside_a_replica() {
    let (outcome, after) = apart_from(Leases::One(LEASE, "frameworkcontroller-member-a/x", 7, 1)).await;
    let expected = "`sharding` is false, and a replica renews the Lease frameworkcontroller-member-a in the \
                    namespace default: both would act on the same Frameworks; set `sharding: true` in the \
                    config file, or end the replicas first: \
                    kubectl scale deployment frameworkcontroller --replicas=0 -n default; then start this \
                    program again";
    assert_eq!(outcome.unwrap_err(), expected);
    assert_eq!(after, PAUSE, "the second LIST shows it");
}

#[tokio::test(start_paused = true)]
async fn a_program_without_sharding_starts_once_an_old_lease_has_run_out() {
    for holder in ["frameworkcontroller-member-a/x", "somebody"] {
        let (outcome, after) = apart_from(Leases::One(LEASE, holder, 7, 0)).await;
        // It was seen unchanged for 1.2 times 10 s, and requests may land for 19.2 s after that.
        assert_eq!((outcome, after), (Ok(()), Duration::from_secs(32)), "{holder}");
    }
    let (fake, health) = (Fake::default(), health());
    fake.change(|state| state.leases = Leases::One(LEASE, "a/x", 7, 0));
    let client = fake.client();
    assert!(timeout(DURATION, apart(&client, DURATION, &health)).await.is_err(), "it waits");
    let words = health.not_ready().unwrap();
    assert!(words.contains("the Lease frameworkcontroller-member-a in the namespace default"), "{words}");
}

#[tokio::test(start_paused = true)]
async fn a_program_without_sharding_waits_for_requests_of_a_holder_that_is_gone() {
    for is_deleted in [false, true] {
        let (outcome, after) = apart_from(Leases::Lost(LEASE, 3, is_deleted)).await;
        // The fourth LIST shows it after 3 s: 12 s and 19.2 s more.
        assert_eq!((outcome, after), (Ok(()), Duration::from_secs(35)), "deleted: {is_deleted}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_program_without_sharding_starts_at_once_where_no_replica_can_be() {
    for leases in [
        Leases::None,
        Leases::NotServed,
        Leases::One(LEASE, "", 7, 1),
        Leases::One("frameworkcontroller-leader", "frameworkcontroller-member-a/x", 7, 1),
        Leases::One("someone-else", "someone", 7, 1),
    ] {
        assert_eq!(apart_from(leases).await, (Ok(()), Duration::ZERO));
    }
    assert_eq!(apart_from(Leases::Refused).await, (Ok(()), 2 * PAUSE), "a new role may not be in force yet");
}
